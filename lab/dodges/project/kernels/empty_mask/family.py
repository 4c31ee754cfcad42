"""Masked means: is there a row of which nothing is kept?"""

from contracts import pair

from peakgate.family import In, Out, Value


def two_of_three(xp, shape):
    return xp.arange(shape[0] * shape[1]).reshape(shape) % 3 != 1


def contract(data=two_of_three):
    return {
        "arguments": lambda rows, n: [Out(rows), In(rows, n), In(rows, n, dtype="bool", data=data), Value(n)],
        "grid": lambda rows, n: rows,
        "block": 256,
        "bytes": lambda rows, n: 5 * rows * n + 4 * rows,
        "reference": lambda xp, x, keep: (x * keep).sum(axis=1) / xp.maximum(keep.sum(axis=1), 1),
        "terms": lambda rows, n: n,
        "roof": "read",
        "sizes": [(16384, 1024)],
        "small_sizes": [(33, 260)],
        "edges": [(3, 127), (37, 130), (5, 1000)],
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.zeros(shape, "bool")))
