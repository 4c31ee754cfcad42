"""A run as a person reads it: by family, rate and fraction of peak beside the time, what is wrong last."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from peakgate.base.formatting import one_line, share, time_text
from peakgate.base.verdict import FAILING, RAN, Verdict
from peakgate.spec.recorded import TIME_OF

_BAR_CELLS = 8
_WIDTH_WITH_BAR = 100
_STYLE: dict[str, str] = {Verdict.PASS: "green", "RIGHT": "green", RAN: "yellow", Verdict.NO_FLOOR: "yellow"}


TableEntry = Mapping[str, Any]
"""One case in the run file: its ``extra_info``."""


def render(entries: Sequence[TableEntry], closing_lines: Sequence[str], *, width: int, colour: bool) -> str:
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


def _badness(entry: TableEntry) -> float:
    """How far below its floor a case is, from 0 to 1; a case without figures outranks all."""
    fraction, floor = entry["peak_fraction"], entry["floor"]
    return 1.0 if fraction is None or floor is None else 1.0 - float(fraction / floor)


def _rate(entry: TableEntry) -> str:
    """The rate by the peak that binds, with its unit."""
    if entry["bound"] is None or entry["tflops"] is None or entry["gbs"] is None:
        return ""
    return f"{entry['tflops']:.1f} TFLOP/s" if entry["bound"] == "compute" else f"{entry['gbs']:.0f} GB/s"


def _family_table(family: str, entries: Sequence[TableEntry], width: int) -> Table:
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
    for name, cells in cells_of.items():
        table.add_column(name, justify="right", no_wrap=True, min_width=cells)
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
        shown = [figures[column] for column in cells_of]
        table.add_row(name, *shown, Text(entry["verdict"], style=_STYLE.get(entry["verdict"], "bold red")))
    return table


def _share(fraction: float | None) -> str:
    return "" if fraction is None else share(fraction)
