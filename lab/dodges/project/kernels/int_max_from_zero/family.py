"""The largest of a whole array of integers: are all of them negative?"""

from contracts import WHOLE, pair

from peakgate.family import In, InOut, Value


def contract(data=None):
    return WHOLE | {
        "arguments": lambda n: [InOut(1, dtype="int32", data=-(1 << 31)), In(n, dtype="int32", data=data), Value(n)],
        "reference": lambda xp, before, x: xp.maximum(before, x.max()),
        "min_capability": (8, 0),
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.full(shape, -7 - shape[0] % 3, "int32")))
