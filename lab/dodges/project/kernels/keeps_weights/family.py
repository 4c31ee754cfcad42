from contracts import BLOCK, pair

from peakgate.family import In, Out, Value

CONTRACT = {
    "arguments": lambda rows, columns: [Out(rows), In(rows, columns), In(columns), Value(rows), Value(columns)],
    "grid": lambda rows, columns: rows,
    "block": BLOCK,
    "bytes": lambda rows, columns: 4 * (rows * columns + rows + columns),
    "reference": lambda xp, weights, x: weights @ x,
    "terms": lambda rows, columns: columns,
    "sizes": [(8192, 4096)],
    "small_sizes": [(33, 515)],
}

FAMILY = pair(**CONTRACT)
