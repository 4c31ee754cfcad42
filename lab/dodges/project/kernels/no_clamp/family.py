"""Numbers as int8: is there one that saturates?"""

from contracts import ELEMENTS, in_turn, pair

from peakgate.family import In, Out, Value


def contract(data=None):
    return ELEMENTS | {
        "arguments": lambda n: [Out(n, dtype="int8"), In(n, data=data), Value(n)],
        "bytes": lambda n: 5 * n,
        "reference": lambda xp, x: xp.clip(xp.rint(4 * x), -128, 127).astype("int8"),
    }


FAMILY = pair(**contract(), witness=contract(in_turn(40.0, -40.0)))
