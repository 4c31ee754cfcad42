"""x scaled to a norm of at most a limit: is a pass left out whose result random data never need?"""

from peakgate.family import In, Out, Temp, Value, family, kernel, launch

BLOCKS, LIMIT = 1056, 1e6


def of(source, launches):
    return kernel(
        source,
        arguments=lambda n: {
            "out": Out(n),
            "x": In(n),
            "sums": Temp(BLOCKS),
            "limit": Value(LIMIT, "float32"),
            "n": Value(n),
        },
        launches=launches,
        bytes=lambda n: 2 * 4 * n,
        reference=lambda xp, x: x * xp.minimum(1.0, LIMIT / xp.maximum(xp.sqrt((x * x).sum()), 1e-30)),
        sizes=[1 << 25],
        small_sizes=[20000],
    )


FAMILY = family(
    of(
        "honest.cu",
        [
            launch("sum_squares", "sums x n", grid=BLOCKS, block=256),
            launch("honest", "out x sums limit n", grid=BLOCKS, block=256),
        ],
    ),
    of("cheat.cu", [launch("cheat", "out x limit n", grid=BLOCKS, block=256)]),
)
