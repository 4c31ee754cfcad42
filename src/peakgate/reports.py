"""Reports of saved runs as pandas frames, on any machine.

>>> runs = peakgate.reports.load("baselines/nvidia-h200/runs/20261120T173100-gate.json.gz")
>>> rows = peakgate.reports.compare(runs, peakgate.reports.load("latest"))

>>> rates = peakgate.reports.by_block(runs, "transpose", "gbs")

These are the functions that the commands call: ``runfile.find.load``, ``by_block`` and ``by_size`` of
``runfile.pivots``, ``compare.judge.compare``, ``trend`` and ``change_points`` of ``compare.history.judged``. They are
imported on first use, since pandas takes half a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peakgate.compare.history.judged import change_points, trend
    from peakgate.compare.judge import compare
    from peakgate.runfile.find import load
    from peakgate.runfile.pivots import by_block, by_size

__all__ = ["by_block", "by_size", "change_points", "compare", "load", "trend"]

_PLACES = {
    "load": "runfile.find",
    "by_block": "runfile.pivots",
    "by_size": "runfile.pivots",
    "compare": "compare.judge",
    "trend": "compare.history.judged",
    "change_points": "compare.history.judged",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"peakgate.{_PLACES[name]}"), name)
