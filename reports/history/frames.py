"""The change points of a history as a pandas frame, as ``peakgate.reports.change_points`` gives them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from peakgate.reports.history.report import remarks
from peakgate.reports.history.trend import Trend
from peakgate.reports.runs.frame import NUMBER, TEXT, tidy

CHANGE_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("case", "gpu_uuid", "cause"), TEXT),
    **dict.fromkeys(("change_percent", "low_percent", "high_percent", "older_time_us"), NUMBER),
    **dict.fromkeys(("good", "bad", "sessions_since"), "int64"),
    **dict.fromkeys(("good_commit", "bad_commit", "where", "facts", "command"), TEXT),
    "open_percent": NUMBER,
    "accepted": TEXT,
}
"""The columns of a frame of change points, in order, with their dtypes; docs/reference/reports.md explains them."""


def change_frame(trend: Trend) -> pd.DataFrame:
    """One row per change point, newest first; columns are ``CHANGE_COLUMNS``, ``attrs`` are ``attributes``."""
    regressions = {id(each.change): each for each in trend.regressions}
    sessions = trend.history.sessions
    rows = []
    for change in trend.changes:
        low, high = change.interval_percent
        left = regressions.get(id(change))
        rows.append(
            {
                "case": change.case,
                "gpu_uuid": change.uuid,
                "cause": change.cause.value,
                "change_percent": change.change_percent,
                "low_percent": low,
                "high_percent": high,
                "older_time_us": change.older_us,
                "good": change.place.good,
                "bad": change.place.bad,
                "sessions_since": change.since,
                "good_commit": sessions[change.place.good].commit,
                "bad_commit": sessions[change.place.bad].commit,
                "where": change.place.where,
                "facts": "; ".join(change.place.facts),
                "command": change.place.command,
                "open_percent": None if left is None else left.remaining_percent,
                "accepted": left.accepted.reason if left and left.accepted else None,
            }
        )
    found = tidy(rows, CHANGE_COLUMNS)
    found.attrs = attributes(trend)
    return found


def attributes(trend: Trend) -> dict[Hashable | None, Any]:
    """Of the whole history: ``verdict``, ``exit_code``, and in ``notes`` what ``peakgate history`` remarks on."""
    return {**trend.frame.attrs, "notes": remarks(trend)}
