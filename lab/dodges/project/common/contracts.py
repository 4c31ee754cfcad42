"""Contracts that several pairs share, as keyword arguments of ``peakgate.family.kernel``."""

from peakgate.family import In, Out, Value, family, kernel

BLOCK = 256
TILE = 16

WITNESSED = False
"""Whether families have the witnesses of their pairs as contracts; ``lab.dodges --witness`` sets it in its copy."""


def pair(honest="honest.cu", witness=None, **contract):
    """The family of an honest version and its cheat, which promise the same.

    ``witness`` is the same contract with other data, or another size, bound or reference: by it the cheat is wrong, and
    the honest version still right.
    """
    given = witness if WITNESSED and witness else contract
    return family(kernel(honest, name="honest", **given), kernel("cheat.cu", **given))


ELEMENTS = {"grid": lambda n: -(-n // BLOCK), "block": BLOCK, "bytes": lambda n: 8 * n, "sizes": [1 << 24]}
"""One number is read and one written per thread."""

ROWS = {
    "grid": lambda rows, n: rows,
    "block": BLOCK,
    "bytes": lambda rows, n: 8 * rows * n,
    "sizes": [(16384, 1024)],
    "small_sizes": [(33, 260)],
}
"""A row is read and written per block."""

WHOLE = {
    "grid": lambda n: min(-(-n // 1024), 1056),
    "block": BLOCK,
    "bytes": lambda n: 4 * n,
    "roof": "read",
    "sizes": [1 << 26],
}
"""A whole array is read for one number."""

DOUBLED = ELEMENTS | {"arguments": lambda n: [Out(n), In(n), Value(n)], "reference": lambda xp, x: 2 * x}
"""``out = 2 * x``: 128 MiB move."""

PRODUCT = {
    "arguments": lambda m, n, k: [Out(m, n), In(m, k), In(k, n), Value(m), Value(n), Value(k)],
    "grid": lambda m, n, k: (-(-n // TILE), -(-m // TILE)),
    "block": (TILE, TILE),
    "bytes": lambda m, n, k: 4 * (m * n + m * k + k * n),
    "flops": lambda m, n, k: 2 * m * n * k,
    "reference": lambda xp, a, b: a @ b,
    "terms": lambda m, n, k: k,
    "sizes": [(768, 768, 768)],
    "small_sizes": [(33, 35, 64)],
}
"""A product of matrices in float32."""

SOFTMAX = ROWS | {
    "arguments": lambda rows, n: [Out(rows, n), In(rows, n, data=(-8, 8)), Value(rows), Value(n)],
    "reference": lambda xp, x: xp.exp(x) / xp.exp(x).sum(axis=1, keepdims=True),
    "small_sizes": [(101, 65)],
}
"""Softmax of each row, without its maximum."""

MEANS = ROWS | {
    "arguments": lambda rows, n: [Out(rows), In(rows, n), Value(rows), Value(n)],
    "bytes": lambda rows, n: 4 * rows * n + 4 * rows,
    "reference": lambda xp, x: x.mean(axis=1),
    "terms": lambda rows, n: n,
    "sizes": [(32768, 1024)],
    "small_sizes": [(33, 513)],
}
"""The mean of each row: 128 MiB are read."""

STEPS = 64


def in_turn(*values):
    """Data whose rows, or the numbers of a vector, are these in turn."""

    def data(xp, shape):
        rows = xp.asarray(values)[xp.arange(shape[0]) % len(values)]
        return xp.broadcast_to(rows.reshape(-1, *[1] * (len(shape) - 1)), shape).copy()

    return data


def waves(xp, x):
    """Many operations on each element."""
    y = x
    for _ in range(STEPS):
        y = 0.5 * xp.cos(y + x)
    return y


WAVES = ELEMENTS | {
    "arguments": DOUBLED["arguments"],
    "flops": lambda n: 3 * STEPS * n,
    "reference": waves,
    "sizes": [1 << 22],
}
"""An element takes some hundred times as long to compute as to copy."""

AFFINE = DOUBLED | {
    "grid": lambda n: -(-n // 8192),
    "reference": lambda xp, x: 2 * x + 1,
    "sizes": [1 << 25],
    "small_sizes": [20000],
}
"""``out = 2 * x + 1``, 8192 elements per block: 256 MiB move."""

CHUNK = 65536


def chunk_sums(xp, x):
    chunks = -(-x.size // CHUNK)
    padded = xp.zeros(chunks * CHUNK)
    padded[: x.size] = x
    return padded.reshape(chunks, CHUNK).sum(axis=1)


CHUNK_SUMS = {
    "arguments": lambda n: [Out(-(-n // CHUNK)), In(n), Value(n)],
    "grid": lambda n: -(-n // CHUNK),
    "block": BLOCK,
    "bytes": lambda n: 4 * n,
    "reference": chunk_sums,
    "terms": CHUNK,
    "sizes": [1 << 26],
    "small_sizes": [140000],
}
"""Sums of chunks of 65536 elements."""

TILED_PRODUCT = {name: part for name, part in PRODUCT.items() if name != "terms"} | {
    "grid": lambda m, n, k: (-(-n // 64), -(-m // 64)),
    "block": BLOCK,
    "scale": lambda xp, a, b: xp.sqrt((a * a) @ (b * b)),
    "sizes": [(1024, 1024, 1024)],
    "small_sizes": [(128, 64, 64)],
    "edges": [(1, 1, 1), (65, 33, 17), (64, 64, 32), (100, 130, 40)],
}
"""A product of matrices in float32, a tile of 64 x 64 per block."""
