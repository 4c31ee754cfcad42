"""Flat groups by their largest magnitude: is there a group of zeros?"""

from contracts import in_turn, pair

from peakgate.family import In, Out, Value


def by_largest(xp, x):
    padded = xp.zeros(-(-x.size // 64) * 64)
    padded[: x.size] = x
    groups = padded.reshape(-1, 64)
    largest = abs(groups).max(axis=1, keepdims=True)
    return (groups / xp.where(largest > 0, largest, 1)).reshape(-1)[: x.size]


def contract(data=None):
    return {
        "arguments": lambda n: [Out(n), In(n, data=data), Value(n)],
        "grid": lambda n: -(-n // (64 * 128)),
        "block": 128,
        "bytes": lambda n: 8 * n,
        "reference": by_largest,
        "sizes": [1 << 24],
    }


FAMILY = pair(**contract(), witness=contract(in_turn(*[0.0] * 64, *[1.0] * 64)))
