"""Zeros: is there a number that is nearly one?"""

from contracts import pair

from peakgate.family import In, Out, Value


def contract(data=None):
    return {
        "arguments": lambda n: [Out(n, dtype="int32"), In(n, data=data), Value(n)],
        "grid": lambda n: -(-n // 256),
        "block": 256,
        "bytes": lambda n: 8 * n,
        "reference": lambda xp, x: (x == 0).astype("int32"),
        "sizes": [1 << 24],
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.full(shape, 1e-20)))
