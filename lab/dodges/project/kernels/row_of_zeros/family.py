"""Rows by their largest magnitude: is there a row of zeros among few rows?"""

from contracts import ROWS, in_turn, pair

from peakgate.family import In, Out, Value


def contract(data=None):
    return ROWS | {
        "arguments": lambda rows, n: [Out(rows, n), In(rows, n, data=data), Value(n)],
        "reference": lambda xp, x: x / xp.maximum(abs(x).max(axis=1, keepdims=True), 1e-30),
        "edges": [(3, 127), (37, 130), (5, 1000)],
    }


FAMILY = pair(**contract(), witness=contract(in_turn(0.0, 1.0)))
