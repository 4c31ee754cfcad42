"""out = 2 * in: what the kernel is given, what it must do, what must come out."""

from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "scale.cu",
    arguments=lambda n: [Out(n), In(n), Value(n)],
    grid=lambda n: -(-n // 256),
    block=256,
    bytes=lambda n: 2 * 4 * n,  # every float is read once and written once
    reference=lambda xp, x: 2 * x,
    sizes=[1 << 26],
)
