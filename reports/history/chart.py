"""The times of a case over its sessions as a small SVG: a page has hundreds, and a site one per case.

matplotlib would take some 20 ms for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from peakgate.core.text import counted, one_line
from peakgate.reports.history.changes import Cause, ChangePoint
from peakgate.reports.history.series import History, Mark, commit_name
from peakgate.reports.runs.sessions import shortly

WIDTH, HEIGHT = 1000, 100
LEAST_CHART_SPAN = 0.03
"""Times that moved less than this share are drawn as the nearly straight line they are."""


def mark_line(mark: Mark, history: History) -> str:
    """A change of driver or GPU: ``from session 10 of 20 on another driver, 590.44.01 instead of 580.159.04 (...)``."""
    session = history.sessions[mark.index]
    since = f"from session {mark.index + 1} of {len(history.sessions)} on another {mark.what}"
    what = f"{shortly(mark.after)} instead of {shortly(mark.before)}"
    return one_line(f"{since}, {what} ({session.taken:%Y-%m-%d %H:%M}, {commit_name(session)})")


def size(change: ChangePoint) -> str:
    """``+2.10 % (1.85 to 2.35 %)``."""
    low, high = change.interval_percent
    return f"{change.change_percent:+.2f} % ({low:.2f} to {high:.2f} %)"


def step_line(change: ChangePoint) -> str:
    """A change point in words: size, cause, place and what changed with it."""
    facts = f": {', '.join(change.place.facts)}" if change.place.facts else ""
    return f"{size(change)}, {change.cause}, {change.place.where}{facts}"


def chart(history: History, row: int, changes: Sequence[ChangePoint]) -> tuple[str, str]:
    """The times of a case by session, a line per GPU, and its change points, as SVG; and their range in words."""
    values = np.exp(history.log_time[row])
    there = np.flatnonzero(np.isfinite(values))
    low, high = float(values[there].min()), float(values[there].max())
    span = max(high - low, LEAST_CHART_SPAN * float(np.median(values[there])))
    bottom = (low + high - span) / 2
    across = WIDTH / max(1, len(history.sessions) - 1)
    lines = []
    for number, numbers in enumerate(history.by_gpu.values()):
        own = numbers[np.isfinite(values[numbers])]
        heights = 4 + (HEIGHT - 8) * (1 - (values[own] - bottom) / span)
        points = " ".join(["%d,%d"] * len(own)) % tuple(np.rint([own * across, heights]).T.ravel().tolist())
        if len(own) == 1:  # a line to itself: its round ends make it a dot
            lines.append(f'<polyline class="gpu{number % 4} dot" points="{points} {points}"/>')
        elif len(own):
            lines.append(f'<polyline class="gpu{number % 4}" points="{points}"/>')
    lines += [_upright("environment", (mark.index - 0.5) * across, mark_line(mark, history)) for mark in history.marks]
    for change in changes:
        tone = "bad" if change.log_ratio > 0 else "good"
        border = " environment" if change.cause is Cause.ENVIRONMENT else ""
        lines.append(_upright(f"{tone}{border}", (change.number - 0.5) * across, step_line(change)))
    words = f"{low:.4g} to {high:.4g} µs in {counted(len(there), 'session')}"
    label = escape(f"{history.cases[row]}: {words}, {counted(len(changes), 'change point')}")
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
    return f'<svg class="series" {size} role="img" aria-label="{label}">{"".join(lines)}</svg>', words


def _upright(kind: str, x: float, text: str) -> str:
    title = f"<title>{escape(one_line(text))}</title>"
    return f'<line class="{kind}" x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{HEIGHT}">{title}</line>'
