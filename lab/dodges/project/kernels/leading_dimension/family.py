"""Rows of a matrix: is the distance of two rows ever another number than that of its columns?"""

from contracts import pair

from peakgate.family import In, Out, Value


def contract(more=0):
    return {
        "arguments": lambda rows, n: [Out(rows, n), In(rows, n + more), Value(rows), Value(n), Value(n + more)],
        "grid": lambda rows, n: (-(-n // 256), min(rows, 64)),
        "block": 256,
        "bytes": lambda rows, n: 8 * rows * n,
        "reference": lambda xp, x: 2 * x[:, : x.shape[1] - more],
        "sizes": [(8192, 4096)],
        "small_sizes": [(33, 260)],
    }


FAMILY = pair(**contract(), witness=contract(5))
