"""Reports of saved runs, on any machine: pandas frames in two lines.

>>> runs = peakgate.reports.load("baselines/nvidia-h200/runs/20261120T173100-gate.json.gz")
>>> rows = peakgate.reports.compare(runs, peakgate.reports.load("latest"))

``load`` is ``runs.find.load`` and ``compare`` is ``comparison.judge.compare``, which the command calls too. They
are imported on first use, since pandas takes half a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from peakgate.reports.comparison.judge import compare as compare
    from peakgate.reports.history.trend import Trend
    from peakgate.reports.runs.find import load as load

_PLACES = {"load": "runs.find", "compare": "comparison.judge"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def trend(runs: pd.DataFrame, gpu: str | None = None, *, baselines: str | Path | None = None) -> pd.DataFrame:
    """Regressions over the runs, one row per case, worst first; as ``peakgate history`` reports them.

    Columns are ``history.trend.TREND_COLUMNS``; ``attrs`` have the ``verdict``, the ``exit_code`` and the ``notes``.
    ``gpu`` chooses a GPU model; ``good`` and ``bad`` count its runs in the order taken, copies apart. ``baselines`` is
    the folder of accepted regressions; without it none is.
    """
    from peakgate.reports.history.report import attributes  # noqa: PLC0415  # as in load

    found = _find_trend(runs, gpu, baselines)
    found.frame.attrs = attributes(found)
    return found.frame


def change_points(runs: pd.DataFrame, gpu: str | None = None, *, baselines: str | Path | None = None) -> pd.DataFrame:
    """Every change point of every case and GPU over the runs, newest first; arguments and ``attrs`` as of ``trend``.

    Columns are ``history.report.CHANGE_COLUMNS``. An open regression is a row with ``open_percent``, what is left of
    it, and without ``accepted``.
    """
    from peakgate.reports.history.report import change_frame  # noqa: PLC0415  # as in load

    return change_frame(_find_trend(runs, gpu, baselines))


def _find_trend(runs: pd.DataFrame, gpu: str | None, baselines: str | Path | None) -> Trend:
    from datetime import UTC, datetime  # noqa: PLC0415  # as in load
    from pathlib import Path  # noqa: PLC0415

    from peakgate.core import config  # noqa: PLC0415
    from peakgate.reports.gate.acknowledged import ACKNOWLEDGED_FILE, load_regressions  # noqa: PLC0415
    from peakgate.reports.history import order, series, trend  # noqa: PLC0415

    found = series.history(runs, gpu, places=order.first_parents(config.current().root))
    accepted = []
    if baselines is not None:
        accepted = list(load_regressions(Path(baselines) / found.slug / ACKNOWLEDGED_FILE, datetime.now(UTC).date()))
    return trend.find_trend(found, accepted=accepted)
