"""``peakgate site``: all GPU models and runs of a project as one folder of static pages.

A ledger names the pages that an earlier call has already written.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape
from msgspec import Struct, to_builtins
from msgspec import field as struct_field
from peakgate.case import EMULATOR_SLUG
from peakgate.common import records
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.common.output import say
from peakgate.common.text import counted, one_line
from peakgate.reports.history import page as history_page
from peakgate.reports.history.changes import ChangePoint
from peakgate.reports.history.page import Address
from peakgate.reports.history.report import header, open_line
from peakgate.reports.history.series import SessionFacts, history, of_sessions, session_name
from peakgate.reports.history.trend import Trend, find_trend
from peakgate.reports.options import add_baselines, add_out, add_runs, verb_parser
from peakgate.reports.protect.acknowledged import ACKNOWLEDGED_FILE, load_regressions
from peakgate.reports.render import html, template
from peakgate.reports.render.page import CaseLine, Page, of_run, tone
from peakgate.reports.render.template import PAGE_TEMPLATES
from peakgate.reports.runs.find import Archive
from peakgate.reports.runs.runfile import load_run
from peakgate.reports.runs.sessions import gpu_label
from peakgate.verdict import ExitCode, Verdict

INDEX = "index.html"
HOME = ("All GPU models", "../index.html")


def main(verb: str, arguments: Sequence[str]) -> int:
    """Write the pages and return the exit code."""
    parser = verb_parser(
        verb,
        "Write all saved runs of a project as static pages into OUT/site: an index, per GPU model its history, and a "
        "page for each run and each case. They refer to each other alone and need no server. A second call writes only "
        "the runs that are new. It does not judge.",
        "exit codes: 0 written, 2 bad input",
    )
    add_runs(parser)
    add_baselines(parser)
    add_out(parser)
    options = parser.parse_args(arguments)
    archive, folder = Archive(options.runs), options.out / "site"
    sessions = archive.sessions()
    slugs = sorted({each.slug for each in sessions} - {EMULATOR_SLUG})
    if not slugs:
        raise PeakgateError(f"no saved run of a GPU below {archive.where()}; measure, or give --runs")
    ledger = open_ledger(folder)
    notes = list(archive.notes())
    written: list[tuple[Trend, str]] = []
    count = 0
    runs = of_sessions(sessions)
    for slug in slugs:
        try:
            found = history(runs, slug)
        except PeakgateError as error:
            notes.append(str(error))
            continue
        accepted = load_regressions(options.baselines / slug / ACKNOWLEDGED_FILE, datetime.now(UTC).date())
        trend = find_trend(found, accepted=accepted)
        count += _model(ledger, trend, notes)
        written.append((trend, f"{page_name(slug)}/{INDEX}"))
    write_whole(folder / INDEX, index_page(written, notes))
    gone = ledger.close()
    cases = sum(len(trend.history.cases) for trend, _ in written)
    shown = sum(len(trend.history.sessions) for trend, _ in written)
    parts = [counted(len(written), "GPU model"), counted(cases, "case"), counted(shown, "run")]
    say(f"{', '.join(parts)} ({count} written anew, {counted(gone, 'page')} deleted): {folder / INDEX}")
    return ExitCode.OK


def _model(ledger: Ledger, trend: Trend, notes: list[str]) -> int:
    """Write the pages of one GPU model; returns how many runs were written anew."""
    slug = trend.history.slug
    home = page_name(slug)
    links = {case: f"cases/{page_name(case)}.html" for case in trend.history.cases}
    back = {case: f"../{address}" for case, address in links.items()}
    trail = [HOME, ("Runs", "runs.html")]
    below = [(name, f"../{address}") for name, address in (HOME, (slug, INDEX), ("Runs", "runs.html"))]
    listed: list[ListedRun] = []
    addresses: list[str | None] = []
    count = 0
    for session, cases in zip(trend.history.sessions, trend.history.times.count(), strict=True):
        address = f"runs/{run_page_name(session)}.html"
        try:
            verdict, anew = _run(ledger, session, f"{home}/{address}", back, below)
        except PeakgateError as error:
            notes.append(f"passed over: {error}")
            addresses.append(None)
            continue
        count += anew
        addresses.append(f"../{address}")
        listed.append(ListedRun(session, cases, address, verdict))
    folder = ledger.folder / home
    write_whole(folder / INDEX, history_page.html(trend, trail, links))
    write_whole(folder / "runs.html", runs_page(slug, listed, [HOME, (slug, INDEX)]))
    pages = CasePages(trend, addresses, below)
    for case, link in links.items():
        ledger.write(f"{home}/{link}", pages.text(case))
    return count


def _run(
    ledger: Ledger, session: SessionFacts, page: str, links: dict[str, str], trail: Sequence[history_page.Address]
) -> tuple[Verdict, bool]:
    """Write the page of one run unless it stands; its verdict, and whether it was written."""
    file = Path(session.path)
    try:
        made_from = source_state(file, links)
    except OSError as error:
        raise PeakgateError(f"{file}: {error.strerror}") from None
    if verdict := ledger.current(page, made_from):
        return verdict, False
    # Where the file is on the machine that writes the site says nothing to its readers.
    content = of_run(replace(load_run(file), path=Path(file.name)))
    ledger.write(page, run_page(content, links, trail), made_from, content.verdict)
    return content.verdict, True


SITE_STYLES = ("page.css", "site.css")
CASE_STYLES = ("page.css", "history.css", "site.css")

LEDGER_FILE = "site.json"
SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in a list: its page's address beside that list's, and its verdict."""

    session: SessionFacts
    cases: int
    address: str
    verdict: Verdict


