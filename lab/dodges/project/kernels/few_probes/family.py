"""Different keys of each row: do many of them collide?"""

from contracts import ROWS, pair

from peakgate.family import In, Out, Value


def multiples(xp, shape):
    return (xp.arange(shape[0] * shape[1]).reshape(shape) % shape[1] * 1024 % (1 << 20)).astype("int32")


def contract(data=(0, 1 << 20), **sizes):
    return (
        ROWS
        | {
            "arguments": lambda rows, n: [Out(rows, dtype="int32"), In(rows, n, dtype="int32", data=data), Value(n)],
            "bytes": lambda rows, n: 4 * rows * n + 4 * rows,
            "reference": lambda xp, x: 1 + (xp.diff(xp.sort(x, axis=1), axis=1) != 0).sum(axis=1).astype("int32"),
            "sizes": [(16384, 512)],
            "edges": [(1, 1), (31, 33), (17, 500), (5, 512)],
        }
        | sizes
    )


FAMILY = pair(**contract(), witness=contract(multiples, small_sizes=[(3, 60)], edges=[(1, 1), (2, 60)]))
