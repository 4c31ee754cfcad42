"""Joules per launch, from the GPU's energy counter over loops of back-to-back launches.

The counter is updated some ten times per second, so power is measured between two of its steps at least two seconds
apart. The energy of a launch is that power times the mean time of a launch over the loop.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from peakgate.spec.recorded import Energy

LOOP_S, LOOPS = 2.0, 3
"""Seconds of a loop between steps of the counter, and loops per case in a run; a process of an A/B takes one."""

WARM_S, IDLE_S = 0.3, 1.0
"""Seconds at the start of a loop that do not count; seconds for which an idle GPU rests before it is measured."""

CHUNK_S = 0.005
LONGEST_FACTOR = 5
"""A loop stops if the counter has not moved in this many times the expected seconds."""


class Meter(Protocol):
    """A GPU's energy counter, and marks in its stream."""

    def joules(self) -> float | None:
        """The counter's value; None if the driver has none."""
        ...

    def mark(self) -> Callable[[], None]:
        """Record an event in the stream; the returned function waits for it."""
        ...


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: the power between steps of the counter, and seconds per launch."""

    power_w: float
    launch_s: float

    @property
    def joules(self) -> float:
        return self.power_w * self.launch_s


def of_loops(loops: list[Loop], idle_w: float | None) -> Energy:
    """The energy of a launch over several loops."""
    found = [loop.joules for loop in loops]
    launch_us = 1e6 * median(loop.launch_s for loop in loops)
    power_w = median(loop.power_w for loop in loops)
    return Energy(median(found), min(found), max(found), len(loops), launch_us, power_w, idle_w)


def loop(
    launch: Callable[[], None],
    launch_us: float,
    meter: Meter,
    clock: Callable[[], float] = time.monotonic,
    *,
    launches: int = 1,
) -> Loop | None:
    """Launch back to back until two seconds have passed between steps of the counter; None if it does not move.

    ``launch`` queues ``launches`` launches of ``launch_us`` each. Two chunks of calls are in the stream at any time.
    """
    calls = max(1, round(CHUNK_S * 1e6 / (launch_us * launches)))
    begun, queued = clock(), 0
    waiting: deque[Callable[[], None]] = deque()
    steps: list[tuple[float, float]] = []
    before: float | None = None
    while not steps or steps[-1][0] - steps[0][0] < LOOP_S:
        for _ in range(calls):
            launch()
        queued += calls * launches
        waiting.append(meter.mark())
        if len(waiting) > 2:
            waiting.popleft()()
        now, joules = clock(), meter.joules()
        if joules is None or now - begun > LONGEST_FACTOR * (WARM_S + LOOP_S):
            _drain(waiting)
            return None
        if before is not None and joules != before and now - begun >= WARM_S:
            steps.append((now, joules))
        before = joules
    _drain(waiting)
    seconds = clock() - begun
    (start_s, start_j), (end_s, end_j) = steps[0], steps[-1]
    return Loop((end_j - start_j) / (end_s - start_s), seconds / queued)


def idle_w(
    meter: Meter, clock: Callable[[], float] = time.monotonic, rest: Callable[[float], None] = time.sleep
) -> float | None:
    """The power of the idle GPU in W, measured after a rest; None if the counter does not move."""
    rest(IDLE_S)
    begun, steps = clock(), list[tuple[float, float]]()
    while clock() - begun < 2 * IDLE_S:
        now, joules = clock(), meter.joules()
        if joules is None:
            return None
        if not steps or joules != steps[-1][1]:
            steps.append((now, joules))
        rest(CHUNK_S)
    moved = steps[1:]  # the first reading is within a step
    if len(moved) < 2:
        return None
    return (moved[-1][1] - moved[0][1]) / (moved[-1][0] - moved[0][0])


def _drain(waiting: deque[Callable[[], None]]) -> None:
    while waiting:
        waiting.popleft()()
