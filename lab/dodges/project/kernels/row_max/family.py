"""The largest of each row in bfloat16: is a row left when the largest random number is found?"""

from contracts import pair

from peakgate.family import In, Out, Value

FAMILY = pair(
    arguments=lambda r, c: [Out(r, dtype="bfloat16"), In(r, c, dtype="bfloat16"), Value(c)],
    grid=lambda r, c: r,
    block=256,
    bytes=lambda r, c: 2 * r * c + 2 * r,
    reference=lambda xp, x: x.max(axis=1),
    sizes=[(2048, 65536)],
    small_sizes=[(5, 3000)],
)
