"""The cells, columns and tables that reports of measured cases share: ``compare``, ``ab``, ``show``, ``site``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from peakgate.base.formatting import counted, figure, percent, share, sparkline
from peakgate.base.report import Column, Row, Table
from peakgate.base.safe_text import one_line
from peakgate.runfile.find import RunSide
from peakgate.runfile.frame import run_facts, run_rows
from peakgate.runfile.saved import CaseResult, Run
from peakgate.spec.recorded import TENSOR_MATH

FEWEST_RUNS_FOR_HISTORY, MOST_BARS = 3, 20


def _rate(tflops: float) -> str:
    return figure(tflops, 3) if tflops else ""


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

MEASURED_COLUMNS = (
    Column("time_us", "time (µs)", figure, brief=True),
    Column("gbs", "GB/s", figure),
    Column("tflops", "TFLOP/s", _rate),
    Column("peak_fraction", "of peak", share, brief=True),
    Column("bound", "peak"),
    Column("roof_fraction", "of roof", share),
    Column("floor", "floor", share, brief=True),
)
"""Of a single run's: the fields of a ``CaseResult``."""


def bound(result: CaseResult) -> str | None:
    """The peak that binds a case; on tensor cores with the type."""
    return f"compute, {result.math}" if result.bound == "compute" and result.math in TENSOR_MATH else result.bound


def family(result: CaseResult) -> str:
    """The family of a case, by its id where the run does not say."""
    return result.family or result.case.partition(".")[0]


def side(side: RunSide) -> str:
    """A side in one line: how it was asked for, sessions, commit, driver, when."""
    last = side.runs[-1]
    commits = {run.commit_label for run in side.runs}
    commit = f"commit {last.commit_label}" if len(commits) == 1 else counted(len(commits), "commit")
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
    for run in (*_by_time(run for run in runs if run.taken not in last), *_by_time(new)):
        for case, result in run.cases.items():
            times.setdefault(case, {})[run.taken] = result.time_us
    return {case: _past(found) for case, found in times.items() if len(found) >= FEWEST_RUNS_FOR_HISTORY}


def _past(times: Mapping[datetime, float]) -> str:
    values = list(times.values())
    span = f"{min(values):.4g} to {max(values):.4g} µs, latest {values[-1]:.4g} µs"
    return f"{sparkline(values[-MOST_BARS:])} {len(values)} runs since {min(times):%Y-%m-%d}, {span}"


def _by_time(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.taken)


def rates_by_size(run: Run) -> list[Table]:
    """TFLOP/s of the best case by stage and size, for each family with cases bound by arithmetic at several sizes."""
    families: dict[str, dict[tuple[str, str], float]] = {}
    for result in run.cases.values():
        if result.bound == "compute" and result.family and result.stage and result.tflops:
            rates = families.setdefault(result.family, {})
            key = (result.stage, result.size or "")
            rates[key] = max(rates.get(key, 0.0), result.tflops)
    found = []
    for name, rates in families.items():
        sizes = sorted({size for _, size in rates}, key=_volume)
        stages = dict.fromkeys(stage for stage, _ in rates)
        if len(sizes) > 1:
            rows = [[stage, *(_rounded(rates.get((stage, size))) for size in sizes)] for stage in stages]
            found.append(Table(f"{name}: TFLOP/s by stage and size", ("stage", *sizes), rows, folded=True))
    return found


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else float(f"{rate:.3g}")


def _volume(size: str) -> tuple[float, str]:
    """``4096`` is a cube, ``1000x200x300`` what it names; labels without figures come first."""
    sides = [int(each) for each in re.findall(r"\d{1,9}", size)]
    return (sides[0] ** 3 if len(sides) == 1 else math.prod(sides) if sides else 0), size
