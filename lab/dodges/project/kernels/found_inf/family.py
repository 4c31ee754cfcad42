"""Is any of 65536 gradients infinite or NaN? Is a question asked that the data always answer alike?"""

from contracts import pair

from peakgate.family import In, Out, Value

CHUNK = 65536


def overflowed(xp, x):
    chunks = -(-x.size // CHUNK)
    bad = xp.zeros(chunks * CHUNK, "int32")
    bad[: x.size] = ~xp.isfinite(x)
    return bad.reshape(chunks, CHUNK).max(axis=1)


FAMILY = pair(
    arguments=lambda n: [Out(-(-n // CHUNK), dtype="int32"), In(n), Value(n)],
    grid=lambda n: -(-n // CHUNK),
    block=512,
    bytes=lambda n: 4 * n,
    reference=overflowed,
    sizes=[1 << 26],
    small_sizes=[140000],
)
