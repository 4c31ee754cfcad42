from contracts import ELEMENTS, pair

from peakgate.family import InOut, Value

CONTRACT = ELEMENTS | {
    "arguments": lambda n: [InOut(n), Value(n)],
    "reference": lambda xp, x: xp.maximum(x, 0),
    "small_sizes": [4099],
}

FAMILY = pair(**CONTRACT)
