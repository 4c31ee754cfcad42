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
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
from msgspec import Struct, to_builtins
from msgspec import field as struct_field
from numpy.typing import NDArray
from peakgate.core import records
from peakgate.core.case import EMULATOR_SLUG
from peakgate.core.codes import Code
from peakgate.core.errors import PeakgateError
from peakgate.core.files import write_whole
from peakgate.core.output import say
from peakgate.core.report import Column, Picture, Report, Row, Table
from peakgate.core.text import counted, figure
from peakgate.core.verdict import ExitCode, Verdict
from peakgate.reports.gate.acknowledged import ACKNOWLEDGED_FILE, load_regressions
from peakgate.reports.history.chart import chart, step_line
from peakgate.reports.history.report import gpu_names, header, open_line, report
from peakgate.reports.history.series import SessionFacts, history, of_sessions, session_name
from peakgate.reports.history.trend import Trend, find_trend
from peakgate.reports.pages import show
from peakgate.reports.runs.find import Archive
from peakgate.reports.runs.options import add_baselines, add_out, add_runs, verb_parser
from peakgate.reports.runs.runfile import load_run
from peakgate.reports.runs.sessions import gpu_label
from peakgate.reports.write.page import TEMPLATES, PageLink, page

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
        raise PeakgateError(f"no saved run of a GPU below {archive.where()}; measure, or give --runs", Code.WHICH_RUN)
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
    say(f"{', '.join(parts)} ({count} written, {counted(gone, 'page')} deleted): {folder / INDEX}")
    return ExitCode.OK


def _model(ledger: Ledger, trend: Trend, notes: list[str]) -> int:
    """Write the pages of one GPU model; returns how many runs were written."""
    slug = trend.history.slug
    home = page_name(slug)
    links = {case: f"cases/{page_name(case)}.html" for case in trend.history.cases}
    back = {case: f"../{address}" for case, address in links.items()}
    trail = [HOME, ("Runs", "runs.html")]
    below = [(name, f"../{address}") for name, address in (HOME, (slug, INDEX), ("Runs", "runs.html"))]
    listed: list[Row] = []
    addresses: list[str | None] = []
    count = 0
    for session, cases in zip(trend.history.sessions, trend.history.times.count().tolist(), strict=True):
        address = f"runs/{run_page_name(session)}.html"
        try:
            verdict, anew = _run(ledger, session, f"{home}/{address}", back, below)
        except PeakgateError as error:
            notes.append(f"passed over: {error}")
            addresses.append(None)
            continue
        count += anew
        addresses.append(f"../{address}")
        listed.append(listed_run(session, cases, address, verdict))
    folder = ledger.folder / home
    write_whole(folder / INDEX, page(report(trend, links), trail, slug))
    write_whole(folder / "runs.html", runs_page(slug, listed, [HOME, (slug, INDEX)]))
    several, times = trend.history.gpus > 1, trend.history.times.to_numpy()
    sessions = [
        session_row(session, address, several=several)
        for session, address in zip(trend.history.sessions, addresses, strict=True)
    ]
    for case, link in links.items():
        ledger.write(f"{home}/{link}", case_page(trend, case, times, sessions, below))
    return count


def _run(
    ledger: Ledger, session: SessionFacts, name: str, links: dict[str, str], trail: Sequence[PageLink]
) -> tuple[Verdict, bool]:
    """Write the page of one run unless it stands; its verdict, and whether it was written.

    It has no pictures, so that a thousand of them stay small.
    """
    file = Path(session.path)
    try:
        made_from = source_state(file, links)
    except OSError as error:
        raise PeakgateError(f"{file}: {error.strerror}", Code.UNREADABLE) from None
    if verdict := ledger.current(name, made_from):
        return verdict, False
    # Where the file is on the machine that writes the site says nothing to its readers.
    found = show.report(replace(load_run(file), path=Path(file.name)), pictures=False)
    rows = [replace(row, address=links.get(row.name, "")) for row in found.rows]
    verdict = Verdict(found.verdict)
    text = page(replace(found, rows=rows), trail, f"Run of {session.taken:%Y-%m-%d %H:%M}")
    ledger.write(name, text, made_from, verdict)
    return verdict, True