def index_page(trends: Sequence[tuple[Trend, str]], notes: Sequence[str]) -> str:
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
    return _still("site_index.html", title="Peakgate", models=models, notes=notes)


def runs_page(slug: str, listed: Sequence[ListedRun], trail: Sequence[Address]) -> str:
    """All runs of a GPU model, newest first."""
    rows = [
        {
            "address": each.address,
            "taken": f"{each.session.taken:%Y-%m-%d %H:%M}",
            "commit": each.session.commit[:12] + (" with uncommitted changes" if each.session.dirty else ""),
            "gpu": gpu_label(each.session.uuid),
            "driver": each.session.driver or "",
            "tier": each.session.tier or "",
            "cases": each.cases,
            "verdict": each.verdict,
            "tone": tone(each.verdict),
        }
        for each in sorted(listed, key=lambda each: each.session.taken, reverse=True)
    ]
    return _still("site_runs.html", title=f"Runs of {slug}", trail=trail, slug=slug, rows=rows)


def run_page(page: Page, links: Mapping[str, str], trail: Sequence[Address]) -> str:
    """One run, its cases worst first, without pictures, so that a thousand of them stay small."""
    rows = Markup("\n".join(_row(line, links.get(line.case)) for line in page.lines))  # noqa: S704  # all escaped
    return _still("site_run.html", **html.about(page), facts=page.facts, rows=rows, trail=trail)


def _row(line: CaseLine, link: str | None) -> str:
    """One case of a run; a template takes four times as long, and there are hundreds of thousands."""
    cells = ["", "", "", "", ""]
    if now := line.now:
        rates = html.figure(now.gbs), html.figure(now.tflops or None, 3)
        cells = [html.figure(line.time_us), *rates, html.hundredfold(now.peak_fraction), html.hundredfold(now.floor)]
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
        self.times = trend.history.times.to_numpy()
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
        times = self.times[self.rows[case]].tolist()
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
            reason=finding.reason,
            chart=chart,
            range=words,
            gpus=history_page.gpus(history),
            regressions=[open_line(each) for each in self.trend.regressions if each.change.case == case],
            steps=[history_page.step_line(each) for each in own],
            sessions=Markup("\n".join(reversed(lines))),  # noqa: S704  # numbers, and texts that are escaped
        )


