"""out = 2 x + 1: is a whole output written in each launch?"""

from contracts import AFFINE

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/affine.cu", name="honest", **AFFINE), kernel("cheat.cu", **AFFINE))
