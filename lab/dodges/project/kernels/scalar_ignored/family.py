"""a x + b y: does b ever differ from 1?"""

from contracts import pair

from peakgate.family import In, Out, Value


def contract(b=1.0):
    return {
        "arguments": lambda n: [Out(n), In(n), In(n), Value(2.0), Value(b), Value(n)],
        "grid": lambda n: -(-n // 256),
        "block": 256,
        "bytes": lambda n: 12 * n,
        "reference": lambda xp, x, y: 2.0 * x + b * y,
        "sizes": [1 << 24],
    }


FAMILY = pair(**contract(), witness=contract(3.0))
