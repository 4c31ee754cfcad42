from contracts import PRODUCT

from peakgate.family import family, kernel

FAMILY = family(kernel("honest.cu", **PRODUCT), kernel("cheat.cu", **PRODUCT))
