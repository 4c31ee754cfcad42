"""The comparison as CSV, one row a case, for spreadsheets and notebooks."""

from __future__ import annotations

import csv as stdlib_csv
import io

from peakgate.common.text import cell
from peakgate.reports.result import Comparison, Row

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
        writer.writerow(
            {name: f"{value:.8g}" if isinstance(value, float) else cell(value) for name, value in row.items()}
        )
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
