from contracts import DOUBLED

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/doubled.cu", name="honest", **DOUBLED), kernel("cheat.cu", **DOUBLED))
