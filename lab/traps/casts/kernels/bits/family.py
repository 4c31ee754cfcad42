from peakgate.family import In, Out, Value, family, kernel

COMMON = dict(block=256, sizes=[1 << 20])
PAIRS = dict(edges=[2, 34, 254, 1000, 4098])


def cast(name, out, dtype, reference, inputs=1, data=None, per=256, **more):
    return kernel("bits.cu", name=name, entry=name, grid=lambda n: -(-n // per),
                  arguments=lambda n: [Out(n, dtype=out), *(In(n, dtype=dtype, data=data) for _ in range(inputs)), Value(n)],
                  bytes=lambda n: 2 * n, reference=reference, **COMMON, **more)


def same(xp, x):
    return x


def pack(xp, x):
    return xp.clip(xp.rint(8 * x), -8, 7).astype("int8")


FAMILY = family(
    cast("e4m3_encode", "float8_e4m3fn", "float32", lambda xp, x: xp.clip(8 * x, -448, 448)),
    cast("e4m3_decode", "float32", "float8_e4m3fn", same),
    cast("e4m3_decode_bits", "float32", "float8_e4m3fn", same),
    cast("e5m2_decode", "float32", "float8_e5m2", same),
    cast("e5m2_decode_bits", "float32", "float8_e5m2", same),
    *(cast(name, "float32", "int4", lambda xp, x: x.astype("float32"), per=512, **PAIRS) for name in ("unpack4", "unpack4_xor", "unpack4_limit")),
    *(cast(name, "int4", "float32", pack, per=512, **PAIRS) for name in ("pack4", "pack4_wraps")),
    cast("half_by_int", "float16", "int32", lambda xp, x: x.astype("float64"), data=(-60000, 60000)),
    *(cast(name, "uint8", "uint8", lambda xp, a, b: ((a.astype("int32") + b + 1) >> 1).astype("uint8"), 2) for name in ("average_u8", "average_u8_bits")),
    cast("average_i16", "int16", "int16", lambda xp, a, b: ((a.astype("int32") + b) >> 1).astype("int16"), 2),
)
