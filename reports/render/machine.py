"""The comparison for other programs: CSV, one row per case, and JSON with the exit code."""

from __future__ import annotations

import csv as stdlib_csv
import io
import json
from dataclasses import asdict
from typing import Any

from peakgate.reports.result import Comparison, Row, Shift
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


LABELS = ("family", "stage", "size", "block", "variant", "dtype")
BOTH_SIDES = (
    *("gbs", "tflops", "peak_fraction", "roof_fraction", "registers", "spill_bytes", "shared_bytes", "occupancy"),
    *("fingerprint", "sm_clock_mhz", "samples", "discarded"),
)


def csv(comparison: Comparison) -> str:
    """Every row, worst first; columns as ``record`` names them, numbers to 8 digits, empty where unknown."""
    rows = [record(row) for row in comparison.rows]
    text = io.StringIO(newline="")
    writer = stdlib_csv.DictWriter(text, rows[0] if rows else (), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: f"{value:.8g}" if isinstance(value, float) else value for name, value in row.items()})
    return text.getvalue()


def record(row: Row) -> dict[str, object]:
    """One case flat: verdict, reason, both sides' times and figures; None where unknown."""
    known = row.new or row.base
    flat: dict[str, object] = {
        "case": row.case,
        **{name: getattr(known, name, None) for name in LABELS},
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
    for name in BOTH_SIDES:
        flat[f"base_{name}"] = getattr(row.base, name, None)
        flat[f"new_{name}"] = getattr(row.new, name, None)
    return flat
