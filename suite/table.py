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

_BAR_CELLS = 10
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
        console.print(_family_table(family, list(outcomes)))
    for outcome in sorted(session.outcomes, key=_badness, reverse=True):
        if outcome.judgement.verdict in REGRESSIONS | UNDECIDED:
            console.print(
                Text(f"{outcome.judgement.verdict} {outcome.case.id}: {outcome.judgement.reason}"), style="red"
            )
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
    """A fraction as a bar of ten cells; empty when it is not known."""
    if fraction is None:
        return ""
    filled = round(min(max(fraction, 0.0), 1.0) * _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _family_table(family: str, outcomes: list[Outcome]) -> Table:
    judged = any(outcome.metrics and outcome.metrics.peak_fraction is not None for outcome in outcomes)
    table = Table(box=box.SIMPLE_HEAD, title=family, title_justify="left", pad_edge=False, padding=(0, 1))
    table.add_column("case", no_wrap=True, overflow="ellipsis", min_width=20, ratio=1)
    figures = ("time µs", "rate", "of peak", "", "floor") if judged else ("time µs",)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    table.add_column("verdict", no_wrap=True, min_width=len(Verdict.PASS))
    for outcome in outcomes:
        verdict = outcome.judgement.verdict
        cells = [_time(outcome)]
        if judged:
            peak_fraction = outcome.metrics.peak_fraction if outcome.metrics else None
            cells += [_rate(outcome), _percent(peak_fraction), bar(peak_fraction), _percent(outcome.floor)]
        style = _STYLE.get(verdict, "bold red")
        table.add_row(outcome.case.id.removeprefix(f"{family}."), *cells, Text(verdict.value, style=style))
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
