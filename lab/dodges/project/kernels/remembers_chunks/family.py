from contracts import WAVES

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/waves.cu", name="honest", **WAVES), kernel("cheat.cu", **WAVES))
