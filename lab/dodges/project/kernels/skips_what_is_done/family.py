from contracts import BLOCK

from peakgate.family import InOut, Value, family, kernel

CONTRACT = {
    "arguments": lambda n: [InOut(n), Value(n)],
    "grid": lambda n: -(-n // BLOCK),
    "block": BLOCK,
    "bytes": lambda n: 8 * n,
    "reference": lambda xp, x: xp.maximum(x, 0),
    "sizes": [1 << 24],
    "small_sizes": [4099],
}

FAMILY = family(kernel("honest.cu", **CONTRACT), kernel("cheat.cu", **CONTRACT))
