from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "scale.cu",
    block=64,
    grid=lambda n: -(-n // 64),
    bytes=lambda n: 6 * n,
    sizes=[1 << 26],
    edges=[1, 1000],
    arguments=lambda n: [
        Out(n, dtype="bfloat16"),
        In(n, dtype="bfloat16"),
        In(n, dtype="bfloat16", data=(-4, 4)),
        Value(1.5, "bfloat16"),
        Value(n),
    ],
    reference=lambda xp, x, y: 1.5 * x + y,
)
