"""The largest of a whole array: are all its numbers far below zero?"""

from contracts import WHOLE, pair

from peakgate.family import In, InOut, Value


def contract(data=None):
    return WHOLE | {
        "arguments": lambda n: [InOut(1, data=-3e38), In(n, data=data), Value(n)],
        "reference": lambda xp, before, x: xp.maximum(before, x.max()),
        "tolerance": 0.0,
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.full(shape, -2e4 - shape[0] % 7)))
