"""A Gaussian filter of 257 weights, to bfloat16: are small weights left out below the tolerance?"""

from contracts import pair

from peakgate.family import In, Out, Value

RADIUS, SIGMA = 128, 16.0


def weights(xp, shape):
    at = xp.arange(shape[0], dtype="float64") - RADIUS
    found = xp.exp(-at * at / (2 * SIGMA * SIGMA))
    return (found / found.sum()).astype("float32")


def filtered(xp, x, weights):
    padded = xp.concatenate([xp.zeros(RADIUS), x, xp.zeros(RADIUS)])
    found = xp.zeros(x.size)
    for at in range(2 * RADIUS + 1):
        found += weights[at] * padded[at : at + x.size]
    return found


FAMILY = pair(
    arguments=lambda n: [Out(n, dtype="bfloat16"), In(n), In(2 * RADIUS + 1, data=weights), Value(n)],
    grid=lambda n: -(-n // 1024),
    block=256,
    bytes=lambda n: 6 * n,
    flops=lambda n: 2 * (2 * RADIUS + 1) * n,
    reference=filtered,
    sizes=[1 << 23],
    small_sizes=[3000],
)
