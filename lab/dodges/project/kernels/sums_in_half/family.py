from contracts import MEANS

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/means.cu", name="honest", **MEANS), kernel("cheat.cu", **MEANS))
