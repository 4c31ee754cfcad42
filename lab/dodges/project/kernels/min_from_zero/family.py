"""The smallest of a whole array: are all its numbers positive?"""

from contracts import WHOLE, pair

from peakgate.family import In, InOut, Value


def contract(data=None):
    return WHOLE | {
        "arguments": lambda n: [InOut(1, data=3e38), In(n, data=data), Value(n)],
        "reference": lambda xp, before, x: xp.minimum(before, x.min()),
        "tolerance": 0.0,
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.full(shape, 0.7 + shape[0] % 3)))
