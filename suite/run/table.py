"""A run as a person reads it: by family, rate and fraction of peak beside the time, what is wrong last."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from peakgate.common.text import one_line
from peakgate.verdict import REGRESSIONS, UNDECIDED, Verdict
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_BAR_CELLS = 8
_WIDTH_WITH_BAR = 100
_STYLE = {Verdict.PASS: "green", Verdict.NO_FLOOR: "yellow"}


@dataclass(frozen=True, slots=True)
class Row:
    """What the table shows of one case; None where a figure is not known or not claimed."""

    case: str
    family: str
    time_us: float | None
    gbs: float | None
    tflops: float | None
    bound: str | None
    peak_fraction: float | None
    floor: float | None
    verdict: Verdict
    reason: str

    @property
    def rate(self) -> str:
        """The rate by the peak that binds, with its unit."""
        if self.bound is None or self.tflops is None or self.gbs is None:
            return ""
        return f"{self.tflops:.1f} TFLOP/s" if self.bound == "compute" else f"{self.gbs:.0f} GB/s"

    @property
    def badness(self) -> float:
        """How far below its floor a case is, from 0 to 1; a case without figures outranks all."""
        if self.peak_fraction is None or self.floor is None:
            return 1.0
        return 1.0 - self.peak_fraction / self.floor


def row(extra_info: Mapping[str, Any]) -> Row:
    """The row of one benchmark, from what the run file keeps of it."""
    shared = ("case", "family", "time_us", "gbs", "tflops", "bound", "peak_fraction", "floor", "reason")
    return Row(**{name: extra_info[name] for name in shared}, verdict=Verdict(extra_info["verdict"]))


def render(rows: Sequence[Row], closing_lines: Sequence[str], *, width: int, colour: bool) -> str:
    """Tables, what is wrong (worst first) and the closing lines as text that fits ``width`` columns (80 at least)."""
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
    for family, members in groupby(rows, key=lambda row: row.family):
        console.print(_family_table(family, list(members), console.width))
    for wrong in sorted(rows, key=lambda row: row.badness, reverse=True):
        if wrong.verdict in REGRESSIONS | UNDECIDED:
            console.print(Text(one_line(f"{wrong.verdict} {wrong.case}: {wrong.reason}"), style="red"), soft_wrap=True)
    for line in closing_lines:
        console.print(Text(one_line(line)), soft_wrap=True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def bar(fraction: float | None) -> str:
    """A fraction as a bar of eight cells; empty when it is not known."""
    if fraction is None:
        return ""
    filled = round(min(max(fraction, 0.0), 1.0) * _BAR_CELLS)
    return "█" * filled + "░" * (_BAR_CELLS - filled)


def _family_table(family: str, rows: Sequence[Row], width: int) -> Table:
    cells_of = {"time µs": 10}
    if any(row.peak_fraction is not None for row in rows):
        cells_of |= {"rate": 12, "peak": 6}
        cells_of |= {"": _BAR_CELLS} if width >= _WIDTH_WITH_BAR else {}
    if any(row.floor is not None for row in rows):
        cells_of |= {"floor": 6}
    verdict_cells = max(len("verdict"), *(len(row.verdict) for row in rows))
    names = [one_line(row.case.removeprefix(f"{family}.")) for row in rows]
    rest = sum(cells_of.values()) + verdict_cells + 2 * len(cells_of) + 6  # a space around columns
    table = Table(
        box=box.SIMPLE_HEAD, title=one_line(family), title_justify="left", pad_edge=False, padding=(0, 1, 0, 0)
    )
    longest = max(20, min(max(map(len, names)), width - rest))
    table.add_column("case", no_wrap=True, overflow="ellipsis", max_width=longest)
    for name, cells in cells_of.items():
        table.add_column(name, justify="right", no_wrap=True, min_width=cells)
    table.add_column("verdict", no_wrap=True, min_width=verdict_cells)
    for name, row in zip(names, rows, strict=True):
        figures = {
            "time µs": "" if row.time_us is None else f"{row.time_us:.2f}",
            "rate": row.rate,
            "peak": _percent(row.peak_fraction),
            "": bar(row.peak_fraction),
            "floor": _percent(row.floor),
        }
        shown = [figures[column] for column in cells_of]
        table.add_row(name, *shown, Text(row.verdict.value, style=_STYLE.get(row.verdict, "bold red")))
    return table


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{fraction * 100:.1f} %"
