"""Softmax of long rows in bfloat16: is a sum over random numbers replaced by its expected value?"""

from peakgate.family import In, Out, Temp, Value, family, kernel, launch

PARTS = 32


def arguments(rows, columns):
    if columns % 8:
        raise ValueError("columns are a multiple of 8")
    return {
        "out": Out(rows, columns, dtype="bfloat16"),
        "x": In(rows, columns, dtype="bfloat16"),
        "columns": Value(columns),
        "largest": Temp(rows, PARTS),
        "sums": Temp(rows, PARTS),
    }


def softmax(xp, x):
    powers = xp.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def of(source, launches):
    return kernel(
        source,
        arguments=arguments,
        launches=launches,
        bytes=lambda rows, columns: 2 * 2 * rows * columns,
        reference=softmax,
        sizes=[(128, 524288)],
        small_sizes=[(4, 1000)],
        edges=[(1, 8), (5, 72), (3, 4104)],
    )


def parts(rows, columns):
    return PARTS, rows


FAMILY = family(
    of(
        "honest.cu",
        [
            launch("part_sums", "largest sums x columns", grid=parts, block=256),
            launch("honest", "out x largest sums columns", grid=parts, block=256),
        ],
    ),
    of("cheat.cu", [launch("cheat", "out x columns", grid=parts, block=256)]),
)