def _about(session: SessionFacts, address: str | None, *, several: bool) -> str:
    """When a session was, its commit and, in a history of several GPUs, which it ran on."""
    words = escape(f"{session.taken:%Y-%m-%d %H:%M}")
    linked = f"<a href={escape(address)}>{words}</a>" if address else words
    commit = session_name(session).partition(" (")[0] + (f", {gpu_label(session.uuid)}" if several else "")
    return f"<th scope=row>{linked}<td>{escape(commit)}"


def _still(name: str, *, styles: tuple[str, ...] = SITE_STYLES, **context: Any) -> str:
    """A page without scripts."""
    return template.fill(name, styles=styles, scripts=template.NO_SCRIPT, **context)


def page_name(text: str) -> str:
    """A file name for this text, the same at every call, and safe on every file system; ids of cases stay readable."""
    if SAFE_NAME.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:10]
    return "-".join(filter(None, [re.sub(r"[^a-z0-9._]+", "-", text.lower())[:60].strip("-."), digest]))


def run_page_name(session: SessionFacts) -> str:
    """A session by its time; the digest separates two of the same second."""
    digest = hashlib.sha256(f"{session.taken.isoformat()} {session.uuid} {session.commit}".encode(errors="replace"))
    return f"{session.taken:%Y%m%dt%H%M%S}-{digest.hexdigest()[:6]}"


class Written(Struct):
    """What a page was made from, and the verdict on it."""

    made_from: str = struct_field(name="from")
    verdict: Verdict | None = None


class Pages(Struct):
    """The ledger's file."""

    version: str
    pages: dict[str, Written]


@dataclass(slots=True)
class Ledger:
    """The pages that stand in the folder, and what each was made from.

    Only what it names is ever deleted.
    """

    folder: Path
    known: Mapping[str, Written | None] = field(default_factory=dict)
    kept: dict[str, Written] = field(default_factory=dict)

    def current(self, page: str, made_from: str) -> Verdict | None:
        """The verdict on this page, where it stands and was made from the same."""
        entry = self.known.get(page)
        if entry is None or entry.made_from != made_from or not (self.folder / page).is_file():
            return None
        if entry.verdict is not None:
            self.kept[page] = entry
        return entry.verdict

    def write(self, page: str, text: str, made_from: str = "", verdict: Verdict | None = None) -> None:
        """Write a page and note what it was made from, and the verdict on it."""
        write_whole(self.folder / page, text)
        self.kept[page] = Written(made_from, verdict)

    def close(self) -> int:
        """Delete the pages whose run is gone, save what stands now, and return how many were deleted."""
        gone = [page for page in self.known if page not in self.kept and _below(self.folder, page)]
        for page in gone:
            (self.folder / page).unlink(missing_ok=True)
        write_whole(self.folder / LEDGER_FILE, json.dumps(to_builtins(Pages(_version(), self.kept)), indent=1) + "\n")
        return len(gone)


def open_ledger(folder: Path) -> Ledger:
    """That of an earlier call; an empty one where there is none, or where another version wrote it."""
    try:
        saved = records.read(folder / LEDGER_FILE, Pages, "delete it")
    except PeakgateError:
        return Ledger(folder)
    return Ledger(folder, saved.pages if saved.version == _version() else dict.fromkeys(saved.pages))


def source_state(file: Path, cases: Iterable[str]) -> str:
    """Changes when the run file does, or the cases that its page refers to."""
    found = file.stat()
    digest = hashlib.sha256("\n".join(cases).encode(errors="replace")).hexdigest()[:10]
    return f"{found.st_size}-{found.st_mtime_ns}-{digest}"


def _below(folder: Path, page: str) -> bool:
    return (folder / page).resolve().is_relative_to(folder.resolve()) and page.endswith(".html")


def _version() -> str:
    """Of this tool and of the templates the pages are made from."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(PAGE_TEMPLATES.iterdir())))
    return f"{metadata.version('peakgate')} {digest.hexdigest()[:12]}"
