"""out = 2 x, with a count of launches: is every launch checked?"""

from contracts import DOUBLED

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/counted.cu", name="honest", **DOUBLED), kernel("cheat.cu", **DOUBLED))
