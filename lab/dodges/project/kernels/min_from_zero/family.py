"""The smallest of a whole array: are all its numbers positive?"""

from contracts import pair

from peakgate.family import In, InOut, Value


def contract(data=None):
    return {
        "arguments": lambda n: [InOut(1, data=3e38), In(n, data=data), Value(n)],
        "grid": lambda n: min(-(-n // 1024), 1056),
        "block": 256,
        "bytes": lambda n: 4 * n,
        "reference": lambda xp, before, x: xp.minimum(before, x.min()),
        "tolerance": 0.0,
        "roof": "read",
        "sizes": [1 << 26],
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.full(shape, 0.7)))
