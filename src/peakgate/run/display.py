"""What a person sees of a run: how far it is, and at its end its tables, what is wrong, and the closing lines."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from peakgate.base.formatting import counted, one_line, share, time_text
from peakgate.base.progress import Progress, Stream, shown
from peakgate.base.verdict import FAILING, RAN, RIGHT, Verdict, counts
from peakgate.run.collection import CASES_MARKER
from peakgate.spec.case import Case
from peakgate.spec.recorded import ARITHMETIC_ROOFS, TIME_OF

if TYPE_CHECKING:
    from rich.table import Table

    from peakgate.session.outcome import Entry
    from peakgate.session.session import Session

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


_BAR_CELLS = 8
_WIDTH_WITH_BAR = 100
_STYLE: dict[str, str] = {Verdict.PASS: "green", RIGHT: "green", RAN: "yellow", Verdict.NO_FLOOR: "yellow"}


def render(entries: Sequence[Entry], closing_lines: Sequence[str], *, width: int, colour: bool) -> str:
    """Tables, what is wrong (worst first) and the closing lines as text that fits ``width`` columns (80 at least)."""
    from rich.console import Console  # noqa: PLC0415  (slow, and not needed if a run ends early)
    from rich.text import Text  # noqa: PLC0415  (as above)

    stream = io.StringIO()
    console = Console(
        file=stream,
        width=max(80, width),
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        emoji=False,
        markup=False,
    )
    for family, members in groupby(entries, key=lambda entry: entry["family"]):
        console.print(_family_table(family, list(members), console.width))
    for wrong in sorted(entries, key=_badness, reverse=True):
        if wrong["verdict"] in FAILING:
            reported = one_line(f"{wrong['verdict']} {wrong['case']}: {wrong['reason']}")
            console.print(Text(reported, style="red"), soft_wrap=True)
    for line in closing_lines:
        console.print(Text(one_line(line)), soft_wrap=True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def bar(fraction: float | None) -> str:
    """A fraction as a bar of eight cells; empty when it is not known."""
    if fraction is None:
        return ""
    filled = round(min(max(fraction, 0.0), 1.0) * _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _badness(entry: Entry) -> float:
    """How far below its floor a case is, from 0 to 1; a case without figures outranks all."""
    fraction, floor = entry["peak_fraction"], entry["floor"]
    return 1.0 if fraction is None or floor is None else 1.0 - float(fraction / floor)


def _rate(entry: Entry) -> str:
    """The rate by the peak that binds, with its unit."""
    if entry["bound"] is None or entry["tflops"] is None or entry["gbs"] is None:
        return ""
    return f"{entry['tflops']:.1f} TFLOP/s" if entry["bound"] == "compute" else f"{entry['gbs']:.0f} GB/s"


def _family_table(family: str, entries: Sequence[Entry], width: int) -> Table:
    from rich import box  # noqa: PLC0415  (as above)
    from rich.table import Table  # noqa: PLC0415  (as above)
    from rich.text import Text  # noqa: PLC0415  (as above)

    cells_of = {"time": 10}
    if any(entry.get("metric") == "launch" for entry in entries):
        cells_of |= {"of the": 6}
    if any(entry["peak_fraction"] is not None for entry in entries):
        cells_of |= {"rate": 12, "peak": 6}
        cells_of |= {"": _BAR_CELLS} if width >= _WIDTH_WITH_BAR else {}
    if any(entry["floor"] is not None for entry in entries):
        cells_of |= {"floor": 6}
    verdict_cells = max(len("verdict"), *(len(entry["verdict"]) for entry in entries))
    names = [one_line(entry["case"].removeprefix(f"{family}.")) for entry in entries]
    rest = sum(cells_of.values()) + verdict_cells + 2 * len(cells_of) + 6  # a space around columns
    table = Table(
        box=box.SIMPLE_HEAD, title=one_line(family), title_justify="left", pad_edge=False, padding=(0, 1, 0, 0)
    )
    longest = max(20, min(max(map(len, names)), width - rest))
    table.add_column("case", no_wrap=True, overflow="ellipsis", max_width=longest)
    for name, least in cells_of.items():
        table.add_column(name, justify="right", no_wrap=True, min_width=least)
    table.add_column("verdict", no_wrap=True, min_width=verdict_cells)
    for name, entry in zip(names, entries, strict=True):
        figures = {
            "time": "" if entry["time_us"] is None else time_text(entry["time_us"]),
            "of the": TIME_OF[entry.get("metric", "gpu")],
            "rate": _rate(entry),
            "peak": _share(entry["peak_fraction"]),
            "": bar(entry["peak_fraction"]),
            "floor": _share(entry["floor"]),
        }
        cells = [figures[column] for column in cells_of]
        table.add_row(name, *cells, Text(entry["verdict"], style=_STYLE.get(entry["verdict"], "bold red")))
    return table


def _share(fraction: float | None) -> str:
    return "" if fraction is None else share(fraction)


def as_shown(entries: Sequence[Entry], device: str) -> Sequence[Entry]:
    """The entries as a person reads them: of a device whose speed nobody judges RIGHT, or RAN, in place of NO_FLOOR.

    RAN is a case whose result was compared with nothing.
    """
    if device != "cpu":
        return entries
    found = []
    for entry in entries:
        word = RAN if entry["relative_error"] is None else RIGHT
        found.append(entry | {"verdict": word} if entry["verdict"] == Verdict.NO_FLOOR else entry)
    return found


def closing_lines(session: Session, entries: Sequence[Entry], partial: str | None) -> list[str]:
    """The last lines of a run: notes, roofs, the wall time by phase, and the counts."""
    lines = list(session.notes)
    if session.roofs:
        rates = ", ".join(f"{name} {rate:.1f}" for name, rate in session.roofs.items())
        arithmetic = ", ".join(sorted({"fma"} | {*ARITHMETIC_ROOFS} & session.roofs.keys()))
        lines.append(f"roofs of this run (GB/s; {arithmetic} TFLOP/s): {rates}")
    parts = ", ".join(f"{what} {seconds:.1f}" for what, seconds in session.steps.wall_s.items() if what != "total")
    lines.append(f"wall {session.steps.wall_s['total']:.1f} s: {parts}")
    checked = [entry for entry in entries if entry.get("varying_elements") is not None]
    if checked:
        varying = [f"{entry['case']} ({entry['varying_elements']})" for entry in checked if entry["varying_elements"]]
        lines.append(
            f"launched twice on the same data: {counted(len(varying), 'case')} of {len(checked)} differ in some bits"
            + (f" (elements): {', '.join(varying)}" if varying else "")
        )
    verdicts = counts([str(entry["verdict"]) for entry in entries])
    not_judged = "; speed is judged only on a GPU" if session.device.kind == "cpu" else ""
    lines.append(f"{counted(len(entries), 'case')} on {session.device.slug}: {verdicts}{not_judged}")
    if partial is not None:
        lines.append(f"partial run: {partial}")
    return lines
