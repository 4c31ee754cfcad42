"""The cells, columns and tables that reports of measured cases share: ``compare``, ``ab``, ``show``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from peakgate.base.formatting import counted, encodable, figure, one_line, percent, share, sparkline, time_text
from peakgate.base.report import CellValue, Column, Row, Table
from peakgate.runfile.find import RunSide
from peakgate.runfile.frame import PREDICTED, run_facts, run_rows
from peakgate.runfile.saved import CaseResult, Run, commit_label
from peakgate.spec.recorded import TENSOR_MATH, TIME_OF

FEWEST_RUNS_FOR_HISTORY, MOST_BARS = 3, 20


def _rate(tflops: float) -> str:
    return figure(tflops, 3) if tflops else ""


_whole = "{:.0f}".format


@dataclass(frozen=True, slots=True)
class IntervalColumn(Column):
    """``+1.02 to +1.25 %``: the cells ``low_percent``, by which it is sorted, and ``high_percent`` of a row."""

    name: str = "low_percent"
    heading: str = "interval"

    def text(self, row: Row) -> str:
        low, high = (row.cells.get(name) for name in ("low_percent", "high_percent"))
        known = isinstance(low, float) and isinstance(high, float) and not math.isnan(low)
        return f"{low:+.2f} to {high:+.2f} %" if known else ""


COMPARED_COLUMNS = (
    IntervalColumn(brief=True),
    Column("base_time_us", "before (µs)", figure, brief=True),
    Column("new_time_us", "time (µs)", figure, brief=True),
    Column("smallest_detectable_change_percent", "detectable", percent, brief=True),
    Column("new_peak_fraction", "of peak", share, brief=True),
    Column("base_peak_fraction", "before, of peak", share),
    Column("new_roof_fraction", "of roof", share),
    Column("floor", "floor", share),
    Column("new_gbs", "GB/s", figure),
    Column("new_tflops", "TFLOP/s", _rate),
)
"""Of the cells of a comparison's rows."""

OF_METRIC = Column("metric", "time of the", TIME_OF.__getitem__, brief=True)


def of_metric(rows: Sequence[Row]) -> list[Column]:
    """The column that says whose time each is, if the time of some row is the host's."""
    return [OF_METRIC] if any(row.cells.get("metric") == "launch" for row in rows) else []


MEASURED_COLUMNS = (
    Column("min_us", "min (µs)", figure),
    Column("time_us", "median (µs)", figure, brief=True),
    Column("mean_us", "mean (µs)", figure),
    Column("max_us", "max (µs)", figure),
    Column("gbs", "GB/s", figure),
    Column("tflops", "TFLOP/s", _rate),
    Column("peak_fraction", "of peak", share, brief=True),
    Column("bound", "peak"),
    Column("roof_fraction", "of roof", share),
    Column("floor", "floor", share, brief=True),
    Column("occupancy", "occupancy", share),
    Column("achieved_occupancy", "achieved occupancy", share),
    Column("registers", "registers", _whole),
    Column("spill_bytes", "spilled (bytes)", _whole),
    Column("shared_bytes", "shared (bytes)", _whole),
    Column("load_sectors_per_request", "sectors per load", figure),
    Column("store_sectors_per_request", "sectors per store", figure),
    Column("shared_load_conflicts", "bank conflicts of loads", _whole),
    Column("shared_store_conflicts", "bank conflicts of stores", _whole),
)
"""Of a single run's: the fields of a ``CaseResult`` and of its hardware counters, where the run read them.

What a family predicts of its cases follows them.
"""


def measured_cells(result: CaseResult) -> dict[str, CellValue]:
    """The cells of a measured case: those of the columns, and what its family predicts of it."""
    counters = getattr(result, "counters", None)
    cells: dict[str, CellValue] = {
        column.name: getattr(result, column.name, getattr(counters, column.name, None)) for column in MEASURED_COLUMNS
    }
    predicted = {encodable(PREDICTED + name): value for name, value in (result.predicted or {}).items()}
    return cells | {"bound": bound(result), "metric": result.metric} | predicted


def measured_columns(rows: Sequence[Row]) -> list[Column]:
    """The columns of which some row has a value, and one for each prediction."""
    filled = dict.fromkeys(name for row in rows for name, value in row.cells.items() if value is not None)
    predicted = [
        Column(name, f"{name.removeprefix(PREDICTED).replace('_', ' ')} (predicted)", figure)
        for name in filled
        if name.startswith(PREDICTED)
    ]
    return [*of_metric(rows), *(each for each in MEASURED_COLUMNS if each.name in filled), *predicted]


def bound(result: CaseResult) -> str | None:
    """The peak that binds a case; on tensor cores with the type."""
    return f"compute, {result.math}" if result.bound == "compute" and result.math in TENSOR_MATH else result.bound


def family(result: CaseResult) -> str:
    """The family of a case, by its id where the run does not say."""
    return result.family or result.case.partition(".")[0]


def side(side: RunSide) -> str:
    """A side in one line: how it was asked for, sessions, commit, driver, when."""
    last = side.runs[-1]
    commits = {commit_label(run.commit, run.dirty) for run in side.runs}
    commit = f"commit {commits.pop()}" if len(commits) == 1 else counted(len(commits), "commit")
    name = str(last.gpu.get("name") or last.slug)
    driver = f"driver {last.driver or 'unknown'}"
    sessions = counted(len(side.runs), "session")
    return ", ".join((one_line(side.label), sessions, name, driver, commit, f"{last.taken:%Y-%m-%d %H:%M}"))


def machine(run: Run) -> Table:
    """Known facts of a run's machine."""
    named = [("GPU name", run.gpu.get("name")), *run_facts(run_rows([run]))[0].items()]
    named += [("peaks", run.gpu.get("peak_derivation")), ("taken", f"{run.taken:%Y-%m-%d %H:%M %Z}")]
    named.append(("run file", run.path.name))
    rows = [(name, str(value)) for name, value in named if value not in {None, ""}]
    return Table("The run's machine", ("fact", "value"), rows, folded=True)


def past(runs: Sequence[Run], new: Sequence[Run] = ()) -> Mapping[str, str]:
    """Each case's medians as bars and in words, oldest first and those of ``new`` last.

    Of the cases that enough runs have timed. The sides of an A/B were measured in turns: in the order taken the times
    would go up and down between them.
    """
    last = {run.taken for run in new}
    times: dict[str, dict[datetime, float]] = {}
    earlier = (run for run in runs if run.taken not in last)
    for run in (each for part in (earlier, new) for each in sorted(part, key=lambda run: run.taken)):
        for case, result in run.cases.items():
            times.setdefault(case, {})[run.taken] = result.time_us
    found = {}
    for case, taken in times.items():
        values = list(taken.values())
        if len(values) >= FEWEST_RUNS_FOR_HISTORY:
            span = f"{time_text(min(values))} to {time_text(max(values))}, latest {time_text(values[-1])}"
            found[case] = f"{sparkline(values[-MOST_BARS:])} {len(values)} runs since {min(taken):%Y-%m-%d}, {span}"
    return found
