"""Reports of saved runs, on any machine: pandas frames in two lines.

>>> runs = peakgate.reports.load("baselines/nvidia-h200/runs/20261120T173100-gate.json.gz")
>>> rows = peakgate.reports.compare(runs, peakgate.reports.load("latest"))

``load`` is ``runfile.find.load``, ``compare`` is ``compare.judge.compare``, which the command calls too, and ``trend``
and ``change_points`` are of ``compare.history.command``. They are imported on first use: pandas takes half a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peakgate.compare.history.command import change_points, trend
    from peakgate.compare.judge import compare
    from peakgate.runfile.find import load

__all__ = ["change_points", "compare", "load", "trend"]

_PLACES = {
    "load": "runfile.find",
    "compare": "compare.judge",
    "trend": "compare.history.command",
    "change_points": "compare.history.command",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"peakgate.{_PLACES[name]}"), name)
