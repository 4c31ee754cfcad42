"""The small pictures inside table cells, as inline SVG made of numbers alone: changes and histories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup
from peakgate.reports.render.page import Point
from peakgate.reports.result import Shift

FOREST_WIDTH, FOREST_HEIGHT = 120, 16
NARROWEST_SCALE, WIDEST_SCALE = math.log(1.05), math.log(1.12)

SPARK_WIDTH, SPARK_HEIGHT = 84, 20
LEAST_SPAN = 0.02
"""A history that moved less than this share of its median is drawn as the nearly straight line it is."""


def forest_scale(shifts: Iterable[Shift]) -> float:
    """Half the width of the axis that all rows share, as a log ratio: wide enough for all, 12 % at most."""
    widest = max((max(abs(shift.log_ratio), shift.resolvable) for shift in shifts), default=0.0)
    return min(max(widest, NARROWEST_SCALE), WIDEST_SCALE)


def forest(shift: Shift, scale: float, tone: str) -> Markup:
    """A row of the forest plot: what cannot be text from no change as a band, the change as a dot.

    A change off the axis is an arrow at its end.
    """
    middle, centre = FOREST_WIDTH / 2, FOREST_HEIGHT / 2

    def x(log_ratio: float) -> float:
        return middle + (middle - 6) * max(-1.0, min(1.0, log_ratio / scale))

    left, right = x(-shift.resolvable), x(shift.resolvable)
    at = x(shift.log_ratio)
    if abs(shift.log_ratio) > scale:
        tip, back = at + math.copysign(5, shift.log_ratio), at - math.copysign(4, shift.log_ratio)
        mark = f'<path d="M{tip:.1f} {centre}L{back:.1f} {centre - 5}V{centre + 5}Z"/>'
    else:
        mark = f'<circle cx="{at:.1f}" cy="{centre}" r="3.5"/>'
    return Markup(  # noqa: S704  # numbers and one of our own class names
        f'<svg class="forest {tone}" width="{FOREST_WIDTH}" height="{FOREST_HEIGHT}" aria-hidden="true">'
        f'<rect x="{left:.1f}" y="{centre - 3}" width="{right - left:.1f}" height="6"/>'
        f'<line x1="{middle}" x2="{middle}" y2="{FOREST_HEIGHT}"/>{mark}</svg>'
    )


def sparkline(history: Sequence[Point]) -> Markup:
    """The medians of a case, one step per run, the latest as a dot; in words for screen readers."""
    times = [time for _, time in history]
    low, high = min(times), max(times)
    span = max(high - low, LEAST_SPAN * sorted(times)[len(times) // 2])
    bottom = (low + high - span) / 2
    step = (SPARK_WIDTH - 6) / (len(times) - 1)
    points = [
        (3 + step * index, SPARK_HEIGHT - 3 - (SPARK_HEIGHT - 6) * (time - bottom) / span)
        for index, time in enumerate(times)
    ]
    path = " ".join(f"{x:.0f},{y:.1f}" for x, y in points)
    since = min(taken for taken, _ in history)
    text = f"{len(times)} runs since {since:%Y-%m-%d}, {low:.4g} to {high:.4g} µs, latest {times[-1]:.4g} µs"
    return Markup(  # noqa: S704  # numbers and dates
        f'<svg class="spark" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}" role="img" aria-label="{text}">'
        f'<title>{text}</title><polyline points="{path}"/>'
        f'<circle cx="{points[-1][0]:.0f}" cy="{points[-1][1]:.1f}" r="2.5"/></svg>'
    )
