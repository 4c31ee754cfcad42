"""Sums of long rows: is there a row just longer than the measured ones?"""

from contracts import ROWS, pair

from peakgate.family import In, Out, Value


def contract(**sizes):
    return (
        ROWS
        | {
            "arguments": lambda rows, n: [Out(rows), In(rows, n), Value(n)],
            "bytes": lambda rows, n: 4 * rows * n + 4 * rows,
            "reference": lambda xp, x: x.sum(axis=1),
            "terms": lambda rows, n: n,
            "roof": "read",
            "sizes": [(64, 1 << 20)],
        }
        | sizes
    )


FAMILY = pair(**contract(), witness=contract(edges=[(1, (1 << 20) + 1024)]))
