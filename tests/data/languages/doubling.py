"""What the benchmark tests of all languages compute and move: ``2 x + 1`` of many floats."""

import pytest

FLOATS, BLOCK = 1 << 27, 1024
DOUBLES = pytest.mark.peakgate(bytes=lambda *_: 8 * FLOATS, reference=lambda *arrays: 2 * arrays[-1] + 1)


def of_torch():
    """An output and an input."""
    torch = pytest.importorskip("torch")
    return torch.zeros(FLOATS, device="cuda"), torch.rand(FLOATS, device="cuda")


def of_cupy():
    """An output and an input."""
    cupy = pytest.importorskip("cupy")
    return cupy.zeros(FLOATS, "float32"), cupy.random.random(FLOATS, "float32")
