"""Reports of saved runs, on any machine: two pandas frames in two lines.

>>> runs = peakgate.reports.load("baselines/nvidia-h200/runs/20261120T173100-gate.json.gz")
>>> rows = peakgate.reports.compare(runs, peakgate.reports.load("latest"))
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load(*wanted: str | Path, runs: Iterable[str | Path] | None = None) -> pd.DataFrame:
    """The saved runs that ``wanted`` names, as one tidy frame, one row per case and run; see ``runs.frame.load``."""
    from peakgate.reports.runs import frame  # noqa: PLC0415  # pandas is imported by those who need it

    return frame.load(*wanted, runs=runs)


def compare(
    base: pd.DataFrame, new: pd.DataFrame, history: pd.DataFrame | None = None, *, across_gpus: bool = False
) -> pd.DataFrame:
    """NEW against BASE, one row per case, worst verdict first; see ``comparison.judge.compare_frames``."""
    from peakgate.reports.comparison import judge  # noqa: PLC0415  # as in load

    return judge.compare_frames(base, new, history, across_gpus=across_gpus)


def trend(runs: pd.DataFrame, gpu: str | None = None) -> pd.DataFrame:
    """What got slower over the runs, one row per case, worst first; as ``peakgate history`` does.

    Columns are ``history.trend.TREND_COLUMNS``; ``attrs`` have the ``verdict`` and the ``exit_code``. ``gpu`` chooses a
    GPU model; ``good`` and ``bad`` count its runs in the order taken, copies apart.
    """
    from peakgate.reports.history import series, trend  # noqa: PLC0415  # as in load

    return trend.find_trend(series.history(runs, gpu)).frame
