from peakgate.family import In, Out, Value, family, kernel


def ints(name, reference, dtype="uint32", out=None, inputs=2, **more):
    return kernel("ints.cu", name=name, entry=name, arguments=lambda n: [Out(n, dtype=out or dtype), *(In(n, dtype=dtype) for _ in range(inputs)), Value(n)],
                  grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 2 * n, reference=reference, sizes=[1 << 20], **more)


def one(name, reference, dtype="uint32", out="int32"):
    return ints(name, reference, dtype, out, 1)


def bits(xp, x):
    return sum((x >> xp.uint32(k)) & xp.uint32(1) for k in range(32)).astype("int32")


def clz(xp, x):
    return 32 - sum((x >= 2**k).astype("int32") for k in range(32))


def ctz(xp, x):
    return sum(((x & xp.uint32(2 ** (k + 1) - 1)) == 0).astype("int32") for k in range(32))


def high(xp, a, b):
    return ((a.astype("int64") * b) >> 32).astype("int32")


def saturated(xp, a, b):
    return xp.clip(a.astype("int64") + b, -(2**31), 2**31 - 1).astype("int32")


def rotated(xp, a, b):
    k = (b & xp.uint32(31)).astype("uint64")
    w = a.astype("uint64")
    return (((w << k) | (w >> (32 - k))) & xp.uint64(0xFFFFFFFF)).astype("uint32")


def shifted(xp, a, b):
    return xp.where(b < 32, a.astype("uint64") << xp.minimum(b, 32).astype("uint64"), 0).astype("uint32")


FAMILY = family(
    one("abs_wrap", lambda xp, x: abs(x), "int32"),
    *(one(name, lambda xp, x: abs(x.astype("int64")).astype("uint32"), "int32", "uint32") for name in ("abs_u32", "abs_saturate")),
    one("abs_i8", lambda xp, x: abs(x), "int8", "int8"),
    *(one(name, clz) for name in ("clz_lib", "clz_float", "clz_round")),
    *(one(name, ctz) for name in ("ctz", "ctz_ffs")),
    *(one(name, bits) for name in ("popc", "popc_swar", "popc_nibbles")),
    *(ints(name, high, "int32") for name in ("mulhi_lib", "mulhi_unsigned")),
    *(ints(name, saturated, "int32") for name in ("add_saturate", "add_saturate_bits", "add_saturate_low")),
    *(ints(name, rotated) for name in ("rotate", "rotate_shift")),
    *(ints(name, shifted) for name in ("shift_wide", "shift_masked")),
    ints("average_floor", lambda xp, a, b: ((a.astype("int64") + b) >> 1).astype("int32"), "int32"),
    ints("divide_floor", lambda xp, a, b: (a.astype("int64") // (b | 1)).astype("int32"), "int32"),
    ints("divide_trunc", lambda xp, a, b: a // ((b & 1023) + 1), "int32"),
    ints("divide_float", lambda xp, a, b: a // (b | xp.uint32(1))),
    *(ints(name, lambda xp, a, b: xp.gcd(a, b)) for name in ("gcd_u32", "gcd_binary", "gcd_zero", "gcd_steps")),
)
