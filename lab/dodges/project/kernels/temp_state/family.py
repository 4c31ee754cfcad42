"""x minus its mean in two launches: is the first left out where its result is still in a temporary buffer?"""

from peakgate.family import In, Out, Temp, Value, family, kernel, launch

BLOCKS = 1024


def of(source, name):
    return kernel(
        source,
        arguments=lambda n: {"out": Out(n), "x": In(n), "sums": Temp(BLOCKS, 4), "n": Value(n)},
        launches=[
            launch("part_sums", "sums x n", grid=BLOCKS, block=256),
            launch(name, "out x sums n", grid=BLOCKS, block=256),
        ],
        bytes=lambda n: 2 * 4 * n,
        reference=lambda xp, x: x - x.mean(),
        sizes=[1 << 25],
        small_sizes=[20000],
    )


FAMILY = family(of("honest.cu", "honest"), of("cheat.cu", "cheat"))
