"""Measured times for pytest-benchmark, through its public interface alone.

pytest-benchmark times a call with a timer it is given, one reading before, one after. ``ReplayTimer`` returns 0 and the
next measured duration alternately, so an empty round "takes" exactly the time that the GPU's events reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture


class ReplayTimer:
    """A clock that plays back durations in seconds."""

    __name__ = "cuda_events"

    def __init__(self) -> None:
        self._durations: Sequence[float] = ()
        self._reading = -1

    def load(self, durations_s: Sequence[float]) -> None:
        """Set what the next rounds will take."""
        self._durations, self._reading = durations_s, -1

    def __call__(self) -> float:
        self._reading += 1
        return 0.0 if self._reading % 2 == 0 else self._durations[self._reading // 2]


def install_timer(request: pytest.FixtureRequest) -> ReplayTimer:
    """Make the test's benchmark use a replay timer; to be called before the ``benchmark`` fixture is set up.

    A benchmark marker of the test keeps its other settings (its group, say): only the timer is ours.
    """
    timer = ReplayTimer()
    marker = request.node.get_closest_marker("benchmark")
    settings = {**(marker.kwargs if marker else {}), "timer": timer}
    request.node.add_marker(pytest.mark.benchmark(**settings), append=False)
    return timer


def replay(benchmark: BenchmarkFixture, timer: ReplayTimer, times_us: Sequence[float]) -> None:
    """Give the benchmark one round per measured time. Does nothing that shows when benchmarks are disabled."""
    if not times_us:
        return
    timer.load([time_us / 1e6 for time_us in times_us])
    benchmark.pedantic(lambda: None, rounds=len(times_us))  # type: ignore[no-untyped-call]
