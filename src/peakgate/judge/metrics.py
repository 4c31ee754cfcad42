"""Figures of merit from samples: rates, fraction of the GPU's peak, fraction of the run's measured roofs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peakgate.judge.peaks import Bottleneck, Peaks
from peakgate.measure.sampling import Samples
from peakgate.spec.case import Case

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of one case in one run, from the median sample.

    ``peak_fraction`` is the least time at the theoretical peak over the measured time, by the ``bound`` that limits;
    None without a known peak (the emulator, an unknown architecture). ``roof_fraction`` is the rate over the roof that
    the same run measured.
    """

    time_us: float
    gbs: float
    tflops: float
    peak_fraction: float | None
    bound: Bottleneck | None
    roof_fraction: float | None
    roof: str | None


def metrics(case: Case, samples: Samples, peaks: Peaks | None, roofs: Mapping[str, float]) -> Metrics:
    """Work over median time, compared with the GPU's peaks and this run's roofs.

    ``roofs`` maps a roof's name (``copy_1GiB``: GB/s; ``fma``, ``bf16``: TFLOP/s) to its measured rate.
    """
    time_us = samples.median_us
    gbs = case.work.bytes / time_us / 1e3
    tflops = case.work.flops / time_us / 1e6
    peak_fraction: float | None = None
    bound: Bottleneck | None = None
    least = peaks.least_time_us(case) if peaks is not None and case.work.claimed else None
    if least is not None:
        peak_fraction, bound = least[0] / time_us, least[1]
    compared = case.work.claimed and (case.arithmetic_roof or not case.repeated)
    roof = matching_roof(case, roofs) if compared else None
    rate = tflops if case.arithmetic_roof else gbs
    return Metrics(time_us, gbs, tflops, peak_fraction, bound, rate / roofs[roof] if roof else None, roof)


def matching_roof(case: Case, roofs: Mapping[str, float]) -> str | None:
    """The roof to compare with: of the case's kind, and for memory roofs of the nearest buffer size.

    Bandwidth depends on the size: a 256 MiB transpose is compared with the 256 MiB copy, not the 4 GiB one.
    """
    candidates = {name: _size_bytes(name) for name in roofs if name.split("_")[0] == case.roof}
    if not candidates:
        return None
    largest = max((buffer.nbytes for buffer in case.buffers), default=0)
    return min(candidates, key=lambda name: (abs(candidates[name] - largest), name))


def _size_bytes(roof: str) -> int:
    _, _, label = roof.partition("_")
    for unit, factor in _UNITS.items():
        if label.endswith(unit):
            return int(label.removesuffix(unit)) * factor
    return 0
