"""From samples to figures of merit, beside what a GPU can do at most by its own attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from peakgate.core.case import Case, Work
from peakgate.judge.occupancy import LIMITS
from peakgate.measure.sampling import Samples

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
Bottleneck = Literal["memory", "compute", "link"]
PCIE_GBS_PER_LANE = {
    1: 0.25,
    2: 0.5,
    3: 8 / 8 * 128 / 130,
    4: 16 / 8 * 128 / 130,
    5: 32 / 8 * 128 / 130,
    6: 64 / 8 * 242 / 256,
}
"""One direction of one PCI Express lane in GB/s by generation: transfer rate / 8 x code (6: flit) efficiency."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of one case in one run, from the median sample.

    ``peak_fraction`` is the least time the GPU's theoretical peak allows over the time taken, by the peak that
    binds; None where no peak is claimed (the emulator, an unknown architecture). ``roof_fraction`` compares with
    what the same run measured as the GPU's best.
    """

    time_us: float
    gbs: float
    tflops: float
    peak_fraction: float | None
    bound: Bottleneck | None
    roof_fraction: float | None
    roof: str | None


def metrics(case: Case, samples: Samples, peaks: Peaks | None, roofs: Mapping[str, float]) -> Metrics:
    """Work over median time, set beside the GPU's peaks and this run's roofs.

    ``roofs`` maps a roof's name (``copy_1GiB``: GB/s, ``fma``: TFLOP/s) to its measured rate.
    """
    time_us = samples.median_us
    gbs = case.work.bytes / time_us / 1e3
    tflops = case.work.flops / time_us / 1e6
    peak_fraction: float | None = None
    bound: Bottleneck | None = None
    least = peaks.least_time_us(case.work, case.roof) if peaks is not None and case.work.claimed else None
    if least is not None:
        peak_fraction, bound = least[0] / time_us, least[1]
    roof = matching_roof(case, roofs) if case.work.claimed else None
    rate = tflops if case.roof == "fma" else gbs
    return Metrics(time_us, gbs, tflops, peak_fraction, bound, rate / roofs[roof] if roof else None, roof)


def matching_roof(case: Case, roofs: Mapping[str, float]) -> str | None:
    """The roof to compare with: of the case's kind, and for memory roofs of the buffer size nearest to the case's.

    Bandwidth grows with the size, so a 256 MiB transpose is compared with the 256 MiB copy, not the 4 GiB one.
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


@dataclass(frozen=True, slots=True)
class Peaks:
    """Theoretical peaks: memory in GB/s (1e9 bytes), FP32 in TFLOP/s; ``derivation`` shows the sums.

    ``link_gbs`` is one direction of the host link; None when the driver does not report it.
    """

    memory_gbs: float
    fp32_tflops: float
    derivation: str
    link_gbs: float | None = None

    def least_time_us(self, work: Work, roof: str) -> tuple[float, Bottleneck] | None:
        """The shortest time the work can take and the peak that sets it (the roofline model).

        A case whose roof is the host link is bound by that alone; None when its rate is unknown.
        """
        if roof == "link":
            return (work.bytes / self.link_gbs / 1e3, "link") if self.link_gbs else None
        memory_us = work.bytes / self.memory_gbs / 1e3
        compute_us = work.flops / (work.peak_tflops or self.fp32_tflops) / 1e6
        return (memory_us, "memory") if memory_us >= compute_us else (compute_us, "compute")


def theoretical_peaks(
    *,
    memory_clock_mhz: float,
    bus_width_bits: int,
    sm_count: int,
    sm_clock_mhz: float,
    capability: tuple[int, int],
    link_gbs: float | None = None,
) -> Peaks | None:
    """Derive the peaks from device attributes; None when the architecture is not in the table.

    Memory: clock x 2 (double data rate) x bus width / 8. FP32: multiprocessors x lanes x 2 (a fused multiply-add
    counts two) x the highest SM clock.
    """
    limits = LIMITS.get(capability)
    if limits is None:
        return None
    lanes = limits.fp32_lanes_per_sm
    memory_gbs = memory_clock_mhz * 2 * bus_width_bits / 8 / 1e3
    fp32_tflops = sm_count * lanes * 2 * sm_clock_mhz / 1e6
    derivation = (
        f"{memory_clock_mhz:.0f} MHz x 2 x {bus_width_bits} bit / 8 = {memory_gbs:.0f} GB/s; "
        f"{sm_count} SM x {lanes} lanes x 2 x {sm_clock_mhz:.0f} MHz = {fp32_tflops:.1f} TFLOP/s"
    )
    return Peaks(memory_gbs, fp32_tflops, derivation, link_gbs)


def pcie_gbs(generation: int, lanes: int) -> float | None:
    """One direction of the link in GB/s; None for a generation the table does not have."""
    rate = PCIE_GBS_PER_LANE.get(generation)
    return None if rate is None else rate * lanes
