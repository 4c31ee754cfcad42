"""``peakgate show --all``: all GPU models and runs of a project as one folder of static pages.

A ledger names the pages that an earlier call has already written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins
from msgspec import field as struct_field

from peakgate.base import config, progress, records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import remove_output, write_whole
from peakgate.base.formatting import counted
from peakgate.base.report import CellLink, Report
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.history.report import report
from peakgate.compare.history.series import SessionFacts, first_parents, history
from peakgate.compare.history.trend import find_trend
from peakgate.judge.acknowledged import ACKNOWLEDGED_FILE, load_regressions
from peakgate.pages import show, views
from peakgate.pages.views import page_name
from peakgate.render.page import TEMPLATES, PageLink, page
from peakgate.runfile.find import Archive
from peakgate.runfile.options import READING, commit_url
from peakgate.runfile.saved import load_run
from peakgate.spec.recorded import EMULATOR_SLUG

if TYPE_CHECKING:
    from peakgate.render.pictures import StageShare

INDEX = "index.html"
PAGES_STAY = "the pages that were written stay; run the same command again for the others"
LEDGER_FILE = "site.json"


def write(archive: Archive, out: Path) -> ExitCode:
    """Write the pages of all runs of the archive, below ``out``."""
    folder, baselines = out / "site", config.current().baselines
    with progress.shown(READING):
        slugs = sorted({*archive.sessions["gpu_slug"]} - {EMULATOR_SLUG})
    if not slugs:
        raise PeakgateError(f"no saved run of a GPU below {archive.where()}; measure, or give --runs", Code.WHICH_RUN)
    ledger = open_ledger(folder)
    notes = list(archive.notes)
    written: list[views.Shown] = []
    count = 0
    places = first_parents(config.current().root)
    for slug in slugs:
        try:
            found = history(archive.cases, slug, places=places)
        except PeakgateError as error:
            notes.append(str(error))
            continue
        accepted = load_regressions(baselines / slug / ACKNOWLEDGED_FILE, datetime.now(UTC).date())
        with progress.shown(f"searching the history of {slug} for changes", interrupted=PAGES_STAY):
            trend = find_trend(found, accepted=accepted)
            model = views.Model(trend, commit_url())
            anew, reached = _model(ledger, model, notes)
        count += anew
        written.append(views.Shown(model, page_name(slug), reached))
    write_whole(folder / INDEX, views.index_page(written, notes))
    gone = ledger.close()
    cases = sum(len(each.model.cases) for each in written)
    shown = sum(len(each.model.runs) for each in written)
    parts = [counted(len(written), "GPU model"), counted(cases, "case"), counted(shown, "run")]
    say(f"{', '.join(parts)} ({count} written, {counted(gone, 'page')} deleted): {folder / INDEX}")
    return ExitCode.OK


def _model(ledger: Ledger, model: views.Model, notes: list[str]) -> tuple[int, views.Reached]:
    """Write the pages of one GPU model; how many runs were written, and what its families reach."""
    home, folder = page_name(model.slug), ledger.folder / page_name(model.slug)
    below = [(name, f"../{address}") for name, address in (views.HOME, (model.slug, INDEX), ("Runs", "runs.html"))]
    verdicts: dict[int, Verdict] = {}
    count = 0
    sessions = model.trend.history.sessions
    for number, session in enumerate(progress.each(sessions, "writing the pages of runs", len(sessions), "page")):
        try:
            verdicts[number], anew = _run(ledger, model, session, f"{home}/{model.runs[number]}", below)
        except PeakgateError as error:
            notes.append(f"passed over: {error}")
            continue
        count += anew
    pages = {"runs.html": views.runs_page(model, verdicts), "changes.html": views.changes_page(model)}
    families, reached = _families(ledger, model, home, [*below, ("Families", "../families.html")])
    pages["families.html"] = views.families_page(model, families, reached)
    trail = [views.HOME, *((name.title(), f"{name}.html") for name in ("families", "runs", "changes"))]
    pages[INDEX] = page(report(model.trend, model.cases, lambda each: model.origin(each.name)), trail, model.slug)
    for name, text in pages.items():
        write_whole(folder / name, text)
    rows = views.session_rows(model, verdicts)
    addresses = model.cases.values()
    for number, address in enumerate(progress.each(addresses, "writing the pages of cases", len(addresses), "page")):
        ledger.write(f"{home}/{address}", views.case_page(model, number, rows, below))
    for address, text in views.origin_pages(model, below, verdicts).items():
        ledger.write(f"{home}/{address}", text)
    return count, reached


def _run(
    ledger: Ledger, model: views.Model, session: SessionFacts, name: str, trail: Sequence[PageLink]
) -> tuple[Verdict, bool]:
    """Write the page of one run unless it stands; its verdict, and whether it was written.

    It has no pictures, so that a thousand of them stay small.
    """
    file = Path(session.path)
    try:
        state = file.stat()
    except OSError as error:
        raise PeakgateError(f"{file}: {error.strerror}", Code.UNREADABLE) from None
    # It changes when the run file does, or the cases that its page refers to.
    digest = hashlib.sha256("\n".join(model.cases).encode(errors="replace")).hexdigest()[:10]
    made_from = f"{state.st_size}-{state.st_mtime_ns}-{digest}"
    if verdict := ledger.current(name, made_from):
        return verdict, False
    # Where the file is on the machine that writes the site says nothing to its readers.
    found = show.report(replace(load_run(file), path=Path(file.name)), pictures=False)
    links = {case: f"../{address}" for case, address in model.cases.items()}
    rows = [replace(row, address=links.get(row.name, "")) for row in found.rows]
    verdict = Verdict(found.verdict or Verdict.NO_FLOOR)
    commit = model.commit(session, "../")
    text = page(replace(found, rows=rows), [*trail, (commit, commit.address)], f"Run of {session.taken:%Y-%m-%d %H:%M}")
    ledger.write(name, text, made_from, verdict)
    return verdict, True


def _families(
    ledger: Ledger, model: views.Model, home: str, trail: Sequence[PageLink]
) -> tuple[Mapping[str, Report], views.Reached]:
    """Write the page of each family, of the newest of the runs that timed most of its cases.

    The reports of the pages, and what every family reaches in its run.
    """
    from peakgate.render import families  # noqa: PLC0415  # matplotlib

    timed = model.trend.history.times.notna().groupby([case.partition(".")[0] for case in model.cases]).sum()
    newest_first = timed.iloc[:, ::-1].to_numpy()
    fullest = dict(zip(timed.index, (timed.shape[1] - 1 - newest_first.argmax(axis=1)).tolist(), strict=True))
    found: dict[str, Report] = {}
    reached: dict[str, Sequence[StageShare]] = {}
    for number in sorted(set(fullest.values())):
        file = Path(model.trend.history.sessions[number].path)
        try:
            run = replace(load_run(file), path=Path(file.name))
        except PeakgateError:  # the page of the run has said so
            continue
        whole = show.report(run, pictures=False)
        stages, sections = families.sections(run, explained=True)
        reached |= {name: shares for name, shares in stages.items() if fullest.get(name) == number}
        for section in sections:
            if fullest.get(section.title) != number:
                continue
            rows = [
                replace(row, address=f"../{model.cases[row.name]}" if row.name in model.cases else "")
                for row in whole.rows
                if row.group == section.title
            ]
            own = replace(
                whole,
                verdict="",
                qualified="",
                about=[("run", CellLink(dict(whole.about)["run"], f"../{model.runs[number]}"))],
                sentences=[families.command(section.title)],
                pictures=section.pictures,
                rows=rows,
                tables=section.tables,
            )
            found[section.title] = own
            ledger.write(f"{home}/{model.family(section.title)}", page(own, trail, section.title))
    return found, reached


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
        gone = [self.folder / name for name in self.known if name not in self.kept and name.endswith(".html")]
        gone = [path for path in gone if path.resolve().is_relative_to(self.folder.resolve())]
        for path in gone:
            remove_output(path)
        write_whole(self.folder / LEDGER_FILE, json.dumps(to_builtins(Pages(_version(), self.kept)), indent=1) + "\n")
        return len(gone)


def open_ledger(folder: Path) -> Ledger:
    """That of an earlier call; an empty one where there is none, or where another version wrote it."""
    try:
        saved = records.read(folder / LEDGER_FILE, Pages, "delete it")
    except PeakgateError:
        return Ledger(folder)
    return Ledger(folder, saved.pages if saved.version == _version() else dict.fromkeys(saved.pages))


def _version() -> str:
    """Of this tool and of the templates the pages are made from."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(TEMPLATES.iterdir())))
    return f"{metadata.version('peakgate')} {digest.hexdigest()[:12]}"
