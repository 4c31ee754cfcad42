"""The largest of a whole array of integers: are all of them negative?"""

from contracts import pair

from peakgate.family import In, InOut, Value


def contract(data=None):
    return {
        "arguments": lambda n: [
            InOut(1, dtype="int32", data=-(1 << 31)),
            In(n, dtype="int32", data=data),
            Value(n),
        ],
        "grid": lambda n: min(-(-n // 1024), 1056),
        "block": 256,
        "bytes": lambda n: 4 * n,
        "reference": lambda xp, before, x: xp.maximum(before, x.max()),
        "roof": "read",
        "sizes": [1 << 26],
        "min_capability": (8, 0),
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.full(shape, -7, "int32")))
