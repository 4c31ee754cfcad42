"""The comparison as CSV, one row a case, for spreadsheets and notebooks."""

from __future__ import annotations

from reports.frame import verdicts
from reports.result import Comparison


def csv(comparison: Comparison) -> str:
    """Every row, worst first; columns as ``reports.frame.verdicts`` names them, empty where unknown."""
    return str(verdicts(comparison).to_csv(index=False, lineterminator="\n", float_format="%.8g"))
