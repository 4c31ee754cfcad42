from peakgate.family import In, Out, Value, family, kernel


def ints(name, reference, dtype="uint64", out=None, inputs=2, **more):
    return kernel("wide.cu", name=name, entry=name, arguments=lambda n: [Out(n, dtype=out or dtype), *(In(n, dtype=dtype) for _ in range(inputs)), Value(n)],
                  grid=lambda n: -(-n // 256), block=256, bytes=lambda n: 2 * n, reference=reference, sizes=[1 << 20], **more)


def one(name, reference, dtype="uint64", out="int32"):
    return ints(name, reference, dtype, out, 1)


def bits(xp, x):
    return sum((x >> xp.uint64(k)) & xp.uint64(1) for k in range(64)).astype("int32")


def clz(xp, x):
    return 64 - sum(((x >> xp.uint64(k)) != 0).astype("int32") for k in range(64))


def high(xp, a, b):
    m, s = xp.uint64(0xFFFFFFFF), xp.uint64(32)
    p = (a & m) * (b & m)
    q = (a >> s) * (b & m) + (p >> s)
    r = (a & m) * (b >> s) + (q & m)
    return (a >> s) * (b >> s) + (q >> s) + (r >> s)


def mod_mul(xp, a, b):
    p = xp.uint64(2**31 - 1)
    return (a % p) * (b % p) % p


def root(xp, x):
    r = xp.minimum(xp.sqrt(x.astype("float64")), 2.0**32 - 1).astype("uint64")
    one = xp.uint64(1)
    r = xp.where(r * r > x, r - one, r)
    return xp.where((r < xp.uint64(2**32 - 1)) & ((r + one) * (r + one) <= x), r + one, r).astype("uint32")


FAMILY = family(
    one("triple", lambda xp, x: 3 * x, "int64", "int64"),
    one("popc64", bits), one("popc64_words", bits), one("clz64_words", clz), one("clz64_double", clz),
    ints("mulhi64", high), ints("mulhi64_words", high), ints("mulhi64_carry", high),
    ints("gcd64", lambda xp, a, b: xp.gcd(a, b)), ints("gcd64_first", lambda xp, a, b: xp.gcd(a, b)),
    *(ints(name, lambda xp, a, b: xp.maximum(a, b), "int64") for name in ("max64", "max64_words")),
    ints("equal64", lambda xp, a, b: (a == b).astype("int32"), "int64", "int32"),
    ints("compare64", lambda xp, a, b: (a > b).astype("int32") - (a < b).astype("int32"), "int64", "int32"),
    ints("mod_mul", mod_mul), ints("mod_mul_late", mod_mul),
    ints("average64", lambda xp, a, b: (a >> 1) + (b >> 1) + (a & b & 1), "int64"),
    one("swap_bytes", lambda xp, x: x.view("uint8").reshape(-1, 8)[:, ::-1].copy().view("uint64").reshape(-1), out="uint64"),
    one("isqrt", root, out="uint32"), one("isqrt_double", root, out="uint32"),
    ints("dot_u16", lambda xp, a, b: a.astype("uint32") * b, "uint16", "uint32"),
    ints("sat_u16", lambda xp, a, b: xp.minimum(a.astype("int32") + b, 65535).astype("uint16"), "uint16"),
    ints("sat_i16", lambda xp, a, b: xp.clip(a.astype("int32") - b, -32768, 32767).astype("int16"), "int16"),
    ints("sat_i8x4", lambda xp, a, b: xp.clip(a.astype("int32") + b, -128, 127).astype("int8"), "int8"),
)
