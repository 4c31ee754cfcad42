"""a x + b y: does b ever differ from 1?"""

from contracts import ELEMENTS, pair

from peakgate.family import In, Out, Value


def contract(b=1.0):
    return ELEMENTS | {
        "arguments": lambda n: [Out(n), In(n), In(n), Value(2.0), Value(b), Value(n)],
        "bytes": lambda n: 12 * n,
        "reference": lambda xp, x, y: 2.0 * x + b * y,
    }


FAMILY = pair(**contract(), witness=contract(3.0))
