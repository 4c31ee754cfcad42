import numpy as np

from peakgate.family import In, InOut, Out, Value, family, kernel, launch

COMMON = dict(grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 8 * n, sizes=[1 << 20])
TILES = dict(grid=lambda m, n: (-(-n // 32), -(-m // 32)), block=(32, 8), bytes=lambda m, n: 2 * m * n, sizes=[(1024, 1024)])


def turn(name, dtype):
    return kernel("moves.cu", name=name, entry=name, arguments=lambda m, n: [Out(n, m, dtype=dtype), In(m, n, dtype=dtype), Value(m), Value(n)], reference=lambda xp, x: x.T, **TILES)


def in_place(name):
    return kernel("moves.cu", name=name, entry=name, arguments=lambda n: [InOut(n, n), Value(n)], reference=lambda xp, x: x.T.copy(), grid=lambda n: (-(-n // 32), -(-n // 32)), block=(32, 8),
                  bytes=lambda n: 8 * n * n, sizes=[1024])


def gather(name, low, dtype="float32", index="int32"):
    return kernel("moves.cu", name=name, entry=name, arguments=lambda n: [Out(n, dtype=dtype), In(n, dtype=dtype), In(n, dtype=index, data=(low(n), n)), Value(n)],
                  reference=lambda xp, x, at: x[at], **COMMON)


def added(xp, x, at):
    out = xp.zeros_like(x)
    np.add.at(out, at, x) if xp is np else __import__("cupyx").scatter_add(out, at, x)
    return out


def spread(xp, x, at):
    return xp.sqrt(xp.bincount(at, weights=x * x, minlength=len(x)))


def scatter(name, first, dtype, **more):
    return kernel("moves.cu", name=name, arguments=lambda n: {"out": Out(n, dtype=dtype), "x": In(n, dtype=dtype), "at": In(n, dtype="int32", data=(0, n)), "n": Value(n)},
                  launches=[launch(first, "out n", grid=COMMON["grid"], block=256), launch(name, "out x at n", grid=COMMON["grid"], block=256)],
                  reference=added, bytes=lambda n: 12 * n, sizes=[1 << 20], **more)


def permuted(name):
    return kernel("moves.cu", name=name, entry=name, arguments=lambda a, b, c: [Out(c, a, b), In(a, b, c), Value(a), Value(b), Value(c)], reference=lambda xp, x: x.transpose(2, 0, 1),
                  grid=lambda a, b, c: -(-a * b * c // 256), block=256, bytes=lambda a, b, c: 8 * a * b * c, sizes=[(64, 100, 128)])


def each(name, reference, dtype="float32", inputs=1, by=(), out=1):
    return kernel("moves.cu", name=name, entry=name, arguments=lambda n: [Out(out * n, dtype=dtype), *(In(n, dtype=dtype) for _ in range(inputs)), Value(n), *(Value(v) for v in by)], reference=reference, **COMMON)


def interleaved(xp, a, b):
    return xp.stack([a, b], axis=1).reshape(-1)


FAMILY = family(
    turn("turn_f32", "float32"), turn("turn_u8", "uint8"), turn("turn_f64", "float64"), turn("turn_i64", "int64"), turn("turn_low", "int64"),
    in_place("turn_in_place"), in_place("turn_in_place_tiles"),
    gather("gather", lambda n: 0), gather("gather_wrap", lambda n: -n), gather("gather_unsigned", lambda n: -n), gather("gather_half", lambda n: 0, "float16", "int64"),
    scatter("scatter_add", "clear", "float32", scale=spread, tolerance=1e-5), scatter("scatter_add_i", "clear_i", "int32"), scatter("scatter_warp", "clear_i", "int32"), scatter("scatter_peers", "clear_i", "int32"),
    permuted("permute3"), permuted("permute3_equal"),
    each("reverse_vec4", lambda xp, x: x[::-1]), each("reverse_vec4_order", lambda xp, x: x[::-1]),
    each("roll", lambda xp, x: xp.roll(x, 5), "uint16", by=(5,)),
    each("where_zero", lambda xp, a, b: xp.where(a != 0, a, b), inputs=2), each("where_truth", lambda xp, a, b: xp.where(a != 0, a, b), inputs=2),
    each("copy_c64", lambda xp, x: x[::-1], "complex64"), each("interleave", interleaved, "int32", 2, out=2),
)
