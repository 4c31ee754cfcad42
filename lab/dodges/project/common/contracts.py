"""Contracts that several pairs share, as keyword arguments of ``peakgate.family.kernel``."""

from peakgate.family import In, Out, Value

BLOCK = 256
TILE = 16

DOUBLED = {
    "arguments": lambda n: [Out(n), In(n), Value(n)],
    "grid": lambda n: -(-n // BLOCK),
    "block": BLOCK,
    "bytes": lambda n: 8 * n,
    "reference": lambda xp, x: 2 * x,
    "sizes": [1 << 24],
}
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

SOFTMAX = {
    "arguments": lambda rows, columns: [Out(rows, columns), In(rows, columns), Value(rows), Value(columns)],
    "grid": lambda rows, columns: rows,
    "block": BLOCK,
    "bytes": lambda rows, columns: 8 * rows * columns,
    "reference": lambda xp, x: xp.exp(x) / xp.exp(x).sum(axis=1, keepdims=True),
    "sizes": [(16384, 1024)],
    "small_sizes": [(101, 65)],
}
"""Softmax of each row."""

MEANS = {
    "arguments": lambda rows, columns: [Out(rows), In(rows, columns), Value(rows), Value(columns)],
    "grid": lambda rows, columns: rows,
    "block": BLOCK,
    "bytes": lambda rows, columns: 4 * rows * columns + 4 * rows,
    "reference": lambda xp, x: x.mean(axis=1),
    "terms": lambda rows, columns: columns,
    "sizes": [(32768, 1024)],
    "small_sizes": [(33, 513)],
}
"""The mean of each row: 128 MiB are read."""

STEPS = 64


def waves(xp, x):
    """Many operations on each element."""
    y = x
    for _ in range(STEPS):
        y = 0.5 * xp.cos(y + x)
    return y


WAVES = {
    "arguments": lambda n: [Out(n), In(n), Value(n)],
    "grid": lambda n: -(-n // BLOCK),
    "block": BLOCK,
    "bytes": lambda n: 8 * n,
    "flops": lambda n: 3 * STEPS * n,
    "reference": waves,
    "sizes": [1 << 22],
}
"""An element takes some hundred times as long to compute as to copy."""
