import numpy as np

from peakgate.family import In, Out, Scratch, Temp, Value, family, kernel, launch

GRID = lambda n: -(-n // 256)
BINS = 64
SIZES = [1 << 18]


def per_bin(function, start, dtype):
    def reference(xp, bin, x):
        b, v = (bin, x) if xp is np else (bin.get(), x.get())
        out = np.full(BINS, start, v.dtype if dtype is None else dtype)
        function.at(out, b, v)
        return xp.asarray(out)
    return reference


def binned(name, first, dtype, reference, fill, out=None, extra={}, takes="out bin x n", more=()):
    return kernel("sync.cu", name=name,
                  arguments=lambda n: {"out": Out(BINS, dtype=out or dtype), "bin": In(n, dtype="int32", data=(0, BINS)), "x": In(n, dtype=dtype), "n": Value(n), "count": Value(BINS), **({"v": Value(fill, out or dtype)} if fill is not None else {}), **{k: f() for k, f in extra.items()}},
                  launches=[*(launch(e, t, grid=1, block=256) for e, t in first), launch(name, takes, grid=GRID, block=256), *(launch(e, t, grid=1, block=256) for e, t in more)],
                  bytes=lambda n: 8 * n, reference=reference, sizes=SIZES)


MIN = per_bin(np.minimum, 2**63 - 1, None)
ADD = per_bin(np.add, 0, "int32")
WIDE = per_bin(np.add, 0, "int64")
FILL = [("fill_f", "out count v")]
FILL_LL = [("fill_ll", "out count v")]
CLEAR = [("clear", "out count")]


def total(name):
    return kernel("sync.cu", name=name, entry=name, arguments=lambda n: [Out(1, dtype="int64"), Scratch(16, dtype="int64"), Scratch(1, dtype="uint32"), In(n, dtype="int32"), Value(n)],
                  grid=16, block=256, bytes=lambda n: 4 * n, reference=lambda xp, x: x.sum(dtype="int64", keepdims=True), sizes=[1 << 20])


def distinct(name):
    return kernel("sync.cu", name=name, entry=name, arguments=lambda m, n: [Out(m, dtype="int32"), In(m, n, dtype="int32", data=(-300, 300)), Value(n)], grid=lambda m, n: m, block=128, bytes=lambda m, n: 4 * m * n,
                  reference=lambda xp, x: (1 + (xp.diff(xp.sort(x, axis=1), axis=1) != 0).sum(axis=1)).astype("int32"), sizes=[(256, 4096)])


FAMILY = family(
    binned("max_cas", FILL, "float32", per_bin(np.maximum, -3e38, None), -3e38),
    *(binned(name, FILL, "float32", per_bin(np.maximum, -3e38, None), -3e38) for name in ("max_sign", "max_bits")),
    binned("min_i64", FILL_LL, "int64", MIN, 2**63 - 1), binned("min_u64", FILL_LL, "int64", MIN, 2**63 - 1), binned("min_cas32", FILL_LL, "int64", MIN, 2**63 - 1),
    *(binned(name, [*CLEAR, ("clear", "lock count")], "int32", ADD, None, extra={"lock": lambda: Temp(BINS, dtype="int32")}, takes="out lock bin x n") for name in ("lock_sum", "lock_tries")),
    *(binned(name, CLEAR, "int32", ADD, None) for name in ("add_bins", "add_leader")),
    *(binned(name, FILL_LL, "int32", WIDE, 0, out="int64") for name in ("add_i64", "add_u32", "add_halves")),
    binned("xor_bins", CLEAR, "int32", per_bin(np.bitwise_xor, 0, "int32"), None),
    total("last_block"), total("last_block_keeps"), total("wrapping_counter"),
    kernel("sync.cu", name="grid_total", entry="grid_total", arguments=lambda n: [Out(n), Scratch(8), In(n), Value(n)], grid=8, block=256, cooperative=True, bytes=lambda n: 8 * n, reference=lambda xp, x: x - x.mean(), sizes=[1 << 20]),
    distinct("distinct_minus"), distinct("distinct_wide"),
    kernel("sync.cu", name="scale_calls", entry="scale_calls", arguments=lambda n: [Out(n), In(n), Value(n)], grid=GRID, block=256, bytes=lambda n: 8 * n, reference=lambda xp, x: x / 2 + 1, sizes=[1 << 20]),
)
