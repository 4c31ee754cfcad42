from peakgate.family import In, Out, Value, family, kernel


def rows(name, reference, dtype="float32", out=None, data=None, threads=False, **more):
    return kernel("scans.cu", name=name, entry=name,
                  arguments=lambda m, n: [Out(m, n, dtype=out or dtype), In(m, n, dtype=dtype, data=data), *([Value(m)] if threads else []), Value(n)],
                  grid=lambda m, n: -(-m // 256) if threads else m, block=256, bytes=lambda m, n: 4 * m * n, reference=reference, sizes=[(128, 8192)], **more)


def sums(name, dtype="float32", out=None, **more):
    return rows(name, lambda xp, x: xp.cumsum(x, axis=1, dtype=out or ("float64" if "float" in dtype else dtype)), dtype, out, **more)


def floats(name, dtype="float32", **more):
    return sums(name, dtype, terms=lambda m, n: n, **more)


def running(xp, x):
    y, d = x.copy(), 1
    while d < x.shape[1]:
        y[:, d:] = xp.maximum(y[:, d:], y[:, :-d].copy())
        d *= 2
    return y


def highest(name, dtype):
    return rows(name, running, dtype)


def rank(name):
    return rows(name, lambda xp, x: xp.cumsum(x != 0, axis=1).astype("int32"), "uint8", "int32")


def by_segments(xp, x, flag):
    y = xp.empty_like(x)
    s = xp.zeros_like(x[:, 0])
    for k in range(64):
        s = xp.where(flag[:, k] != 0, x[:, k], s + x[:, k])
        y[:, k] = s
    return y


def segmented(name):
    return kernel("scans.cu", name=name, entry=name, arguments=lambda n: [Out(n, 64), In(n, 64), In(n, 64, dtype="uint8"), Value(n)],
                  grid=lambda n: -(-n // 64), block=64, bytes=lambda n: 9 * 64 * n, reference=by_segments, sizes=[1 << 14])


FAMILY = family(
    floats("sum_f32"), floats("sum_tiles8"), floats("sum_f64", "float64"),
    rows("exclusive_i32", lambda xp, x: xp.cumsum(x, axis=1, dtype="int32") - x, "int32"),
    sums("sum_i64", "int64"), sums("sum_i32_to_i64", "int32", "int64", data=(-1000, 1000)), sums("sum_i64_carry", "int32", "int64"),
    highest("max_f32", "float32"), highest("max_f32_low", "float32"), highest("max_i32", "int32"), highest("max_i32_zero", "int32"),
    rank("rank_u8"), rank("rank_u8_add"),
    sums("sum_i8", "int8", "int32"), sums("sum_i8_short", "int8", "int32"),
    segmented("segmented"), segmented("segmented_one"),
    rows("product", lambda xp, x: xp.cumprod(x, axis=1), data=(0.9, 1.1), terms=lambda m, n: n),
    rows("reverse_i32", lambda xp, x: xp.cumsum(x[:, ::-1], axis=1, dtype="int32")[:, ::-1], "int32"),
    rows("bf16_float", lambda xp, x: xp.cumsum(x, axis=1), "bfloat16", data=(0, 1), threads=True),
    rows("bf16_carry", lambda xp, x: xp.cumsum(x, axis=1), "bfloat16", data=(0, 1), threads=True),
)
