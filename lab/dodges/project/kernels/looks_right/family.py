"""out = 2 x + 1: does a launch write what its output holds already?"""

from contracts import AFFINE
from peakgate.family import family, kernel

FAMILY = family(kernel("honest.cu", **AFFINE), kernel("cheat.cu", **AFFINE))
