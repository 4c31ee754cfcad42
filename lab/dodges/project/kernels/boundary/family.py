"""The interval that a number is in: is there one on its boundary?"""

from contracts import pair

from peakgate.family import In, Out, Value


def contract(data=(-0.7, 1.6)):
    return {
        "arguments": lambda n: [Out(n, dtype="int32"), In(n, data=data), Value(n)],
        "grid": lambda n: -(-n // 256),
        "block": 256,
        "bytes": lambda n: 8 * n,
        "reference": lambda xp, x: (x >= 0).astype("int32") + (x > 1),
        "sizes": [1 << 24],
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.ones(shape)))
