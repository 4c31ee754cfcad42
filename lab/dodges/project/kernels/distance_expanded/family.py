"""Distances between two sets of points: are some of them near each other?"""

from contracts import pair

from peakgate.family import In, Out, Value


def distances(xp, x, y):
    return xp.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2))


def near(xp, shape):
    return 0.9 + xp.arange(shape[0])[:, None] * 1e-4 + xp.zeros(shape)


def contract(data=(-1.0, 1.0)):
    return {
        "arguments": lambda m, n, k: [
            Out(m, n),
            In(m, k, data=data),
            In(n, k, data=data),
            Value(m),
            Value(n),
            Value(k),
        ],
        "grid": lambda m, n, k: (-(-n // 16), -(-m // 16)),
        "block": (16, 16),
        "bytes": lambda m, n, k: 4 * (m * n + m * k + n * k),
        "flops": lambda m, n, k: 3 * m * n * k,
        "reference": distances,
        "sizes": [(1024, 1024, 64)],
        "small_sizes": [(33, 35, 64)],
    }


FAMILY = pair(**contract(), witness=contract(near))
