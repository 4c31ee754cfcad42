"""``peakgate site``: all GPU models and runs of a project as one folder of static pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from peakgate.case import EMULATOR_SLUG
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.common.text import counted
from peakgate.reports.history import page as history_page
from peakgate.reports.history.series import history
from peakgate.reports.history.trend import Trend, find_trend
from peakgate.reports.options import add_baselines, add_out, add_runs, verb_parser
from peakgate.reports.protect.acknowledged import FILE, load_regressions
from peakgate.reports.render.console import say
from peakgate.reports.render.page import of_run
from peakgate.reports.runs.find import Archive
from peakgate.reports.runs.runfile import load_run
from peakgate.reports.runs.sessions import Session
from peakgate.reports.site import pages
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
    ledger = pages.open_ledger(folder)
    notes = list(archive.notes())
    written: list[tuple[Trend, str]] = []
    count = 0
    for slug in slugs:
        try:
            found = history(sessions, slug)
        except PeakgateError as error:
            notes.append(str(error))
            continue
        accepted = load_regressions(options.baselines / slug / FILE, datetime.now(UTC).date())
        trend = find_trend(found, accepted=accepted)
        count += _model(ledger, trend, notes)
        written.append((trend, f"{pages.name(slug)}/{INDEX}"))
    write_whole(folder / INDEX, pages.index(written, notes))
    gone = ledger.close()
    cases = sum(len(trend.history.cases) for trend, _ in written)
    runs = sum(len(trend.history.sessions) for trend, _ in written)
    parts = [counted(len(written), "GPU model"), counted(cases, "case"), counted(runs, "run")]
    say(f"{', '.join(parts)} ({count} written anew, {counted(gone, 'page')} deleted): {folder / INDEX}\n")
    return ExitCode.OK


def _model(ledger: pages.Ledger, trend: Trend, notes: list[str]) -> int:
    """Write the pages of one GPU model; returns how many runs were written anew."""
    slug = trend.history.slug
    home = pages.name(slug)
    links = {case: f"cases/{pages.name(case)}.html" for case in trend.history.cases}
    back = {case: f"../{address}" for case, address in links.items()}
    trail = [HOME, ("Runs", "runs.html")]
    below = [(name, f"../{address}") for name, address in (HOME, (slug, INDEX), ("Runs", "runs.html"))]
    listed: list[pages.Listed] = []
    addresses: list[str | None] = []
    count = 0
    for session in trend.history.sessions:
        address = f"runs/{pages.run_name(session)}.html"
        try:
            verdict, anew = _run(ledger, session, f"{home}/{address}", back, below)
        except PeakgateError as error:
            notes.append(f"passed over: {error}")
            addresses.append(None)
            continue
        count += anew
        addresses.append(f"../{address}")
        listed.append(pages.Listed(session, address, verdict))
    folder = ledger.folder / home
    write_whole(folder / INDEX, history_page.html(trend, trail, links))
    write_whole(folder / "runs.html", pages.runs(slug, listed, [HOME, (slug, INDEX)]))
    cases = pages.CasePages(trend, addresses, below)
    for case, link in links.items():
        ledger.write(f"{home}/{link}", cases.text(case))
    return count


def _run(
    ledger: pages.Ledger, session: Session, page: str, links: dict[str, str], trail: Sequence[history_page.Address]
) -> tuple[Verdict, bool]:
    """Write the page of one run unless it stands; its verdict, and whether it was written."""
    file = Path(session.path)
    try:
        made_from = pages.state(file, links)
    except OSError as error:
        raise PeakgateError(f"{file}: {error.strerror}") from None
    if verdict := ledger.current(page, made_from):
        return verdict, False
    # Where the file is on the machine that writes the site says nothing to its readers.
    content = of_run(replace(load_run(file), path=Path(file.name)))
    ledger.write(page, pages.run(content, links, trail), made_from, content.verdict)
    return content.verdict, True
