"""out = x / 2 + y: are random inputs worked out rather than read?"""

from contracts import pair

from peakgate.family import In, Out, Value

FAMILY = pair(
    arguments=lambda n: [Out(n), In(n), In(n), Value(n)],
    grid=lambda n: -(-n // 16384),
    block=256,
    bytes=lambda n: 3 * 4 * n,
    reference=lambda xp, x, y: x / 2 + y,
    sizes=[1 << 24],
    small_sizes=[40000],
)
