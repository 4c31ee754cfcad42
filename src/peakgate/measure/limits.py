"""Time limits of the steps of a case in seconds, after which they count as endless.

The expected time of a launch is that of its work at the peak, divided by the case's floor: a passing kernel is not
slower. Without a floor 1 % of peak is assumed, without a known peak the rates of a small GPU. The limit is ten times
the expected time plus five seconds for the driver. In the emulator the limit is processor time, which does not depend
on the load of the machine; wall time is a distant second limit. The limit of sampling follows from the measured time of
a launch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a supervisor reads limits and does not import NumPy, which takes half a second
    from peakgate.measure.sampling import SamplingPlan
    from peakgate.spec.case import Launch, Work

HOST_LIMIT_S = 120.0
"""Limit of work on the host or of trusted kernels: a case's build and input data, its reference, the comparison."""

PROCESS_START_LIMIT_S = 300.0
"""Limit for a process to import modules and open the device."""

BASE_S, SLACK = 5.0, 10.0
EXPECTED_FRACTION = 0.01
NOMINAL_GBS, NOMINAL_TFLOPS = 100.0, 1.0

GRAPH_LAUNCHES = 20
"""Launches in a captured CUDA graph: each includes a twentieth of the time to start the graph."""

EMULATED_THREADS = 65536
"""A launch of this many threads may take the processor time of the settings; a larger one proportionally more."""

EMULATED_PER_US = 30.0
"""Memory accesses and operations per µs in the emulator."""

BUILD_S = 10.0


def expected_launch_s(work: Work, least_us: float | None, floor: float | None) -> float:
    """The expected time of one launch; ``least_us`` is its time at the peak, None if no peak is known."""
    if least_us is None:
        least_us = max(work.bytes / NOMINAL_GBS / 1e3, work.flops / NOMINAL_TFLOPS / 1e6)
        return least_us / 1e6
    return least_us / 1e6 / (floor or EXPECTED_FRACTION)


def launch_limit_s(expected_s: float) -> float:
    """The limit of one launch on a GPU."""
    return BASE_S + SLACK * expected_s


def processor_limit_s(launch: Launch, timeout_s: float) -> float:
    """The processor time that one emulated launch may take; EMULATED_THREADS may take ``timeout_s``."""
    return timeout_s * max(1.0, math.prod(launch.grid) * launch.threads_per_block / EMULATED_THREADS)


def emulated_launch_us(work: Work) -> float:
    """The approximate time of an emulated launch in µs."""
    return (work.bytes / 4 + work.flops) / EMULATED_PER_US


LAUNCHES_PER_SAMPLE = {"cold": 1, "warm": 2, "graph": 2 * GRAPH_LAUNCHES}
"""By state of a case: as many untimed launches precede a warm or graph sample."""


def sampling_limit_s(limit_s: float, launch_s: float, plan: SamplingPlan, state: str = "cold") -> float:
    """The limit of all samples of a case whose checked launch took ``launch_s`` and may take ``limit_s``."""
    launches = plan.min_samples + 2 * plan.batch + plan.warmup
    return limit_s + SLACK * LAUNCHES_PER_SAMPLE[state] * (launches * launch_s + plan.budget_us / 1e6)


def build_limit_s(builds: int) -> float:
    """The limit of the parallel builds at the start of a run."""
    return HOST_LIMIT_S + BUILD_S * builds
