"""A case's times by session as a chart, and what stands on it in words: change points, changes of the environment.

A chart is a small SVG with axes in HTML: a page has hundreds, and matplotlib would take some 20 ms for each. The SVG is
stretched to its place and has no text; dates, times and the sizes of steps stand around it at their place in percent,
so that they stay legible at any width and zoom.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

import numpy as np

from peakgate.base.formatting import counted, figure
from peakgate.base.safe_text import one_line
from peakgate.compare.history.series import History, Mark, commit_name
from peakgate.compare.history.suite import Cause, ChangePoint
from peakgate.compare.noise import Floats
from peakgate.runfile.frame import GPU_NAMES, shortly

WIDTH, HEIGHT = 1000, 100
MARGIN = 8  # around the points, so that none is cut
LEAST_CHART_SPAN = 0.03  # times that moved less than this share are drawn as the nearly straight line they are
FEWEST_DRAWN = 3
DATES = 9  # dates of a large chart; one in four of them is shown until the reader zooms in
MOST_DOTS = 500  # sessions of a large chart, the newest, that are dots leading to their runs

# Sizes of steps stand above a large chart in so many lines, each so wide that a narrow screen has room for it.
LANES, LABEL_WIDTH = 4, 170


def mark_line(mark: Mark, history: History) -> str:
    """A change of environment or GPU: ``from session 10 of 20 on another driver, 590.44.01 instead of 580.159.04``."""
    session = history.sessions[mark.index]
    since = f"from session {mark.index + 1} of {len(history.sessions)} on another {GPU_NAMES.get(mark.what, mark.what)}"
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


def sum_lines(changes: Sequence[ChangePoint]) -> list[str]:
    """What the steps of a case add up to where there are several."""
    if len(changes) < 2:
        return []
    together = sum(each.log_ratio for each in changes)
    return [f"{100 * math.expm1(together):+.2f} % together: {counted(len(changes), 'step')}"]


def chart(
    history: History, row: int, changes: Sequence[ChangePoint], runs: Sequence[str | None] | None = None
) -> tuple[str, str]:
    """The times of a case by session, a line and its levels per GPU, and its change points; and their range in words.

    Large where ``runs`` has the addresses of the sessions' pages: each session is a dot that leads to its run. No chart
    of fewer than ``FEWEST_DRAWN`` sessions.
    """
    values = np.exp(history.log_time[row])
    there = np.flatnonzero(np.isfinite(values))
    low, high = float(values[there].min()), float(values[there].max())
    words = f"{low:.4g} to {high:.4g} µs in {counted(len(there), 'session')}"
    if len(there) < FEWEST_DRAWN:
        return "", words
    span = max(high - low, LEAST_CHART_SPAN * float(np.median(values[there])))
    bottom = (low + high - span) / 2

    def height(time_us: Floats) -> Floats:
        return MARGIN + (HEIGHT - 2 * MARGIN) * (1 - (time_us - bottom) / span)

    y, across = height(values), WIDTH / max(1, len(values) - 1)
    ticks = _round(bottom, bottom + span)
    levels = height(np.array(ticks)).tolist()
    grid = "".join(f"M{-MARGIN},{each:.1f}H{WIDTH + MARGIN}" for each in levels)
    lines = [f'<path class="grid" d="{grid}"/>'] if runs else []
    lines += _lines(history, y, changes, across)
    borders = groupby((mark for mark in history.marks if mark.what != "GPU"), key=lambda mark: mark.index)
    lines += [
        _upright("environment", index * across - across / 2, "; ".join(mark_line(mark, history) for mark in marks))
        for index, marks in borders
    ]
    for change in changes:
        border = " environment" if change.cause is not Cause.COMMITS else ""
        lines.append(_upright(_tone(change) + border, (change.number - 0.5) * across, step_line(change)))
    if runs:  # the newest sessions as links to their runs, named by day, commit and time
        places = {int(each): place for place, numbers in enumerate(history.by_gpu.values()) for each in numbers}
        for number in there[-MOST_DOTS:].tolist():
            session = history.sessions[number]
            name = f"{session.taken:%Y-%m-%d %H:%M}, {commit_name(session)}, {figure(float(values[number]), 5)} µs"
            dot = f'<path class="gpu{places[number] % 4} dot" d="M{number * across:.1f},{y[number]:.1f}h0">'
            dot += f"<title>{escape(name)}</title></path>"
            lines.append(f'<a href="{escape(address)}" tabindex="-1">{dot}</a>' if (address := runs[number]) else dot)
    label = escape(f"{history.cases[row]}: {words}, {counted(len(changes), 'change point')}")
    drawn = f'<svg class="series" viewBox="{-MARGIN} 0 {WIDTH + 2 * MARGIN} {HEIGHT}" preserveAspectRatio="none" '
    drawn += f'role="img" aria-label="{label}">{"".join(lines)}</svg>'
    sizes = _sizes(changes, across) if runs else ""
    scale = "".join(f'<b style="top:{at:.1f}%">{time_us:.8g}</b>' for time_us, at in zip(ticks, levels, strict=True))
    large = " large" if runs else ""
    axis = _dates(history, across, DATES if runs else 2, commits=bool(runs))
    return (
        f'<div class="chart{large}"><p>{scale}</p><div><div class="plot">{sizes}{drawn}{axis}</div></div></div>',
        words,
    )


def _round(low: float, high: float) -> list[float]:
    """Two to six round numbers between ``low`` and ``high``."""
    rough = (high - low) / 2
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * max(each for each in (1, 2, 5) if each * unit <= rough)
    return [each * step for each in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _lines(history: History, y: Floats, changes: Sequence[ChangePoint], across: float) -> Iterator[str]:
    """Of each GPU its sessions, and its levels: the median between two change points."""
    borders = sorted(each.number for each in changes)
    for number, numbers in enumerate(history.by_gpu.values()):
        own = numbers[np.isfinite(y[numbers])]
        if not len(own):
            continue
        points = " ".join(["%d,%d"] * len(own)) % tuple(np.rint([own * across, y[own]]).T.ravel().tolist())
        if len(own) == 1:  # a line to itself: its round ends make it a dot
            yield f'<polyline class="gpu{number % 4} dot" points="{points} {points}"/>'
            continue
        yield f'<polyline class="gpu{number % 4}" points="{points}"/>'
        levels = [each for each in np.split(own, np.searchsorted(own, borders)) if len(each)]
        path = "".join(f"M{each[0] * across:.0f},{np.median(y[each]):.1f}H{each[-1] * across:.0f}" for each in levels)
        yield f'<path class="gpu{number % 4} level" d="{path}"/>'


def _sizes(changes: Sequence[ChangePoint], across: float) -> str:
    """The sizes of the steps above the plot, each in the first lane that has room."""
    free = [0.0] * LANES
    shown = []
    for change in sorted(changes, key=lambda each: each.number):
        x = min(max((change.number - 0.5) * across, LABEL_WIDTH / 2), WIDTH - LABEL_WIDTH / 2)
        lane = next((lane for lane, until in enumerate(free) if until <= x), None)
        if lane is not None:
            free[lane] = x + LABEL_WIDTH
            place = f"left:{_across(x)};bottom:{lane * 1.2:.1f}em"
            shown.append(f'<em class="{_tone(change)}" style="{place}">{change.change_percent:+.2f} %</em>')
    lanes = sum(until > 0 for until in free)
    return f'<div class="sizes" style="height:{1.2 * lanes:.1f}em">{"".join(shown)}</div>' if shown else ""


def _dates(history: History, across: float, most: int, *, commits: bool) -> str:
    """Days of sessions under the plot, and their commits; what a narrow plot leaves out has a class."""
    last = len(history.sessions) - 1
    shown = []
    for place, number in enumerate(sorted({round(each) for each in np.linspace(0, last, most)})):
        session = history.sessions[number]
        text = f"{session.taken:%Y-%m-%d}" + (f"<br/>{escape(one_line(session.commit[:7]))}" if commits else "")
        kind = "first" if number == 0 else "last" if number == last else ("z1", "z4", "z2", "z4")[place % 4]
        shown.append(f'<i class="{kind}" style="left:{_across(number * across)}">{text}</i>')
    return "".join(shown)


def _across(x: float) -> str:
    return f"{(x + MARGIN) / (WIDTH + 2 * MARGIN):.1%}"


def _tone(change: ChangePoint) -> str:
    return "bad" if change.log_ratio > 0 else "good"


def _upright(kind: str, x: float, text: str) -> str:
    title = f"<title>{escape(one_line(text))}</title>"
    return f'<line class="{kind}" x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{HEIGHT}">{title}</line>'
