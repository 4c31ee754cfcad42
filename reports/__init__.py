"""Reports of saved runs, on any machine: two pandas frames in two lines.

>>> runs = peakgate.reports.load("baselines/nvidia-h200/runs/20261120T173100-gate.json.gz")
>>> rows = peakgate.reports.compare(runs, peakgate.reports.load("latest"))

``load`` is ``runs.find.load``, ``compare`` is ``comparison.judge.compare`` and ``trend`` is
``history.trend.trend_of_frame``: what the commands call. They are imported on first use, since pandas takes half a
second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peakgate.reports.comparison.judge import compare as compare
    from peakgate.reports.history.trend import trend_of_frame as trend  # noqa: F401
    from peakgate.reports.runs.find import load as load

_PLACES = {"load": ("runs.find", "load"), "compare": ("comparison.judge", "compare")}
_PLACES |= {"trend": ("history.trend", "trend_of_frame")}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, function = _PLACES[name]
    return getattr(import_module(f"{__name__}.{module}"), function)
