"""c = a b in float32: is an answer brought up to date where few inputs changed?"""

from contracts import TILED_PRODUCT

from peakgate.family import In, Out, Value, family, kernel, launch

WORK = {term: TILED_PRODUCT[term] for term in TILED_PRODUCT.keys() - {"arguments", "grid", "block"}}


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
        **WORK,
    )


tiles = TILED_PRODUCT["grid"]
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
