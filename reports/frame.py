"""Runs and verdicts as tidy pandas frames: one row a case a run, one row a case a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields

import pandas as pd

from reports.result import Comparison, Row
from reports.runfile import CaseResult, Run

RESULT_COLUMNS = tuple(field.name for field in fields(CaseResult))
RUN_COLUMNS = ("run", "side", "taken", "commit", "dirty", "slug", "uuid", "driver", "tier")
BOTH_SIDES = (
    "gbs",
    "tflops",
    "peak_fraction",
    "roof_fraction",
    "registers",
    "spill_bytes",
    "shared_bytes",
    "occupancy",
)


def tidy(runs: Sequence[Run], side: str = "") -> pd.DataFrame:
    """One row a case a run: the run's own columns, then every field of ``CaseResult``."""
    rows = [{**_about(run, side), **asdict(result)} for run in runs for result in run.cases.values()]
    return pd.DataFrame(rows, columns=[*RUN_COLUMNS, *RESULT_COLUMNS])


def verdicts(comparison: Comparison) -> pd.DataFrame:
    """One row a case, worst first: verdict, reason, both sides' times and figures."""
    return pd.DataFrame([_flat(row) for row in comparison.rows])


def _about(run: Run, side: str) -> dict[str, object]:
    values = (run.path.name, side, run.taken, run.commit, run.dirty, run.slug, run.uuid, run.driver, run.tier)
    return dict(zip(RUN_COLUMNS, values, strict=True))


def _flat(row: Row) -> dict[str, object]:
    known = row.new or row.base
    flat: dict[str, object] = {
        "case": row.case,
        **{name: getattr(known, name, None) for name in ("family", "stage", "size", "block", "variant", "dtype")},
        "verdict": row.verdict.value,
        "reason": row.reason,
        "change_percent": row.shift.percent if row.shift else None,
        "smallest_detectable_change_percent": row.shift.resolvable_percent if row.shift else None,
        "p_value": row.shift.p_value if row.shift else None,
        "base_time_us": row.base_time_us,
        "new_time_us": row.new_time_us,
        "base_sessions": row.base_sessions,
        "new_sessions": row.new_sessions,
        "floor": getattr(row.new, "floor", None),
    }
    for name in (*BOTH_SIDES, "fingerprint", "sm_clock_mhz", "samples", "discarded"):
        flat[f"base_{name}"] = getattr(row.base, name, None)
        flat[f"new_{name}"] = getattr(row.new, name, None)
    return flat
