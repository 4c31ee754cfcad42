"""The comparison as JSON, for whatever acts on it: the exit code survives where a runner flattens it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from peakgate.reports.locate import Side
from peakgate.reports.result import Comparison, Row, Shift

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
        "rows": [_row(row) for row in comparison.rows],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


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


def _row(row: Row) -> dict[str, Any]:
    return {
        "case": row.case,
        "verdict": row.verdict,
        "reason": row.reason,
        "base_time_us": row.base_time_us,
        "new_time_us": row.new_time_us,
        "base_sessions": row.base_sessions,
        "new_sessions": row.new_sessions,
    } | (_shift(row.shift) if row.shift else {})


def _shift(shift: Shift) -> dict[str, Any]:
    return {
        "change": str(shift),
        "change_percent": shift.percent,
        "smallest_detectable_change_percent": shift.resolvable_percent,
        "p_value": shift.p_value,
    }
