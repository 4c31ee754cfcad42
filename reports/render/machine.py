"""The comparison for other programs: CSV, one row per case, and JSON with the exit code."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from peakgate.common.text import as_json, cell
from peakgate.reports.result import Comparison, Shift, change_text
from peakgate.reports.runs.find import Side

SCHEMA = 1


def verdict_json(comparison: Comparison, *, strict: bool = False) -> str:
    """Verdict, exit code, counts, sides, differences and every row, worst first."""
    suite = comparison.suite
    detectable = comparison.detectable_percent
    document = {
        "schema": SCHEMA,
        "command": "compare",
        "verdict": comparison.verdict(strict=strict),
        "exit_code": int(comparison.exit_code(strict=strict)),
        "strict": strict,
        "counts": dict(comparison.counts),
        "without_floor": comparison.without_floor,
        "smallest_detectable_change_percent": {"median": detectable[0], "worst": detectable[1]} if detectable else None,
        "suite_wide": None
        if suite is None
        else {"verdict": suite.judgement.verdict, "reason": suite.judgement.reason, "cases": suite.cases}
        | _shift(suite.shift),
        "base": _side(comparison.base),
        "new": _side(comparison.new),
        "differences": [asdict(difference) for difference in comparison.differences],
        "notes": list(comparison.notes),
        "rows": [_row(row) for row in comparison.records],
    }
    return as_json(document)


def _side(side: Side) -> dict[str, Any]:
    runs = [
        {
            "path": str(run.path),
            "datetime": run.taken.isoformat(),
            "commit": run.commit,
            "dirty": run.dirty,
            "slug": run.slug,
            "uuid": run.uuid,
            "driver": run.driver,
            "tier": run.tier,
        }
        for run in side.runs
    ]
    return {"label": side.label, "runs": runs}


def _row(row: Any) -> dict[str, Any]:
    names = ("case", "verdict", "reason", "base_time_us", "new_time_us", "base_sessions", "new_sessions")
    found = {name: getattr(row, name) for name in names}
    if row.change_percent is None:
        return found
    return found | {
        "change": change_text(row.change_percent),
        "change_percent": row.change_percent,
        "smallest_detectable_change_percent": row.smallest_detectable_change_percent,
        "p_value": row.p_value,
    }


def _shift(shift: Shift) -> dict[str, Any]:
    return {
        "change": str(shift),
        "change_percent": shift.percent,
        "smallest_detectable_change_percent": shift.resolvable_percent,
        "p_value": shift.p_value,
    }


def csv(comparison: Comparison) -> str:
    """``Comparison.frame``, numbers to 8 digits, empty where unknown."""
    text: str = comparison.frame.map(cell).to_csv(index=False, float_format="%.8g", lineterminator="\n")
    return text
