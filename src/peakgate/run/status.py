"""The line that shows how far a run is."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager

import pytest

from peakgate.base.formatting import counted
from peakgate.base.progress import Progress, Stream, shown
from peakgate.run.collection import CASES_MARKER
from peakgate.spec.case import Case

OUR_VERBOSITY = -1
"""`peakgate bench` starts pytest with one -q."""

Status = tuple[str, str, str | tuple[str, dict[str, bool]]]


class StatusLine:
    """The line that shows how far a run is: how many cases of how many, the one at hand, the time left.

    It replaces pytest's dots in ``peakgate bench``. With pytest's options -v, -q and -s its own display is shown. A
    line is written before a case, never while one is measured.
    """

    def __init__(
        self, config: pytest.Config, tests: Mapping[str, Case], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``tests`` are the cases of the tests of callables, by node id."""
        self._config, self._tests, self._clock = config, tests, clock
        self._progress: Progress | None = None
        self._total = self._failed = 0
        self._begun = self._ours = False

    @contextmanager
    def building(self, count: int, *, ticks: bool) -> Iterator[None]:
        """Show that cases are built, in any run that pytest displays; with ``ticks`` as in ``Progress``."""
        if not count or (reporter := self._reporter()) is None:
            yield
            return
        with shown(f"building the kernels of {counted(count, 'case')}", stream=reporter, ticks=ticks, interrupted=""):
            yield

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        reporter = self._reporter()
        captures = getattr(self._config.option, "capture", "no") != "no"
        self._ours = captures and self._config.get_verbosity() == OUR_VERBOSITY
        if reporter is not None and self._ours:
            self._progress = Progress(reporter, clock=self._clock)
        self._total = len(session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Name the case that comes next."""
        if self._progress is None:
            return
        failed = f"{self._failed} failed, " if self._failed else ""
        if isinstance(item, pytest.Function) and item.get_closest_marker(CASES_MARKER) is not None:
            case = item.callspec.id
        else:
            case = self._tests[item.nodeid].id
        if self._begun:
            self._progress.advance(f"{failed}{case}")
        else:
            self._progress.step(f"{failed}{case}", self._total, "case")
        self._begun = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed += report.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, Status, Status]:
        """Leave pytest nothing to print for a case while the line stands for it; its summary needs the words again."""
        category, letter, word = yield
        return (category, letter, word) if self._progress is None else (category, "", "")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Leave pytest the failures that it has more to say of than the run's table, which gives a reason a line."""
        failed = terminalreporter.stats.get("failed", [])
        if self._ours and failed:
            # A verdict and its reason in one line, with nothing that the test printed, is in the table.
            terminalreporter.stats["failed"] = [
                each for each in failed if each.sections or len(each.longreprtext.splitlines()) != 1
            ]
        try:
            return (yield)
        finally:
            if failed:
                terminalreporter.stats["failed"] = failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        self._end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._end()

    def _reporter(self) -> Stream | None:
        return self._config.pluginmanager.get_plugin("terminalreporter")

    def _end(self) -> None:
        if self._progress is not None:
            self._progress.clear()
            self._progress = None
