"""y = y^2 / 4 + x / 2, 512 times: is a function tabulated over the few values that random numbers take?"""

from contracts import pair

from peakgate.family import In, Out, Value

FAMILY = pair(
    arguments=lambda n: [Out(n), In(n, data=(-1, 1)), Value(n)],
    grid=lambda n: -(-n // 1024),
    block=256,
    bytes=lambda n: 2 * 4 * n,
    flops=lambda n: 3 * 512 * n,
    reference=lambda xp, x: x / (1 + xp.sqrt(1 - x / 2)),  # the fixed point, 2 - 2 sqrt(1 - x / 2)
    sizes=[1 << 23],
    small_sizes=[3000],
)
