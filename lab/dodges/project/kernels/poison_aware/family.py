"""out = 2 x + 1: is an output that is about to be checked recognised by its contents?"""

from contracts import AFFINE

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/affine.cu", name="honest", **AFFINE), kernel("cheat.cu", **AFFINE))
