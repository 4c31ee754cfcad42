"""What the tests of suite/ share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def matrix(gpu_benchmark: Any) -> Any:
    """A square matrix of distinct float32, on the GPU; a small one for the emulator."""
    side = 4096 if gpu_benchmark.gpus else 128
    return gpu_benchmark.xp.arange(side * side, dtype="float32").reshape(side, side)
