from peakgate.family import In, Out, Value, family, kernel

COMMON = dict(grid=lambda n: -(-n // 256), block=256, sizes=[1 << 20])


def each(name, reference, dtype, inputs=1, data=None):
    return kernel("half.cu", name=name, entry=name,
                  arguments=lambda n: [Out(n, dtype=dtype), *(In(n, dtype=dtype, data=data) for _ in range(inputs)), Value(n)],
                  bytes=lambda n: (1 + inputs) * n * {"float64": 8}.get(dtype, 2), reference=reference, **COMMON)


FAMILY = family(
    each("squash", lambda xp, x: x * x / (1 + abs(x)), "float16"),
    each("squash_half", lambda xp, x: x * x / (1 + abs(x)), "float16"),
    each("mean3", lambda xp, a, b, c: (a + b + c) / 3, "float16", 3),
    each("mean3_half", lambda xp, a, b, c: (a + b + c) / 3, "float16", 3, data=(0, 40000)),
    each("swish_bf16", lambda xp, x: x / (1 + xp.exp(-x)), "bfloat16", data=(-60, 60)),
    each("abs_half2", lambda xp, x: abs(x), "float16"),
    each("rms2_double", lambda xp, a, b: xp.sqrt((a * a + b * b) / 2), "float64", 2, data=(-1e6, 1e6)),
    each("recip_double", lambda xp, a: 1 / a, "float64", data=(1, 1e60)),
    each("recip_double_range", lambda xp, a: 1 / a, "float64", data=(0.5, 2)),
)
