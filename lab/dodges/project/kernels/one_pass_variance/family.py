"""Layer norm: are there rows of numbers that are alike?"""

from contracts import pair

from peakgate.family import In, Out, Value


def normalized(xp, x):
    off = x - x.mean(axis=1, keepdims=True)
    return off / xp.sqrt((off * off).mean(axis=1, keepdims=True) + 1e-5)


def contract(data=None):
    return {
        "arguments": lambda rows, n: [Out(rows, n), In(rows, n, data=data), Value(n)],
        "grid": lambda rows, n: rows,
        "block": 256,
        "bytes": lambda rows, n: 8 * rows * n,
        "reference": normalized,
        "sizes": [(16384, 1024)],
        "small_sizes": [(33, 260)],
    }


def alike(xp, shape):
    return 1000 + xp.arange(shape[0] * shape[1]).reshape(shape) % 7 / 8


FAMILY = pair(**contract(), witness=contract(alike))
