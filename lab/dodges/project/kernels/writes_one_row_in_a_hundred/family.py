from contracts import SOFTMAX

from peakgate.family import family, kernel

FAMILY = family(kernel("../../common/softmax.cu", name="honest", **SOFTMAX), kernel("cheat.cu", **SOFTMAX))
