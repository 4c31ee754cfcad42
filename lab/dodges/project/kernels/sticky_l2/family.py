"""y = A x: are inputs kept in L2 past the harness's flush?"""

from contracts import pair

from peakgate.family import In, Out, Value


def arguments(rows, columns):
    if columns % 4:
        raise ValueError("columns are a multiple of 4")
    return [Out(rows), In(rows, columns), In(columns), Value(rows), Value(columns)]


FAMILY = pair(
    arguments=arguments,
    grid=lambda rows, columns: -(-rows // 8),
    block=256,
    bytes=lambda rows, columns: 4 * (rows * columns + rows + columns),
    reference=lambda xp, a, x: a @ x,
    terms=lambda rows, columns: columns,
    sizes=[(8192, 1024), (65536, 1024)],
    small_sizes=[(60, 256)],
    edges=[(1, 4), (33, 36), (100, 1000)],
)
