"""out = 2 x + 1: is every launch checked?"""

from contracts import AFFINE
from peakgate.family import family, kernel

FAMILY = family(kernel("honest.cu", **AFFINE), kernel("cheat.cu", **AFFINE))
