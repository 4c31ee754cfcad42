"""Counts in scratch memory: is an odd size launched twice?"""

from contracts import pair

from peakgate.family import In, Out, Scratch, Value


def counts(xp, x):
    padded = xp.zeros(-(-x.size // 256) * 256)
    padded[: x.size] = x
    return (padded.reshape(-1, 256) > 0).sum(axis=1).astype("int32")


def contract(**sizes):
    return {
        "arguments": lambda n: [
            Out(-(-n // 256), dtype="int32"),
            In(n),
            Scratch(-(-n // 256), dtype="uint32"),
            Value(n),
        ],
        "grid": lambda n: -(-n // 256),
        "block": 256,
        "bytes": lambda n: 4 * n,
        "reference": counts,
        "roof": "read",
        "sizes": [1 << 26],
        "small_sizes": [4096],
    } | sizes


FAMILY = pair(**contract(), witness=contract(sizes=[4099], small_sizes=[4099]))
