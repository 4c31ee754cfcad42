"""A fixed grid of many threads: is there an odd size of more than one turn?"""

from contracts import pair

from peakgate.family import In, Out, Value


def contract(**sizes):
    return {
        "arguments": lambda n: [Out(n), In(n), Value(n)],
        "grid": 2112,
        "block": 256,
        "bytes": lambda n: 8 * n,
        "reference": lambda xp, x: 2 * x,
        "sizes": [1 << 24],
    } | sizes


FAMILY = pair(**contract(), witness=contract(edges=[(1 << 20) + 3]))
