"""log(sum(exp(x))) of each row in bfloat16: is a sum estimated where its logarithm is rounded?"""

from contracts import pair

from peakgate.family import In, Out, Value


def arguments(rows, columns):
    if columns % 8:
        raise ValueError("columns are a multiple of 8")
    return [Out(rows, dtype="bfloat16"), In(rows, columns, dtype="bfloat16"), Value(columns)]


FAMILY = pair(
    arguments=arguments,
    grid=lambda rows, columns: rows,
    block=256,
    bytes=lambda rows, columns: 2 * rows * columns + 2 * rows,
    reference=lambda xp, x: xp.log(xp.exp(x).sum(axis=1)),
    sizes=[(1024, 131072)],
    small_sizes=[(4, 1000)],
    edges=[(1, 8), (5, 72), (3, 4104), (2, 32768)],
)
