from contracts import DOUBLED

from peakgate.family import family, kernel

CONTRACT = DOUBLED | {"reference": lambda xp, x: x + 1e-3 * xp.sin(x)}

FAMILY = family(kernel("honest.cu", **CONTRACT), kernel("cheat.cu", **CONTRACT))
