"""Layer norm: are there rows of numbers that are alike?"""

from contracts import ROWS, pair

from peakgate.family import In, Out, Value


def normalized(xp, x):
    off = x - x.mean(axis=1, keepdims=True)
    return off / xp.sqrt((off * off).mean(axis=1, keepdims=True) + 1e-5)


def contract(data=None):
    return ROWS | {
        "arguments": lambda rows, n: [Out(rows, n), In(rows, n, data=data), Value(n)],
        "reference": normalized,
    }


def alike(xp, shape):
    return 1000 + xp.arange(shape[0] * shape[1]).reshape(shape) % 7 / 8


FAMILY = pair(**contract(), witness=contract(alike))
