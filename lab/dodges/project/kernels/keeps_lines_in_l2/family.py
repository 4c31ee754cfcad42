from contracts import MEANS

from peakgate.family import family, kernel

CONTRACT = MEANS | {"sizes": [(6144, 1024)]}

FAMILY = family(kernel("../../common/means.cu", name="honest", **CONTRACT), kernel("cheat.cu", **CONTRACT))
