from contracts import DOUBLED

from peakgate.family import family, kernel

FAMILY = family(kernel("honest.cu", **DOUBLED), kernel("cheat.cu", **DOUBLED))
