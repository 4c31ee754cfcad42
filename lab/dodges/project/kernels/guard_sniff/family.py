"""out = 2 x + 1: are checked and timed launches distinguished by the bytes behind an output?"""

from contracts import AFFINE

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/affine.cu", name="honest", **AFFINE), kernel("cheat.cu", **AFFINE))
