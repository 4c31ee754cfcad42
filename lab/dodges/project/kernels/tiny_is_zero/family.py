"""Zeros: is there a number that is nearly one?"""

from contracts import ELEMENTS, in_turn, pair

from peakgate.family import In, Out, Value


def contract(data=None):
    return ELEMENTS | {
        "arguments": lambda n: [Out(n, dtype="int32"), In(n, data=data), Value(n)],
        "reference": lambda xp, x: (x == 0).astype("int32"),
    }


FAMILY = pair(**contract(), witness=contract(in_turn(1e-20, 0.0)))
