"""out = 2 x + 1: is a batch of timed launches recognised by its rhythm?"""

from contracts import AFFINE

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/affine.cu", name="honest", **AFFINE), kernel("cheat.cu", **AFFINE))
