"""Joules per launch, from a counter of the GPU's energy over loops of launches back to back. Pure but for its meter.

The counter is read some ten times a second, so that a loop is measured between two of its steps, at least two seconds
apart: power there, times the time of a launch over all of the loop.
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
"""Seconds of a loop between steps of the counter, and loops of a case in a run; a process of an A/B takes one."""

WARM_S, IDLE_S = 0.3, 1.0
"""A loop's first seconds do not count; an idle GPU rests so long before, and is read for as long."""

CHUNK_S = 0.005
LONGEST_FACTOR = 5
"""A loop of so many times the seconds that it should take has a counter that does not move."""


class Meter(Protocol):
    """A GPU's energy counter, and places in its stream."""

    def joules(self) -> float | None:
        """The energy so far; None where the driver does not count it."""
        ...

    def mark(self) -> Callable[[], None]:
        """A place in the stream; what it gives waits until the GPU is there."""
        ...


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: the power between steps of the counter, and the seconds of a launch."""

    power_w: float
    launch_s: float

    @property
    def joules(self) -> float:
        return self.power_w * self.launch_s


def of_loops(loops: list[Loop], idle_w: float | None) -> Energy:
    """What loops come to."""
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
    """Launch back to back for two seconds between steps of the counter; None where it does not move.

    ``launch`` queues so many ``launches`` of ``launch_us`` each. Two chunks of them are in the stream at any time.
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
    """The power of the GPU without work, after it rested; None where the counter does not move."""
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
