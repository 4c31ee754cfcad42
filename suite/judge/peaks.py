"""What a GPU can do at most, from its own attributes; and which of its limits binds a case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from peakgate.case import Work
from peakgate.judge.occupancy import LIMITS

Bound = Literal["memory", "compute", "link"]


@dataclass(frozen=True, slots=True)
class Peaks:
    """Theoretical peaks: memory in GB/s (1e9 bytes), FP32 in TFLOP/s; ``derivation`` shows the sums.

    ``link_gbs`` is one direction of the host link; None when the driver does not report it.
    """

    memory_gbs: float
    fp32_tflops: float
    derivation: str
    link_gbs: float | None = None

    def least_time_us(self, work: Work, roof: str) -> tuple[float, Bound] | None:
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


PCIE_GBS_PER_LANE = {
    1: 0.25,
    2: 0.5,
    3: 8 / 8 * 128 / 130,
    4: 16 / 8 * 128 / 130,
    5: 32 / 8 * 128 / 130,
    6: 64 / 8 * 242 / 256,
}
"""One direction of one PCI Express lane in GB/s by generation: transfer rate / 8 x code (6: flit) efficiency."""


def pcie_gbs(generation: int, lanes: int) -> float | None:
    """One direction of the link in GB/s; None for a generation the table does not have."""
    rate = PCIE_GBS_PER_LANE.get(generation)
    return None if rate is None else rate * lanes
