"""c = a b in float32: is an answer brought up to date where few inputs changed?"""

from peakgate.family import In, Out, Value, family, kernel, launch


def of(source, name, launches):
    return kernel(
        source,
        name=name,
        arguments=lambda m, n, k: {
            "c": Out(m, n),
            "a": In(m, k),
            "b": In(k, n),
            "m": Value(m),
            "n": Value(n),
            "k": Value(k),
        },
        launches=launches,
        bytes=lambda m, n, k: 4 * (m * k + k * n + m * n),
        flops=lambda m, n, k: 2 * m * n * k,
        reference=lambda xp, a, b: a @ b,
        scale=lambda xp, a, b: xp.sqrt((a * a) @ (b * b)),
        sizes=[(1024, 1024, 1024)],
        small_sizes=[(128, 64, 64)],
        edges=[(1, 1, 1), (65, 33, 17), (64, 64, 32), (100, 130, 40)],
    )


def tiles(m, n, k):
    return -(-n // 64), -(-m // 64)


FAMILY = family(
    of("../../common/tiled_product.cu", "honest", [launch("honest", "c a b m n k", grid=tiles, block=256)]),
    of(
        "cheat.cu",
        "cheat",
        [
            launch("compare_inputs", "a b m n k", grid=lambda m, n, k: m + k, block=256),
            launch("cheat", "c a b m n k", grid=tiles, block=256),
        ],
    ),
)
