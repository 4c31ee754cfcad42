from peakgate.family import In, Out, Temp, Value, family, kernel, launch


def counts(name, dtype, reference, data=None, blocks=lambda n: 24, **more):
    return kernel("counts.cu", name=name, arguments=lambda n: {"out": Out(256, dtype="uint32"), "in": In(n, dtype=dtype, data=data), "n": Value(n), "bins": Value(256)},
                  launches=[launch("clear", "out bins", grid=1, block=256), launch(name, "out in n", grid=blocks, block=256)],
                  bytes=lambda n: n, reference=reference, sizes=[1 << 20], **more)


def count(xp, keys):
    return xp.bincount(keys, minlength=256)[:256].astype("uint32")


def u8(name, **more):
    return counts(name, "uint8", lambda xp, x: count(xp, x), **more)


def unit(name):
    return counts(name, "float32", lambda xp, x: xp.histogram(x, bins=256, range=(0, 1))[0].astype("uint32"))


def weights(xp, key, w):
    return xp.bincount(key, weights=w, minlength=256)


def spread(xp, key, w):
    return xp.sqrt(xp.bincount(key, weights=w * w, minlength=256))


ARGUMENTS = lambda n: {"out": Out(256), "key": In(n, dtype="uint8"), "w": In(n), "n": Value(n), "bins": Value(256)}
FAMILY = family(
    *(u8(name) for name in ("global_u8", "shared_u8")),
    *(u8(name, blocks=lambda n: -(-n // 1024)) for name in ("packed_bytes", "packed_halves")),
    u8("warp_match"), u8("warp_distinct"), u8("rounds16", blocks=lambda n: min(-(-n // 256), 64)),
    *(counts(name, "uint16", lambda xp, x: count(xp, x >> 8)) for name in ("high_u16", "sentinel_u16")),
    unit("unit_bins"), unit("unit_bins_open"), unit("unit_bins_trunc"),
    *(counts(name, "int64", lambda xp, x: count(xp, x % 200)) for name in ("modulo_i64", "modulo_i64_abs")),
    kernel("counts.cu", name="weighted", arguments=ARGUMENTS, launches=[launch("clear_f", "out bins", grid=1, block=256), launch("weighted", "out key w n", grid=24, block=256)],
           bytes=lambda n: 5 * n, reference=weights, scale=spread, terms=lambda n: n, sizes=[1 << 20]),
    kernel("counts.cu", name="weighted_fixed", arguments=lambda n: {**ARGUMENTS(n), "sum": Temp(256, dtype="int64")},
           launches=[launch("clear_ll", "sum", grid=1, block=256), launch("weighted_fixed", "sum key w n", grid=24, block=256), launch("from_fixed", "out sum", grid=1, block=256)],
           bytes=lambda n: 5 * n, reference=weights, scale=spread, terms=lambda n: n, sizes=[1 << 20]),
    *(counts(name, "int32", lambda xp, x: count(xp, x), data=(0, 256), blocks=lambda n: -(-n // 2048)) for name in ("by_runs", "runs_short")),
)
