"""The line that shows how far a run is."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

import pytest

from peakgate.base.formatting import counted
from peakgate.base.progress import Progress

LOG_EVERY_S = 10.0
"""How often a log, as opposed to a terminal, gets a line."""

OUR_VERBOSITY = -1
"""`peakgate bench` starts pytest with one -q."""

ENOUGH_CASES = 3
"""So many cases have to be done before the time left is worth printing."""

Status = tuple[str, str, str | tuple[str, dict[str, bool]]]


class StatusLine:
    """The line that shows how far a run is: how many cases of how many, the one at hand, the time left.

    It replaces pytest's dots in ``peakgate bench``. With pytest's options -v, -q and -s its own display is shown. A
    line is written before a case, never while one is measured.
    """

    def __init__(self, config: pytest.Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._progress: Progress | None = None
        self._total = self._started = self._failed = 0
        self._begun_at = clock()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        captures = getattr(self._config.option, "capture", "no") != "no"
        if reporter is not None and captures and self._config.get_verbosity() == OUR_VERBOSITY:
            self._progress = Progress(reporter, every_s=LOG_EVERY_S, clock=self._clock)
        self._total = len(session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Name the case that comes next."""
        done, self._started = self._started, self._started + 1
        failed = f"{self._failed} failed, " if self._failed else ""
        case = item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else item.name
        self._show(f"{self._started} of {self._total}, {failed}{case}", self._seconds_left(done))

    def building(self, count: int) -> None:
        """The run begins: its cases are built first."""
        self._show(f"building {counted(count, 'case')}", None)

    def built(self) -> None:
        """Restart the clock: the time of building does not predict that of the cases to come."""
        self._begun_at = self._clock()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed += report.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, Status, Status]:
        """Leave pytest nothing to print for a case while the line stands for it; its summary needs the words again."""
        category, letter, word = yield
        return (category, letter, word) if self._progress is None else (category, "", "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        self._end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._end()

    def _show(self, text: str, seconds_left: float | None) -> None:
        if self._progress is not None:
            self._progress.show(text, seconds_left)

    def _seconds_left(self, done: int) -> float | None:
        """The mean of the cases so far, times those to come."""
        if done < ENOUGH_CASES:
            return None
        return (self._clock() - self._begun_at) / done * (self._total - done)

    def _end(self) -> None:
        if self._progress is not None:
            self._progress.clear()
            self._progress = None
