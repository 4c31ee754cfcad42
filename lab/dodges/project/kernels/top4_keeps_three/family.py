"""The four largest of each row: are rows sorted, or smooth?"""

from contracts import pair

from peakgate.family import In, Out, Value


def contract(data=None):
    return {
        "arguments": lambda rows, n: [Out(rows, 4), In(rows, n, data=data), Value(n)],
        "grid": lambda rows, n: rows,
        "block": 128,
        "bytes": lambda rows, n: 4 * rows * n + 16 * rows,
        "reference": lambda xp, x: xp.sort(x, axis=1)[:, :-5:-1],
        "tolerance": 0.0,
        "roof": "read",
        "sizes": [(4096, 4096)],
        "small_sizes": [(33, 260)],
        "edges": [(3, 4), (31, 130), (17, 1028), (5, 4000)],
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.arange(shape[1]) + xp.zeros(shape)))
