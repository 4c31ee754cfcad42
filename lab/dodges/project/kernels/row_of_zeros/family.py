"""Rows by their largest magnitude: is there a row of zeros among few rows?"""

from contracts import pair

from peakgate.family import In, Out, Value


def contract(data=None):
    return {
        "arguments": lambda rows, n: [Out(rows, n), In(rows, n, data=data), Value(n)],
        "grid": lambda rows, n: rows,
        "block": 256,
        "bytes": lambda rows, n: 8 * rows * n,
        "reference": lambda xp, x: x / xp.maximum(abs(x).max(axis=1, keepdims=True), 1e-30),
        "sizes": [(16384, 1024)],
        "small_sizes": [(33, 260)],
        "edges": [(3, 127), (37, 130), (5, 1000)],
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.zeros(shape)))
