"""Sentences and cells that all outputs share."""

from __future__ import annotations

from typing import Any

from peakgate.common import text
from peakgate.reports.result import change_text
from peakgate.verdict import Verdict

one_line = text.one_line

UNCHANGED = frozenset({Verdict.SAME, Verdict.PASS})


def change(row: Any) -> str:
    """``1.22x slower``; empty where times were not compared."""
    return "" if row.change_percent is None else change_text(row.change_percent)
