"""c = a b in float32: is an answer worked out that was worked out before?"""

from contracts import TILED_PRODUCT

from peakgate.family import family, kernel

FAMILY = family(
    kernel("../../common/tiled_product.cu", name="honest", **TILED_PRODUCT), kernel("cheat.cu", **TILED_PRODUCT)
)
