"""The pages of a site besides a history's: the index, one run, one case, all runs of a GPU model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape
from peakgate.common.text import one_line
from peakgate.reports.history import page as history_page
from peakgate.reports.history.changes import ChangePoint
from peakgate.reports.history.page import Address
from peakgate.reports.history.report import header, open_line
from peakgate.reports.history.trend import Trend, session_name
from peakgate.reports.render import html, template
from peakgate.reports.render.page import Line, Page, tone
from peakgate.reports.runs.index import Session, gpu_label
from peakgate.verdict import Verdict

STYLES = ("page.css", "site.css")
CASE_STYLES = ("page.css", "history.css", "site.css")


@dataclass(frozen=True, slots=True)
class Listed:
    """A run in a list: its page's address beside that list's, and its verdict."""

    session: Session
    address: str
    verdict: Verdict


def index(trends: Sequence[tuple[Trend, str]], notes: Sequence[str]) -> str:
    """The first page: each GPU model with its verdict, and the address of its pages."""
    models = [
        {
            "slug": trend.history.slug,
            "address": address,
            "verdict": trend.verdict,
            "tone": tone(trend.verdict),
            "open": len(trend.open),
            "about": header(trend.history).partition(": ")[2],
        }
        for trend, address in trends
    ]
    return template.fill(
        "site_index.html", styles=STYLES, title="Peakgate", scripts=template.NO_SCRIPT, models=models, notes=notes
    )


def runs(slug: str, listed: Sequence[Listed], trail: Sequence[Address]) -> str:
    """All runs of a GPU model, newest first."""
    rows = [
        {
            "address": each.address,
            "taken": f"{each.session.taken:%Y-%m-%d %H:%M}",
            "commit": each.session.commit[:12] + (" with uncommitted changes" if each.session.dirty else ""),
            "gpu": gpu_label(each.session.uuid),
            "driver": each.session.driver or "",
            "tier": each.session.tier or "",
            "cases": len(each.session.times_us),
            "verdict": each.verdict,
            "tone": tone(each.verdict),
        }
        for each in sorted(listed, key=lambda each: each.session.taken, reverse=True)
    ]
    return template.fill(
        "site_runs.html",
        styles=STYLES,
        title=f"Runs of {slug}",
        scripts=template.NO_SCRIPT,
        trail=trail,
        slug=slug,
        rows=rows,
    )


def run(page: Page, links: Mapping[str, str], trail: Sequence[Address]) -> str:
    """One run, its cases worst first, without pictures, so that a thousand of them stay small."""
    rows = Markup("\n".join(_row(line, links.get(line.case)) for line in page.lines))  # noqa: S704  # all escaped
    return _still("site_run.html", **html.about(page), facts=page.facts, rows=rows, trail=trail)


def _row(line: Line, link: str | None) -> str:
    """One case of a run; a template takes four times as long, and there are hundreds of thousands."""
    cells = ["", "", "", "", ""]
    if now := line.now:
        rates = html.figure(now.gbs), html.figure(now.tflops or None, 3)
        cells = [html.figure(line.time_us), *rates, html.percent(now.peak_fraction), html.percent(now.floor)]
    verdict = f"<td class={line.tone}>{line.verdict or 'not judged'}"
    return f"<tr>{_case(line.case, link, line.reason)}{verdict}<td>{'<td>'.join(cells)}"


@lru_cache(maxsize=10_000)
def _case(case: str, link: str | None, reason: str) -> str:
    name = escape(one_line(case))
    linked = f'<a href="{escape(link)}">{name}</a>' if link else name
    return f"<th scope=row>{linked}{f'<small>{escape(one_line(reason))}</small>' if reason else ''}"


class CasePages:
    """The pages of the cases of one history; what they share is written once."""

    def __init__(self, trend: Trend, addresses: Sequence[str | None], trail: Sequence[Address]) -> None:
        """``addresses`` are those of the sessions' pages, None where a run has none."""
        self.trend, self.trail = trend, trail
        self.rows = {case: row for row, case in enumerate(trend.history.cases)}
        several = trend.history.gpus > 1
        self.abouts = [
            _about(session, address, several=several)
            for session, address in zip(trend.history.sessions, addresses, strict=True)
        ]
        self.findings = {each.case: each for each in trend.findings}
        self.changes: dict[str, list[ChangePoint]] = {}
        for change in trend.changes:
            self.changes.setdefault(change.case, []).append(change)

    def text(self, case: str) -> str:
        """The page of one case: its picture, its change points, and its time in every session, newest first."""
        history, own = self.trend.history, self.changes.get(case, [])
        finding = self.findings[case]
        chart, words = history_page.chart_of(history, self.rows[case], own)
        times = history.time_us.iloc[self.rows[case]].to_numpy().tolist()
        lines = [
            f"<tr>{about}<td>{time_us:.5g}"
            for about, time_us in zip(self.abouts, times, strict=True)
            if not math.isnan(time_us)
        ]
        return _still(
            "site_case.html",
            styles=CASE_STYLES,
            title=case,
            trail=self.trail,
            verdict=finding.verdict,
            tone=tone(finding.verdict),
            reason=finding.judgement.reason,
            chart=chart,
            range=words,
            gpus=history_page.gpus(history),
            regressions=[open_line(each) for each in self.trend.regressions if each.change.case == case],
            steps=[history_page.step_line(each) for each in own],
            sessions=Markup("\n".join(reversed(lines))),  # noqa: S704  # numbers, and texts that are escaped
        )


def _about(session: Session, address: str | None, *, several: bool) -> str:
    """When a session was, its commit and, in a history of several GPUs, which it ran on."""
    words = escape(f"{session.taken:%Y-%m-%d %H:%M}")
    linked = f"<a href={escape(address)}>{words}</a>" if address else words
    commit = session_name(session).partition(" (")[0] + (f", {gpu_label(session.uuid)}" if several else "")
    return f"<th scope=row>{linked}<td>{escape(commit)}"


def _still(name: str, *, styles: tuple[str, ...] = STYLES, **context: Any) -> str:
    """A page without scripts."""
    return template.fill(name, styles=styles, scripts=template.NO_SCRIPT, **context)
