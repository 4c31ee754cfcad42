"""Helion, with a fixed configuration instead of its tuner."""

import pytest
from doubling import BLOCK, DOUBLES, of_torch

torch = pytest.importorskip("torch")
helion = pytest.importorskip("helion")
import helion.language as hl  # noqa: E402


@helion.kernel(config=helion.Config(block_sizes=[BLOCK]))
def double(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = 2 * x[tile] + 1
    return out


def of_helion():
    return double, of_torch()[1]


@DOUBLES
def bench_helion(gpu_benchmark):
    gpu_benchmark(*of_helion())
