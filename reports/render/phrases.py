"""Sentences and cells that all outputs share."""

from __future__ import annotations

from typing import Any

from peakgate.case import ID_PATTERN
from peakgate.common import text
from peakgate.reports.result import Comparison, change_text, percent
from peakgate.reports.runs.find import RunSide
from peakgate.verdict import REGRESSIONS, Verdict

one_line = text.one_line

UNCHANGED = frozenset({Verdict.SAME, Verdict.PASS})


def counts(comparison: Comparison) -> str:
    """``1 SLOWER, 76 SAME``."""
    return ", ".join(f"{count} {verdict}" for verdict, count in comparison.counts.items())


def side(side: RunSide) -> str:
    """A side in one line: how it was asked for, sessions, commit, driver, when."""
    last = side.runs[-1]
    commits = {run.commit_label for run in side.runs}
    commit = f"commit {last.commit_label}" if len(commits) == 1 else text.counted(len(commits), "commit")
    sessions = text.counted(len(side.runs), "session")
    name = str(last.gpu.get("name") or last.slug)
    driver = f"driver {last.driver or 'unknown'}"
    return ", ".join((one_line(side.label), sessions, name, driver, commit, f"{last.taken:%Y-%m-%d %H:%M}"))


def detectable(comparison: Comparison) -> str:
    """The smallest detectable change, typical and worst; empty when no case was timed on both sides."""
    if comparison.detectable_percent is None:
        return ""
    typical, worst = comparison.detectable_percent
    return f"smallest detectable change {percent(typical)} in the median case, {percent(worst)} in the worst"


def rerun(comparison: Comparison) -> str:
    """The command that measures the regressions again, at most five of them; empty when there is none."""
    regressed = [row.case for row in comparison.records if row.verdict in REGRESSIONS - {Verdict.MISSING}]
    named = [case for case in regressed if ID_PATTERN.fullmatch(case)][:5]
    return f'measure again: peakgate bench --tier full -k "{" or ".join(named)}"' if named else ""


def floors(comparison: Comparison) -> str:
    """How many cases have no floor; empty when all have one."""
    count = comparison.without_floor
    return (
        f"{text.counted(count, 'case')} had no floor when they were measured; undecided under --strict-gate"
        if count
        else ""
    )


def times(row: Any) -> str:
    """``153 to 161``, in microseconds, of one of ``Comparison.records``."""
    if row.base_time_us is None or row.new_time_us is None:
        return ""
    return f"{row.base_time_us:.4g} to {row.new_time_us:.4g}"


def change(row: Any) -> str:
    """``1.22x slower``; empty where times were not compared."""
    return "" if row.change_percent is None else change_text(row.change_percent)
