"""Draws a case's times by session as a chart, and words its change points and changes of the environment.

A chart is an SVG with axes in HTML: a page has hundreds, and matplotlib would take about 20 ms for each. The SVG scales
with the page and has no text; dates, times and step sizes are HTML positioned in percent, legible at any width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

import numpy as np

from peakgate.base.formatting import counted, figure, one_line, time_text
from peakgate.compare.history.causes import Cause, ChangePoint
from peakgate.compare.history.series import History, Mark, commit_name
from peakgate.compare.noise import Floats
from peakgate.compare.result import shift_percent
from peakgate.runfile.frame import GPU_NAMES, shortly

WIDTH, HEIGHT = 1000, 100
MARGIN = 8  # around the points, so that none is clipped
LEAST_CHART_SPAN = 0.03  # the axis spans at least this share of the time, so that noise stays a flat line
FEWEST_DRAWN = 3
DATES = 9  # date labels of a large chart; one in four is shown until the reader zooms in
MOST_DOTS = 500  # the newest sessions of a large chart are dots that link to their runs

# Step sizes are shown above a large chart in so many rows; the width of a label allows for narrow screens.
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
    """A change point in one line: size, cause, location and what else changed there."""
    facts = f": {', '.join(change.place.facts)}" if change.place.facts else ""
    return f"{size(change)}, {change.cause}, {change.place.where}{facts}"


def sum_lines(changes: Sequence[ChangePoint]) -> list[str]:
    """The sum of a case's steps, if there are several."""
    if len(changes) < 2:
        return []
    together = sum(each.log_ratio for each in changes)
    return [f"{shift_percent(together):+.2f} % together: {counted(len(changes), 'step')}"]


def chart(
    history: History, row: int, changes: Sequence[ChangePoint], runs: Sequence[str | None] | None = None
) -> tuple[str, str]:
    """The chart of a case, with a line, levels per GPU and change points, and the range of its times as text.

    ``runs``, the addresses of the sessions' pages, makes the chart large: each session is a dot that links to its run.
    The chart is empty with fewer than ``FEWEST_DRAWN`` sessions.
    """
    values = np.exp(history.log_time[row])
    there = np.flatnonzero(np.isfinite(values))
    low, high = float(values[there].min()), float(values[there].max())
    words = f"{time_text(low)} to {time_text(high)} in {counted(len(there), 'session')}"
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
    if runs:  # the newest sessions as links to their runs, titled with date, commit and time
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
    """A line per GPU through its sessions, and its levels, the medians between change points."""
    borders = sorted(each.number for each in changes)
    for number, numbers in enumerate(history.by_gpu.values()):
        own = numbers[np.isfinite(y[numbers])]
        if not len(own):
            continue
        points = " ".join(["%d,%d"] * len(own)) % tuple(np.rint([own * across, y[own]]).T.ravel().tolist())
        if len(own) == 1:  # a line of length 0: its round ends make it a dot
            yield f'<polyline class="gpu{number % 4} dot" points="{points} {points}"/>'
            continue
        yield f'<polyline class="gpu{number % 4}" points="{points}"/>'
        levels = [each for each in np.split(own, np.searchsorted(own, borders)) if len(each)]
        path = "".join(f"M{each[0] * across:.0f},{np.median(y[each]):.1f}H{each[-1] * across:.0f}" for each in levels)
        yield f'<path class="gpu{number % 4} level" d="{path}"/>'


def _sizes(changes: Sequence[ChangePoint], across: float) -> str:
    """The step sizes above the plot, each in the first free row."""
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
    """Dates and commits of sessions below the plot; the class of a label decides at which width it is shown."""
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
