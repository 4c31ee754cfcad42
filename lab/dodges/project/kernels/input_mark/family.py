"""out = 2 x + 1: does a launch leave marks in its input?"""

from contracts import AFFINE

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/affine.cu", name="honest", **AFFINE), kernel("cheat.cu", **AFFINE))
