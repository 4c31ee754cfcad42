"""How long a step of a case may take before it counts as endless, in seconds, from what it is expected to take. Pure.

A launch is expected to take the least time that its work needs at the peak, over the case's floor: a kernel that
passes is no slower. Without a floor 1 % of peak is expected, without a known peak the rates of a small GPU. Ten times
that, and five seconds for the driver, is allowed. A launch in the emulator ends by itself at a limit of processor time,
which a busy machine does not change; wall time is a far backstop there. Sampling repeats a launch whose duration is
known by then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a supervisor reads limits and does without NumPy, which takes half a second to import
    from peakgate.measure.sampling import SamplingPlan
    from peakgate.spec.case import Launch, Work

HOST_LIMIT_S = 120.0
"""For what runs on the host or is trusted: one case's build and input data, its reference, the comparison."""

PROCESS_START_LIMIT_S = 300.0
"""For a process to import everything and to open the device."""

BASE_S, SLACK = 5.0, 10.0
EXPECTED_FRACTION = 0.01
NOMINAL_GBS, NOMINAL_TFLOPS = 100.0, 1.0

GRAPH_LAUNCHES = 20
"""Launches of a captured CUDA graph: what it takes to start one is a twentieth of that in the time of each."""

EMULATED_THREADS = 65536
"""Of a launch that may take the processor time of the settings; a larger one gets more in proportion."""

EMULATED_PER_US = 30.0
"""Memory accesses and operations."""

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
    """The processor time of one emulated launch, of which EMULATED_THREADS are allowed ``timeout_s``."""
    return timeout_s * max(1.0, math.prod(launch.grid) * launch.threads_per_block / EMULATED_THREADS)


def emulated_launch_us(work: Work) -> float:
    """About how long an emulated launch takes."""
    return (work.bytes / 4 + work.flops) / EMULATED_PER_US


LAUNCHES_PER_SAMPLE = {"cold": 1, "warm": 2, "graph": 2 * GRAPH_LAUNCHES}
"""By the state of a case: a repeated launch follows as many untimed ones."""


def sampling_limit_s(limit_s: float, launch_s: float, plan: SamplingPlan, state: str = "cold") -> float:
    """The limit of all samples of a case whose checked launch took ``launch_s`` and may take ``limit_s``."""
    launches = plan.min_samples + 2 * plan.batch + plan.warmup
    return limit_s + SLACK * LAUNCHES_PER_SAMPLE[state] * (launches * launch_s + plan.budget_us / 1e6)


def build_limit_s(builds: int) -> float:
    """The limit of building everything at the start of a run, all in parallel."""
    return HOST_LIMIT_S + BUILD_S * builds
