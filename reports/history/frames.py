"""A history as the pandas frames that ``peakgate.reports`` offers: its cases, and its change points."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
from peakgate.core import config
from peakgate.reports.gate.acknowledged import ACKNOWLEDGED_FILE, load_regressions
from peakgate.reports.history.order import first_parents
from peakgate.reports.history.report import remarks
from peakgate.reports.history.series import history
from peakgate.reports.history.trend import Trend, find_trend
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


def trend(runs: pd.DataFrame, gpu: str | None = None, *, baselines: str | Path | None = None) -> pd.DataFrame:
    """Regressions over the runs, one row per case, worst first; as ``peakgate history`` reports them.

    Columns are ``history.trend.TREND_COLUMNS``; ``attrs`` have the ``verdict``, the ``exit_code`` and the ``notes``.
    ``gpu`` chooses a GPU model; ``good`` and ``bad`` count its runs in their order, copies apart. ``baselines`` is the
    folder of accepted regressions; without it none is.
    """
    found = _judged(runs, gpu, baselines)
    found.frame.attrs |= {"notes": remarks(found)}
    return found.frame


def change_points(runs: pd.DataFrame, gpu: str | None = None, *, baselines: str | Path | None = None) -> pd.DataFrame:
    """Every change point of every case and GPU over the runs, newest first; arguments and ``attrs`` as of ``trend``.

    Columns are ``CHANGE_COLUMNS``. An open regression is a row with ``open_percent``, what is left of it, and without
    ``accepted``.
    """
    judged = _judged(runs, gpu, baselines)
    regressions = {id(each.change): each for each in judged.regressions}
    sessions = judged.history.sessions
    rows = []
    for change in judged.changes:
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
    found.attrs = {**judged.frame.attrs, "notes": remarks(judged)}
    return found


def _judged(runs: pd.DataFrame, gpu: str | None, baselines: str | Path | None) -> Trend:
    found = history(runs, gpu, places=first_parents(config.current().root))
    if baselines is None:
        return find_trend(found)
    file = Path(baselines) / found.slug / ACKNOWLEDGED_FILE
    return find_trend(found, accepted=load_regressions(file, datetime.now(UTC).date()))
