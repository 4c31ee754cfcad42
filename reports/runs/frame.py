"""Runs and verdicts as tidy pandas frames: one row a case a run, one row a case a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields

import pandas as pd
from peakgate.reports.render.machine import record
from peakgate.reports.result import Comparison
from peakgate.reports.runs.runfile import CaseResult, Run

RESULT_COLUMNS = tuple(field.name for field in fields(CaseResult))
RUN_COLUMNS = ("run", "side", "taken", "commit", "dirty", "slug", "uuid", "driver", "tier")


def tidy(runs: Sequence[Run], side: str = "") -> pd.DataFrame:
    """One row a case a run: the run's own columns, then every field of ``CaseResult``."""
    rows = [{**_about(run, side), **asdict(result)} for run in runs for result in run.cases.values()]
    return pd.DataFrame(rows, columns=[*RUN_COLUMNS, *RESULT_COLUMNS])


def verdicts(comparison: Comparison) -> pd.DataFrame:
    """One row a case, worst first: verdict, reason, both sides' times and figures."""
    return pd.DataFrame([record(row) for row in comparison.rows])


def _about(run: Run, side: str) -> dict[str, object]:
    values = (run.path.name, side, run.taken, run.commit, run.dirty, run.slug, run.uuid, run.driver, run.tier)
    return dict(zip(RUN_COLUMNS, values, strict=True))
