from contracts import BLOCK
from peakgate.family import In, Out, Value, family, kernel

STEPS = 64


def waves(xp, x):
    y = x
    for _ in range(STEPS):
        y = 0.5 * xp.cos(y + x)
    return y


CONTRACT = {
    "arguments": lambda n: [Out(n), In(n), Value(n)],
    "grid": lambda n: -(-n // BLOCK),
    "block": BLOCK,
    "defines": {"STEPS": STEPS},
    "bytes": lambda n: 8 * n,
    "flops": lambda n: 3 * STEPS * n,
    "reference": waves,
    "sizes": [1 << 22],
    "small_sizes": [4099],
}

FAMILY = family(kernel("honest.cu", **CONTRACT), kernel("cheat.cu", **CONTRACT))
