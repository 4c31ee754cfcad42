"""Negative numbers of a range: is there a zero with a sign?"""

from contracts import ELEMENTS, in_turn, pair

from peakgate.family import In, Out, Value


def contract(data=(-10.0, 10.0)):
    return ELEMENTS | {
        "arguments": lambda n: [Out(n, dtype="int32"), In(n, data=data), Value(n)],
        "reference": lambda xp, x: (x < 0).astype("int32"),
    }


FAMILY = pair(**contract(), witness=contract(in_turn(-0.0, -1.0)))
