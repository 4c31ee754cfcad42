"""The run as a person reads it: by family, rate and fraction of peak beside the time, what is wrong last."""

from __future__ import annotations

import io
from collections import Counter
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.session import Outcome, Session
from suite.verdict import REGRESSIONS, UNDECIDED, Verdict

_BAR_CELLS = 8
_WIDTH_WITH_BAR = 100
_STYLE = {Verdict.PASS: "green", Verdict.NO_FLOOR: "yellow"}


def render(session: Session, *, width: int, colour: bool) -> str:
    """The whole summary as text that fits ``width`` columns."""
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
    for family, outcomes in groupby(session.outcomes, key=lambda outcome: outcome.case.family):
        console.print(_family_table(family, list(outcomes), console.width))
    for outcome in sorted(session.outcomes, key=_badness, reverse=True):
        if outcome.judgement.verdict in REGRESSIONS | UNDECIDED:
            line = f"{outcome.judgement.verdict} {outcome.case.id}: {outcome.judgement.reason}"
            console.print(Text(line, style="red"), soft_wrap=True)
    for line in closing_lines(session):
        console.print(line, soft_wrap=True)
    return stream.getvalue().rstrip("\n")


def closing_lines(session: Session) -> list[str]:
    """Roofs, where the wall time went, and the counts."""
    lines = list(session.notes)
    if session.roofs:
        rates = ", ".join(f"{name} {rate:.1f}" for name, rate in session.roofs.items())
        lines.append(f"roofs of this run (GB/s; fma TFLOP/s): {rates}")
    parts = ", ".join(
        f"{what} {seconds:.1f}" for what, seconds in session.wall_s.items() if what not in ("total", "begin")
    )
    lines.append(f"wall {session.wall_s['total']:.1f} s: {parts}")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(session.verdicts).most_common())
    lines.append(f"{len(session.outcomes)} cases on {session.device.slug}: {counts}")
    return lines


def bar(fraction: float | None) -> str:
    """A fraction as a bar of eight cells; empty when it is not known."""
    if fraction is None:
        return ""
    filled = round(min(max(fraction, 0.0), 1.0) * _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _family_table(family: str, outcomes: list[Outcome], width: int) -> Table:
    judged = any(outcome.metrics and outcome.metrics.peak_fraction is not None for outcome in outcomes)
    cells_of = {"time µs": 10}
    if judged:
        cells_of |= {"rate": 12, "peak": 6, "": _BAR_CELLS, "floor": 6}
    if width < _WIDTH_WITH_BAR:
        cells_of.pop("", None)
    verdict_cells = max(len("verdict"), *(len(outcome.judgement.verdict) for outcome in outcomes))
    names = [outcome.case.id.removeprefix(f"{family}.") for outcome in outcomes]
    rest = sum(cells_of.values()) + verdict_cells + 2 * len(cells_of) + 6  # a space around columns
    table = Table(box=box.SIMPLE_HEAD, title=family, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(
        "case", no_wrap=True, overflow="ellipsis", max_width=max(20, min(max(map(len, names)), width - rest))
    )
    for name, cells in cells_of.items():
        table.add_column(name, justify="right", no_wrap=True, min_width=cells)
    table.add_column("verdict", no_wrap=True, min_width=verdict_cells)
    for name, outcome in zip(names, outcomes, strict=True):
        verdict = outcome.judgement.verdict
        peak_fraction = outcome.metrics.peak_fraction if outcome.metrics else None
        figures = {
            "time µs": _time(outcome),
            "rate": _rate(outcome),
            "peak": _percent(peak_fraction),
            "": bar(peak_fraction),
            "floor": _percent(outcome.floor),
        }
        shown = [figures[column] for column in cells_of]
        table.add_row(name, *shown, Text(verdict.value, style=_STYLE.get(verdict, "bold red")))
    return table


def _time(outcome: Outcome) -> str:
    return "" if outcome.samples is None or not outcome.samples.times_us else f"{outcome.samples.median_us:.2f}"


def _rate(outcome: Outcome) -> str:
    figures = outcome.metrics
    if figures is None or figures.bound is None:
        return ""
    return f"{figures.tflops:.1f} TFLOP/s" if figures.bound == "compute" else f"{figures.gbs:.0f} GB/s"


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction * 100:.1f}%"


def _badness(outcome: Outcome) -> float:
    """How far below its floor a case lies; a case without figures outranks all."""
    if outcome.metrics is None or outcome.metrics.peak_fraction is None or outcome.floor is None:
        return 1.0
    return 1.0 - outcome.metrics.peak_fraction / outcome.floor
