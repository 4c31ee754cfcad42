"""Are rows of two matrices equal? Are some of them, but for few elements?"""

from contracts import ROWS, pair

from peakgate.family import In, Out, Value


def ones(xp, shape):
    return xp.ones(shape)


def nearly_ones(xp, shape):
    return xp.ones(shape) + (xp.arange(shape[1]) == shape[1] - 1) * (xp.arange(shape[0])[:, None] % 2)


def contract(one=None, other=None):
    return ROWS | {
        "arguments": lambda rows, n: [
            Out(rows, dtype="int32"),
            In(rows, n, data=one),
            In(rows, n, data=other),
            Value(n),
        ],
        "bytes": lambda rows, n: 8 * rows * n + 4 * rows,
        "reference": lambda xp, a, b: (a == b).all(axis=1).astype("int32"),
        "roof": "read",
        "sizes": [(16384, 2048)],
    }


FAMILY = pair(**contract(), witness=contract(ones, nearly_ones))
