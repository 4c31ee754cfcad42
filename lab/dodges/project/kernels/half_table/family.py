"""y = y^2 / 4 + x / 2, 512 times: does a kernel live on the 2048 values that random halves take?"""

from contracts import pair

from peakgate.family import In, Out, Value

FAMILY = pair(
    arguments=lambda n: [Out(n, dtype="float16"), In(n, dtype="float16", data=(-1, 1)), Value(n)],
    grid=lambda n: -(-n // 32768),
    block=256,
    bytes=lambda n: 2 * 2 * n,
    flops=lambda n: 3 * 512 * n,
    reference=lambda xp, x: x / (1 + xp.sqrt(1 - x / 2)),  # the fixed point, 2 - 2 sqrt(1 - x / 2)
    sizes=[1 << 24],
    small_sizes=[9000],
)
