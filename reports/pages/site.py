"""``peakgate site``: all GPU models and runs of a project as one folder of static pages.

A ledger names the pages that an earlier call has already written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from peakgate.core import config
from peakgate.core.case import EMULATOR_SLUG
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.files import write_whole
from peakgate.core.text import counted, say
from peakgate.core.verdict import ExitCode, Verdict
from peakgate.reports.gate.acknowledged import ACKNOWLEDGED_FILE, load_regressions
from peakgate.reports.history.order import first_parents
from peakgate.reports.history.report import report
from peakgate.reports.history.series import SessionFacts, history
from peakgate.reports.history.trend import Trend, find_trend
from peakgate.reports.pages import show, views
from peakgate.reports.pages.ledger import Ledger, open_ledger, page_name, source_state
from peakgate.reports.runs.find import Archive
from peakgate.reports.runs.options import add_baselines, add_commit_url, add_out, add_runs, verb_parser
from peakgate.reports.runs.runfile import load_run
from peakgate.reports.write.page import PageLink, page

INDEX = "index.html"


def main(verb: str, arguments: Sequence[str]) -> int:
    """Write the pages and return the exit code."""
    parser = verb_parser(
        verb,
        "Write all saved runs of a project as static pages into OUT/site: an index, per GPU model its history, and a "
        "page for each run, each case and each commit. They refer to each other alone and need no server. A second "
        "call writes only the runs that are new. It does not judge.",
        "exit codes: 0 written, 2 bad input",
    )
    add_runs(parser)
    add_baselines(parser)
    add_commit_url(parser)
    add_out(parser)
    options = parser.parse_args(arguments)
    archive, folder = Archive(options.runs), options.out / "site"
    slugs = sorted({*archive.sessions["gpu_slug"]} - {EMULATOR_SLUG})
    if not slugs:
        raise PeakgateError(f"no saved run of a GPU below {archive.where()}; measure, or give --runs", Code.WHICH_RUN)
    ledger = open_ledger(folder)
    notes = list(archive.notes())
    written: list[tuple[Trend, str]] = []
    count = 0
    places = first_parents(config.current().root)
    for slug in slugs:
        try:
            found = history(archive.cases, slug, places=places)
        except PeakgateError as error:
            notes.append(str(error))
            continue
        accepted = load_regressions(options.baselines / slug / ACKNOWLEDGED_FILE, datetime.now(UTC).date())
        trend = find_trend(found, accepted=accepted)
        count += _model(ledger, views.Model(trend, options.commit_url), notes)
        written.append((trend, f"{page_name(slug)}/{INDEX}"))
    write_whole(folder / INDEX, views.index_page(written, notes))
    gone = ledger.close()
    cases = sum(len(trend.history.cases) for trend, _ in written)
    shown = sum(len(trend.history.sessions) for trend, _ in written)
    parts = [counted(len(written), "GPU model"), counted(cases, "case"), counted(shown, "run")]
    say(f"{', '.join(parts)} ({count} written, {counted(gone, 'page')} deleted): {folder / INDEX}")
    return ExitCode.OK


def _model(ledger: Ledger, model: views.Model, notes: list[str]) -> int:
    """Write the pages of one GPU model; returns how many runs were written."""
    home, folder = page_name(model.slug), ledger.folder / page_name(model.slug)
    below = [(name, f"../{address}") for name, address in (views.HOME, (model.slug, INDEX), ("Runs", "runs.html"))]
    verdicts: dict[int, Verdict] = {}
    count = 0
    for number, session in enumerate(model.trend.history.sessions):
        try:
            verdicts[number], anew = _run(ledger, model, session, f"{home}/{model.runs[number]}", below)
        except PeakgateError as error:
            notes.append(f"passed over: {error}")
            continue
        count += anew
    pages = {"runs.html": views.runs_page(model, verdicts), "changes.html": views.changes_page(model)}
    trail = [views.HOME, *((name.title(), f"{name}.html") for name in ("runs", "changes"))]
    pages[INDEX] = page(report(model.trend, model.cases, lambda each: model.origin(each.name)), trail, model.slug)
    for name, text in pages.items():
        write_whole(folder / name, text)
    sessions = views.session_rows(model, verdicts)
    for number, address in enumerate(model.cases.values()):
        ledger.write(f"{home}/{address}", views.case_page(model, number, sessions, below))
    for address, text in views.origin_pages(model, below, verdicts).items():
        ledger.write(f"{home}/{address}", text)
    return count


def _run(
    ledger: Ledger, model: views.Model, session: SessionFacts, name: str, trail: Sequence[PageLink]
) -> tuple[Verdict, bool]:
    """Write the page of one run unless it stands; its verdict, and whether it was written.

    It has no pictures, so that a thousand of them stay small.
    """
    file = Path(session.path)
    try:
        made_from = source_state(file, model.cases)
    except OSError as error:
        raise PeakgateError(f"{file}: {error.strerror}", Code.UNREADABLE) from None
    if verdict := ledger.current(name, made_from):
        return verdict, False
    # Where the file is on the machine that writes the site says nothing to its readers.
    found = show.report(replace(load_run(file), path=Path(file.name)), pictures=False)
    links = {case: f"../{address}" for case, address in model.cases.items()}
    rows = [replace(row, address=links.get(row.name, "")) for row in found.rows]
    verdict = Verdict(found.verdict)
    commit = model.commit(session, "../")
    text = page(replace(found, rows=rows), [*trail, (commit, commit.address)], f"Run of {session.taken:%Y-%m-%d %H:%M}")
    ledger.write(name, text, made_from, verdict)
    return verdict, True
