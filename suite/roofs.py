"""Measure this run's roofs: what the chip in hand reaches today, before any case is set beside it."""

from __future__ import annotations

from collections.abc import Sequence

from suite.case import Case
from suite.device.interface import Device
from suite.metrics import metrics
from suite.sampling import SamplingPlan

ROOF_FAMILY = "roof"
LARGEST_BUFFER_BYTES = 1 << 30
"""Copies of 4 GiB run no faster than those of 1 GiB and take four times as long."""

_PLAN = SamplingPlan(min_samples=6, max_samples=36, budget_us=4_000)


def yardsticks(cases: Sequence[Case]) -> list[Case]:
    """The cases of the roof family that are measured before every run."""
    return [case for case in cases if case.family == ROOF_FAMILY and _largest_bytes(case) <= LARGEST_BUFFER_BYTES]


def measure_roofs(device: Device, cases: Sequence[Case]) -> dict[str, float]:
    """The best rate of each kind and size over these cases of the roof family.

    ``copy_1GiB``, ``read_1GiB``, ``write_1GiB``: GB/s; ``fma``: TFLOP/s. Empty on a device without peaks: an
    emulated rate is no roof.
    """
    if device.peaks is None:
        return {}
    roofs: dict[str, float] = {}
    for case in cases:
        if device.refusal(case):
            continue
        figures = metrics(case, device.prepare(case).sample(_PLAN), device.peaks, {})
        name, rate = ("fma", figures.tflops) if case.roof == "fma" else (f"{case.roof}_{case.size}", figures.gbs)
        roofs[name] = max(rate, roofs.get(name, 0.0))
    return {name: round(rate, 3) for name, rate in sorted(roofs.items())}


def _largest_bytes(case: Case) -> int:
    return max(buffer.nbytes for buffer in case.buffers)
