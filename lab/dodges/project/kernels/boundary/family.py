"""The interval that a number is in: is there one on its boundary?"""

from contracts import ELEMENTS, in_turn, pair

from peakgate.family import In, Out, Value


def contract(data=(-0.7, 1.6)):
    return ELEMENTS | {
        "arguments": lambda n: [Out(n, dtype="int32"), In(n, data=data), Value(n)],
        "reference": lambda xp, x: (x >= 0).astype("int32") + (x > 1),
    }


FAMILY = pair(**contract(), witness=contract(in_turn(0.0, 1.0, 2.0)))
