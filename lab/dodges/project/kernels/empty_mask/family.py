"""Masked means: is there a row of which nothing is kept?"""

from contracts import ROWS, in_turn, pair

from peakgate.family import In, Out, Value


def two_of_three(xp, shape):
    return xp.arange(shape[0] * shape[1]).reshape(shape) % 3 != 1


def contract(data=two_of_three):
    return ROWS | {
        "arguments": lambda rows, n: [Out(rows), In(rows, n), In(rows, n, dtype="bool", data=data), Value(n)],
        "bytes": lambda rows, n: 5 * rows * n + 4 * rows,
        "reference": lambda xp, x, keep: (x * keep).sum(axis=1) / xp.maximum(keep.sum(axis=1), 1),
        "terms": lambda rows, n: n,
        "roof": "read",
        "edges": [(3, 127), (37, 130), (5, 1000)],
    }


FAMILY = pair(**contract(), witness=contract(in_turn(False, True)))
