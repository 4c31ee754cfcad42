from contracts import BLOCK, pair

from peakgate.family import InOut, Value

CONTRACT = {
    "arguments": lambda n: [InOut(n), Value(n)],
    "grid": lambda n: -(-n // BLOCK),
    "block": BLOCK,
    "bytes": lambda n: 8 * n,
    "reference": lambda xp, x: xp.maximum(x, 0),
    "sizes": [1 << 24],
    "small_sizes": [4099],
}

FAMILY = pair(**CONTRACT)
