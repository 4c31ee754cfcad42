from contracts import ROWS, pair

from peakgate.family import In, Out, Value

CONTRACT = ROWS | {
    "arguments": lambda rows, n: [Out(rows, n), In(rows, n), In(n), Value(rows), Value(n)],
    "bytes": lambda rows, n: 8 * rows * n + 4 * n,
    "reference": lambda xp, x, weights: weights * x / xp.sqrt((x * x).mean(axis=1, keepdims=True)),
    "small_sizes": [(33, 129)],
}

FAMILY = pair(**CONTRACT)
