"""Is each chunk of an array sorted? Is one of them, or nearly?"""

from contracts import pair

from peakgate.family import In, Out, Value

CHUNK = 4096


def are_sorted(xp, x):
    chunks = -(-x.size // CHUNK)
    padded = xp.full(chunks * CHUNK, xp.inf)
    padded[: x.size] = x
    rows = padded.reshape(chunks, CHUNK)
    return (rows[:, 1:] >= rows[:, :-1]).all(axis=1).astype("int32")


def contract(data=None):
    return {
        "arguments": lambda n: [Out(-(-n // CHUNK), dtype="int32"), In(n, data=data), Value(n)],
        "grid": lambda n: -(-n // CHUNK),
        "block": 256,
        "bytes": lambda n: 4 * n,
        "reference": are_sorted,
        "roof": "read",
        "sizes": [1 << 26],
    }


FAMILY = pair(**contract(), witness=contract(lambda xp, shape: xp.arange(shape[0]) % 32 * 1.0))
