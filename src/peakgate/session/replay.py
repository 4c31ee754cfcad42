"""Passes the times of CUDA events to pytest-benchmark's fixture, and fails the test if the verdict does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base import config
from peakgate.base.verdict import FAILING
from peakgate.session.session import NOT_TIMED, Session


def fails(verdict: str, reason: str, session: Session) -> bool:
    """Whether a test with this verdict and reason fails; a case that is right and was not to be timed passes."""
    return verdict in FAILING and not (not session.timed and reason.endswith(NOT_TIMED))


def raise_for(entry: Mapping[str, Any], session: Session) -> None:
    """Fail the current test if the verdict of its case does."""
    if fails(entry["verdict"], entry["reason"], session):
        where = f"; {config.near(session.floors.path)}" if entry["floor"] is not None else ""
        # The verdict first: pytest's short summary has room for little after the test's id.
        reported = f"{entry['verdict']} {entry['case']} on {session.device.slug}: {entry['reason']}{where}"
        raise pytest.fail.Exception(reported, pytrace=False) from None


class ReplayFixture:
    """A fixture that shows the result of a case by pytest-benchmark's, of which it has ``group`` and ``extra_info``."""

    def __init__(self, session: Session, benchmark: BenchmarkFixture, timer: ReplayTimer) -> None:
        self.benchmark = benchmark
        self._session, self._timer = session, timer

    @property
    def group(self) -> str | None:
        group: str | None = self.benchmark.group
        return group

    @group.setter
    def group(self, group: str | None) -> None:
        self.benchmark.group = group

    @property
    def extra_info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.benchmark.extra_info
        return info

    def show(self, entry: Mapping[str, Any], times_us: Sequence[float]) -> None:
        """Show a case's result in pytest-benchmark's table; fail the test if its verdict does.

        What the user put into ``extra_info`` stays beside the entry, and counts where both have it.
        """
        replay(self.benchmark, self._timer, times_us, {**entry, **self.benchmark.extra_info})
        raise_for(entry, self._session)


class ReplayTimer:
    """A timer that plays back durations in seconds to pytest-benchmark, which reads it before and after a round.

    It returns 0 and the next duration alternately, so that an empty round appears to take the time measured on the GPU.
    """

    __name__ = "cuda_events"

    def __init__(self) -> None:
        self._durations: Sequence[float] = ()
        self._reading = -1

    def load(self, durations_s: Sequence[float]) -> None:
        """Set the durations of the next rounds."""
        self._durations, self._reading = durations_s, -1

    def __call__(self) -> float:
        self._reading += 1
        return 0.0 if self._reading % 2 == 0 else self._durations[self._reading // 2]


def replay(
    benchmark: BenchmarkFixture, timer: ReplayTimer, times_us: Sequence[float], entry: Mapping[str, Any] | None = None
) -> None:
    """Give the benchmark one round per measured time, and a case's entry as ``extra_info``; nothing without times."""
    if not times_us:
        return
    benchmark.extra_info.update(entry or {})
    timer.load([time_us / 1e6 for time_us in times_us])
    benchmark.pedantic(lambda: None, rounds=len(times_us))  # type: ignore[no-untyped-call]
