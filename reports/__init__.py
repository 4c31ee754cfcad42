"""Reports of saved runs, on any machine: two pandas frames in two lines.

>>> runs = peakgate.reports.load("baselines/nvidia-h200/runs/20261120T173100-gate.json.gz")
>>> rows = peakgate.reports.compare(runs, peakgate.reports.load("latest"))

``load`` is ``runs.find.load`` and ``compare`` is ``comparison.judge.compare``, which the command calls too. They
are imported on first use, since pandas takes half a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from peakgate.reports.comparison.judge import compare as compare
    from peakgate.reports.runs.find import load as load

_PLACES = {"load": "runs.find", "compare": "comparison.judge"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def trend(runs: pd.DataFrame, gpu: str | None = None) -> pd.DataFrame:
    """Regressions over the runs, one row per case, worst first; as ``peakgate history`` reports them.

    Columns are ``history.trend.TREND_COLUMNS``; ``attrs`` have the ``verdict`` and the ``exit_code``. ``gpu`` chooses a
    GPU model; ``good`` and ``bad`` count its runs in the order taken, copies apart.
    """
    from peakgate.reports.history import series, trend  # noqa: PLC0415  # as in load

    return trend.find_trend(series.history(runs, gpu)).frame