LEDGER_FILE = "site.json"
SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")

MODEL_COLUMNS = (Column("open", "open regressions"), Column("sessions", "sessions"))
RUN_LIST_COLUMNS = tuple(Column(name, name) for name in ("commit", "GPU", "driver", "tier", "cases timed"))
SESSION_COLUMNS = (Column("commit", "commit"), Column("time_us", "time (µs)", partial(figure, digits=5)))


def index_page(trends: Sequence[tuple[Trend, str]], notes: Sequence[str]) -> str:
    """The first page: each GPU model with its verdict, and the address of its pages."""
    rows = [
        Row(
            name=trend.history.slug,
            verdict=trend.verdict,
            address=address,
            cells={"open": len(trend.open), "sessions": header(trend.history).partition(": ")[2]},
        )
        for trend, address in trends
    ]
    found = Report("site", ExitCode.OK, notes=notes, rows=rows, columns=MODEL_COLUMNS, unit="GPU model")
    return page(found, title="Peakgate")


def runs_page(slug: str, listed: Sequence[Row], trail: Sequence[PageLink]) -> str:
    """All runs of a GPU model, newest first."""
    rows = sorted(listed, key=lambda row: row.name, reverse=True)
    found = Report("site", ExitCode.OK, rows=rows, columns=RUN_LIST_COLUMNS, unit="run")
    return page(found, trail, f"Runs of {slug}")


def listed_run(session: SessionFacts, cases: int, address: str, verdict: Verdict) -> Row:
    """A run of so many timed ``cases`` in the list of all; ``address`` is that of its page."""
    cells = {
        "commit": session.commit[:12] + (" with uncommitted changes" if session.dirty else ""),
        "GPU": gpu_label(session.uuid),
        "driver": session.driver,
        "tier": session.tier,
        "cases timed": cases,
    }
    return Row(f"{session.taken:%Y-%m-%d %H:%M}", verdict, address=address, cells=cells)


def case_page(
    trend: Trend, case: str, times: NDArray[np.float64], sessions: Sequence[Row], trail: Sequence[PageLink]
) -> str:
    """The page of one case: its picture, its change points, and its time in every session, newest first.

    ``sessions`` are those of the history, in its order, ``times`` in microseconds by case and session.
    """
    history = trend.history
    number = history.cases.index(case)
    own = [each for each in trend.changes if each.case == case]
    finding = next(each for each in trend.findings if each.case == case)
    drawn, words = chart(history, number, own)
    regressions = [(open_line(each),) for each in trend.regressions if each.change.case == case]
    steps = [(step_line(each),) for each in own]
    rows = [
        replace(row, cells={**row.cells, "time_us": time_us})
        for row, time_us in zip(sessions, times[number].tolist(), strict=True)
        if not math.isnan(time_us)
    ]
    found = Report(
        command="site",
        exit_code=ExitCode.OK,
        verdict=finding.verdict,
        sentences=(finding.reason, words),
        rows=rows[::-1],
        columns=SESSION_COLUMNS,
        tables=[
            *([Table("Open regressions", ("regression",), regressions)] if regressions else []),
            *([Table("Change points", ("step",), steps)] if steps else []),
        ],
        pictures=(Picture("Times", "A line per GPU, an upright line per step.", drawn),),
        legend=gpu_names(history),
        unit="session",
    )
    return page(found, trail, case)


def session_row(session: SessionFacts, address: str | None, *, several: bool) -> Row:
    """A session in the list of a case: when, its commit and, in a history of several GPUs, which it ran on."""
    commit = session_name(session).partition(" (")[0] + (f", {gpu_label(session.uuid)}" if several else "")
    return Row(f"{session.taken:%Y-%m-%d %H:%M}", address=address or "", cells={"commit": commit})


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
    """Source of a page, and its verdict."""

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
        gone = [name for name in self.known if name not in self.kept and _below(self.folder, name)]
        for name in gone:
            (self.folder / name).unlink(missing_ok=True)
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
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(TEMPLATES.iterdir())))
    return f"{metadata.version('peakgate')} {digest.hexdigest()[:12]}"
