from contracts import BLOCK, pair

from peakgate.family import In, Out, Value

CONTRACT = {
    "arguments": lambda rows, columns: [
        Out(rows, columns),
        In(rows, columns),
        In(columns),
        Value(rows),
        Value(columns),
    ],
    "grid": lambda rows, columns: rows,
    "block": BLOCK,
    "bytes": lambda rows, columns: 8 * rows * columns + 4 * columns,
    "reference": lambda xp, x, weights: weights * x / xp.sqrt((x * x).mean(axis=1, keepdims=True)),
    "sizes": [(16384, 1024)],
    "small_sizes": [(33, 129)],
}

FAMILY = pair(**CONTRACT)
