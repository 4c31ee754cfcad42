"""Reports of saved runs, on any machine: pandas frames in two lines.

>>> runs = peakgate.reports.load("baselines/nvidia-h200/runs/20261120T173100-gate.json.gz")
>>> rows = peakgate.reports.compare(runs, peakgate.reports.load("latest"))

``load`` is ``runs.find.load``, ``compare`` is ``comparison.judge.compare``, which the command calls too, and ``trend``
and ``change_points`` are of ``history.command``. They are imported on first use, since pandas takes half a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peakgate.reports.comparison.judge import compare as compare
    from peakgate.reports.history.command import change_points as change_points
    from peakgate.reports.history.command import trend as trend
    from peakgate.reports.runs.find import load as load

_PLACES = {
    "load": "runs.find",
    "compare": "comparison.judge",
    "trend": "history.command",
    "change_points": "history.command",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
