from contracts import PRODUCT

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/product.cu", name="honest", **PRODUCT), kernel("cheat.cu", **PRODUCT))
