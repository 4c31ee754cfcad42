"""A history as one HTML page that opens anywhere: every case's times with its change points, worst first.

The pictures are inline SVG, so they are there without scripts; filter, sorting and themes are those of a run's page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from peakgate.common.text import counted, one_line
from peakgate.reports.history.changes import Cause, ChangePoint
from peakgate.reports.history.report import header, mark_line, open_line, remarks, size
from peakgate.reports.history.series import History
from peakgate.reports.history.trend import Trend
from peakgate.reports.render import page, template
from peakgate.reports.runs.sessions import gpu_label
from peakgate.verdict import Verdict

Address = tuple[str, str]
"""The name of a page and its address, relative to the page that leads to it."""

WIDTH, HEIGHT = 1000, 100
LEAST_CHART_SPAN = 0.03
"""Times that moved less than this share are drawn as the nearly straight line they are."""


def html(trend: Trend, trail: Sequence[Address] = (), links: Mapping[str, str] | None = None) -> str:
    """The whole page as text; as part of a site with the ``trail`` of pages above it and a page for each of ``links``.

    ``links`` are addresses by case.
    """
    history = trend.history
    script = template.asset("page.js")
    rows = _rows(trend)
    sentences = [f"{header(history)}."]
    if trend.together:
        sentences.append(f"Suite-wide: {trend.together.verdict}, {trend.together.reason}.")
    return template.fill(
        "history.html",
        styles=("page.css", "history.css"),
        title=f"Peakgate history: {trend.verdict}, {history.slug}",
        heading="Peakgate history",
        verdict=trend.verdict,
        tone=page.tone(trend.verdict),
        counts=trend.counts,
        sentences=sentences,
        notes=remarks(trend),
        open=len(trend.open),
        regressions=[open_line(each) for each in trend.regressions],
        gpus=gpus(history),
        families=list(dict.fromkeys(row["family"] for row in rows)),
        cases=len(rows),
        rows=rows,
        links=links or {},
        trail=trail,
        script=script,
        scripts=template.policy(script),
    )


def gpus(history: History) -> list[str]:
    """The GPUs of a history in the order of their lines' colours."""
    return [gpu_label(each) for each in history.by_gpu]


def _rows(trend: Trend) -> list[dict[str, Any]]:
    """Regressions that are open first, then by verdict; a case's ``chart`` is its picture, ``range`` that in words."""
    history = trend.history
    numbers = {case: row for row, case in enumerate(history.cases)}
    steps: dict[str, list[ChangePoint]] = {}
    for change in trend.changes:
        steps.setdefault(change.case, []).append(change)
    left: dict[str, float] = {}
    for each in trend.open:
        left[each.change.case] = max(left.get(each.change.case, 0.0), each.remaining_percent)
    rows = []
    for finding in trend.findings:
        own = steps.get(finding.case, [])
        chart, words = chart_of(history, numbers[finding.case], own)
        rows.append(
            {
                **{name: getattr(finding, name) for name in ("case", "verdict", "reason", "change_percent")},
                "family": finding.case.partition(".")[0],
                "tone": page.tone(finding.verdict),
                "open_percent": left.get(finding.case),
                "steps": [step_line(each) for each in own],
                "chart": chart,
                "range": words,
            }
        )
    return sorted(rows, key=lambda row: (row["verdict"] is not Verdict.SLOWER, -(row["open_percent"] or 0.0)))


def step_line(change: ChangePoint) -> str:
    """A change point in words: size, cause, place and what changed with it."""
    facts = f": {', '.join(change.place.facts)}" if change.place.facts else ""
    return f"{size(change)}, {change.cause}, {change.place.where}{facts}"


def chart_of(history: History, row: int, changes: Sequence[ChangePoint]) -> tuple[Markup, str]:
    """The times of a case by session, a line per GPU, and its change points."""
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
    return (
        Markup(  # noqa: S704  # numbers, and texts that are escaped
            f'<svg class="series" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
            f'aria-label="{label}">{"".join(lines)}</svg>'
        ),
        words,
    )


def _upright(kind: str, x: float, text: str) -> str:
    title = f"<title>{escape(one_line(text))}</title>"
    return f'<line class="{kind}" x1="{x:.0f}" x2="{x:.0f}" y1="0" y2="{HEIGHT}">{title}</line>'
