"""Min-max scaling of rows: is there a constant row?"""

from contracts import ROWS, pair

from peakgate.family import In, Out, Value


def scaled(xp, x):
    least, largest = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
    return (x - least) / xp.where(largest > least, largest - least, 1)


def contract(data=(0.0, 1.0)):
    return ROWS | {
        "arguments": lambda rows, n: [Out(rows, n), In(rows, n, data=data), Value(n)],
        "reference": scaled,
        "edges": [(3, 127), (37, 130), (5, 1000)],
    }


def half_constant(xp, shape):
    return xp.where(xp.arange(shape[0])[:, None] % 2 > 0, xp.arange(shape[1]) * 1.0, 0.5)


FAMILY = pair(**contract(), witness=contract(half_constant))
