from peakgate.family import In, Out, Value, family, kernel

COMMON = dict(grid=lambda n: -(-n // 256), block=256, sizes=[1 << 20])


def cast(name, out, dtype, reference, data=None, **more):
    return kernel("quant.cu", name=name, entry=name,
                  arguments=lambda n: [Out(n, dtype=out), In(n, dtype=dtype, data=data), Value(n)],
                  bytes=lambda n: 2 * n, reference=reference, **COMMON, **more)


def q8(name):
    return cast(name, "int8", "float32", lambda xp, x: xp.clip(xp.rint(x * 16), -128, 127).astype("int8"))


def u32(name):
    return cast(name, "uint32", "float32", lambda xp, x: xp.clip(x, 0, 4294967295).astype("uint32"))


def saturated(name):
    return cast(name, "int32", "int64", lambda xp, x: xp.clip(x, -(2**31), 2**31 - 1).astype("int32"))


def triple(name, dtype, **more):
    return cast(name, dtype, dtype, lambda xp, x: 3 * x, **more)


FAMILY = family(
    *(q8(name) for name in ("round_even", "round_even_int", "round_away", "round_floor_half", "no_low_clamp", "clamp_127")),
    u32("to_u32"), u32("to_u32_by_int"),
    cast("dequant", "float32", "int8", lambda xp, q: 0.05 * (q.astype("float32") - 3)),
    cast("dequant_wraps", "float32", "int8", lambda xp, q: 0.05 * (q.astype("float32") - 3)),
    cast("u32_to_float", "float32", "uint32", lambda xp, x: x.astype("float64")),
    cast("u32_to_float_signed", "float32", "uint32", lambda xp, x: x.astype("float64")),
    cast("u64_to_double", "float64", "uint64", lambda xp, x: x.astype("float64")),
    saturated("i64_saturate"), saturated("i64_saturate_high"), saturated("i64_saturate_word"),
    triple("triple_bf16", "bfloat16"), triple("triple_bf16_fixed", "bfloat16"), triple("triple_half_fixed", "float16", data=(-30, 30)),
    cast("bf16_by_bits", "bfloat16", "float32", lambda xp, x: x),
)
