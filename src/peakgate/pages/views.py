"""The pages of a site but for those of runs: its index, and of a GPU model the list of runs, commits and cases."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from peakgate.base.formatting import counted, figure
from peakgate.base.report import CellLink, CellValue, Column, Picture, Report, Row, Table
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.history.causes import ChangePoint
from peakgate.compare.history.chart import chart, size, step_line, sum_lines
from peakgate.compare.history.report import ChangeOrigin, Event, gpu_names, header, origins
from peakgate.compare.history.series import SessionFacts, commit_name
from peakgate.compare.history.trend import Trend
from peakgate.compare.result import WORST_FIRST, change_text
from peakgate.render.cases import IntervalColumn
from peakgate.render.page import PageLink, page
from peakgate.runfile.frame import gpu_label

if TYPE_CHECKING:
    from peakgate.render.pictures import StageShare

HOME = ("All GPU models", "../index.html")
SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")

MODEL_COLUMNS = (Column("open", "open regressions"), Column("cases", "cases"), Column("sessions", "sessions"))
RUN_PAGE_COLUMNS = tuple(Column(name, name) for name in ("commit", "GPU", "driver", "tier", "cases timed"))
SESSION_COLUMNS = (
    Column("commit", "commit"),
    Column("gpu", "GPU"),
    Column("time_us", "time (µs)", partial(figure, digits=5)),
)
CHANGE_PAGE_COLUMNS = (
    IntervalColumn(),
    Column("gpu", "GPU"),
    Column("older_us", "before (µs)", figure),
)


def page_name(text: str) -> str:
    """A file name for this text, the same at every call, and safe on every file system; ids of cases stay readable."""
    if SAFE_NAME.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:10]
    return "-".join(filter(None, [re.sub(r"[^a-z0-9._]+", "-", text.lower())[:60].strip("-."), digest]))


@dataclass(frozen=True)
class Model:
    """A GPU model's history and the addresses of its pages, from the model's own folder.

    ``commit_url`` makes the address of a commit outside the site.
    """

    trend: Trend
    commit_url: Callable[[str], str] | None = None

    @cached_property
    def slug(self) -> str:
        return self.trend.history.slug

    @cached_property
    def cases(self) -> Mapping[str, str]:
        return {case: f"cases/{page_name(case)}.html" for case in self.trend.history.cases}

    @cached_property
    def runs(self) -> Sequence[str]:
        """By session: its time, and a digest that separates two of the same second."""
        found = []
        for each in self.trend.history.sessions:
            digest = hashlib.sha256(f"{each.taken.isoformat()} {each.uuid} {each.commit}".encode(errors="replace"))
            found.append(f"runs/{each.taken:%Y%m%dt%H%M%S}-{digest.hexdigest()[:6]}.html")
        return found

    @cached_property
    def origins(self) -> Sequence[ChangeOrigin]:
        return origins(self.trend.history, self.trend.changes)

    def origin(self, name: str) -> str:
        """The page of a commit or of a change of the environment."""
        return f"changes/{page_name(name)}.html"

    def family(self, name: str) -> str:
        return f"families/{page_name(name)}.html"

    @cached_property
    def commits(self) -> Mapping[str, Sequence[int]]:
        """The sessions of each commit."""
        found: dict[str, list[int]] = {}
        for number, session in enumerate(self.trend.history.sessions):
            found.setdefault(session.commit, []).append(number)
        return found

    def commit(self, session: SessionFacts, up: str = "") -> CellLink:
        """A session's commit, leading to its page."""
        return CellLink(commit_name(session), up + self.origin(session.commit))


Reached = Mapping[str, Sequence["StageShare"]]
"""The stages of each family, with what they reach of the roof."""


class Shown(NamedTuple):
    """A GPU model on the first page: its history, the folder of its pages, and what its families reach."""

    model: Model
    home: str
    reached: Reached


def index_page(models: Sequence[Shown], notes: Sequence[str]) -> str:
    """The first page: of each GPU model the verdict, the worst case, the newest change, and what its families reach."""
    from peakgate.render import pictures  # noqa: PLC0415  # matplotlib

    rows, about, drawn = [], [], []
    for model, home, reached in models:
        trend = model.trend
        judged_first = sorted(trend.counts.items(), key=lambda each: each[0] == Verdict.NEW)
        cells: dict[str, CellValue] = {
            "open": len(trend.open),
            "cases": ", ".join(f"{count} {verdict}" for verdict, count in judged_first),
            "sessions": header(trend.history).partition(": ")[2].rpartition(", ")[0],
        }
        first = trend.findings[0]
        worst = f"{first.case}: {first.reason}" if first.verdict == trend.verdict else ""
        rows.append(Row(model.slug, trend.verdict, worst, cells=cells, address=f"{home}/index.html"))
        if model.origins:
            newest = model.origins[0]
            text = f"{newest.label}, {newest.since}: {_moved(newest)}"
            about.append((f"newest change of {model.slug}", CellLink(text, f"{home}/{model.origin(newest.name)}")))
        alone = (pictures.stages(name, shares) for name, shares in reached.items())
        if picture := pictures.families(reached, f"{model.slug}: families") or next(alone, None):
            drawn.append(replace(picture, address=f"{home}/families.html"))
    rows.sort(key=lambda row: WORST_FIRST.index(Verdict(row.verdict)))
    new = sum(each.model.trend.counts.get(Verdict.NEW, 0) for each in models)
    total = sum(len(each.model.cases) for each in models)
    found = Report(
        command="show",
        exit_code=ExitCode.OK,
        verdict=rows[0].verdict if rows else "",
        qualified=f"{new} of {counted(total, 'case')} NEW, not judged yet" if new else "",
        about=about,
        notes=notes,
        rows=rows,
        columns=MODEL_COLUMNS,
        pictures=drawn,
        unit="GPU model",
    )
    return page(found, title="Peakgate")


def _moved(origin: ChangeOrigin) -> str:
    """``3 cases slower, 1 case faster, most a.b +5.04 % (4.87 to 5.22 %)``."""
    counts = {"slower": origin.slower, "faster": origin.faster}
    largest = origin.changes[0]
    moved = [f"{counted(count, 'case')} {word}" for word, count in counts.items() if count]
    return f"{', '.join(moved)}, most {largest.case} {size(largest)}"


def runs_page(model: Model, verdicts: Mapping[int, Verdict]) -> str:
    """The runs that have a page, newest first."""
    timed = model.trend.history.times.count().tolist()
    rows = []
    for number, verdict in sorted(verdicts.items(), reverse=True):
        session = model.trend.history.sessions[number]
        cells = {
            "commit": model.commit(session),
            "GPU": gpu_label(session.uuid),
            "driver": session.driver,
            "tier": session.tier,
            "cases timed": timed[number],
        }
        rows.append(Row(f"{session.taken:%Y-%m-%d %H:%M}", verdict, address=model.runs[number], cells=cells))
    found = Report("show", ExitCode.OK, rows=rows, columns=RUN_PAGE_COLUMNS, unit="run")
    return page(found, [HOME, (model.slug, "index.html"), ("Changes", "changes.html")], f"Runs of {model.slug}")


def families_page(model: Model, families: Mapping[str, Report], reached: Reached) -> str:
    """The families in one picture, each row leading to its page."""
    from peakgate.render import pictures  # noqa: PLC0415  # matplotlib

    rows = [
        Row(name, cells={"cases": len(found.rows), "run": f"{found.taken:%Y-%m-%d %H:%M}"}, address=model.family(name))
        for name, found in sorted(families.items())
    ]
    picture = pictures.families(reached)
    found = Report(
        command="show",
        exit_code=ExitCode.OK,
        rows=rows,
        columns=(Column("cases", "cases"), Column("run", "of the run of")),
        sentences=() if rows else ("No family was timed in several stages, sizes or blocks.",),
        pictures=[picture] if picture else [],
        unit="family",
    )
    return page(found, [HOME, (model.slug, "index.html"), ("Runs", "runs.html")], f"Families of {model.slug}")


def changes_page(model: Model) -> str:
    """Every commit and change of the environment that moved a case, newest first."""
    rows = []
    for each in model.origins:
        cells = {"since": each.since, "cause": str(each.cause)}
        verdict = Verdict.SLOWER if each.slower else Verdict.FASTER
        address = model.origin(each.name)
        rows.append(Row(each.label, verdict, _moved(each), cells=cells, group=each.cause, address=address))
    columns = (Column("since", "first session"), Column("cause", "cause"))
    sentences = () if rows else ("No commit or change of the environment moved a case.",)
    found = Report("show", ExitCode.OK, rows=rows, columns=columns, sentences=sentences, unit="change")
    return page(found, [HOME, (model.slug, "index.html"), ("Runs", "runs.html")], f"Changes of {model.slug}")


def origin_pages(model: Model, below: Sequence[PageLink], verdicts: Mapping[int, Verdict]) -> Mapping[str, str]:
    """The page of each commit, and of each change of the environment that moved a case, by address."""
    moved = {each.name: each for each in model.origins}
    pages = {}
    for name in {**model.commits, **moved}:
        numbers = model.commits.get(name, ())
        changes = moved[name].changes if name in moved else ()
        rows = [_change(model, each, name) for each in changes]
        shown = CellLink(name, model.commit_url(name)) if numbers and model.commit_url else name
        about = [("commit" if numbers else "change of the environment", shown)]
        runs = [
            (CellLink(f"{session.taken:%Y-%m-%d %H:%M}", f"../{model.runs[number]}"), verdicts[number], session.driver)
            for number in numbers
            if number in verdicts and (session := model.trend.history.sessions[number])
        ]
        found = Report(
            command="show",
            exit_code=ExitCode.OK,
            verdict=max((row.verdict for row in rows), default=""),  # SLOWER rather than FASTER
            about=about,
            rows=sorted(rows, key=lambda row: row.verdict, reverse=True),
            columns=CHANGE_PAGE_COLUMNS,
            sentences=[] if rows else ["No change point of any case begins here."],
            tables=[Table("Runs", ("run", "verdict", "driver"), runs)] if runs else [],
        )
        title = f"Commit {name[:12]}" if numbers else name
        pages[model.origin(name)] = page(found, [*below, ("Changes", "../changes.html")], title)
    return pages


def _change(model: Model, change: ChangePoint, origin: str) -> Row:
    low, high = change.interval_percent
    facts = [each for each in change.place.facts if each not in origin]
    cells: dict[str, CellValue] = {
        "change_percent": change.change_percent,
        "low_percent": low,
        "high_percent": high,
        "gpu": gpu_label(change.uuid),
        "older_us": change.older_us,
    }
    return Row(
        name=change.case,
        verdict=Verdict.SLOWER if change.log_ratio > 0 else Verdict.FASTER,
        reason="; ".join(filter(None, [change.place.where, *facts, change.place.command])),
        change=change_text(change.change_percent),
        cells=cells,
        group=change.case.partition(".")[0],
        address=f"../{model.cases[change.case]}" if change.case in model.cases else "",
    )


def session_rows(model: Model, verdicts: Mapping[int, Verdict]) -> Sequence[Row]:
    """The sessions in the list of a case: when, commit and GPU; those that have a page lead to it."""
    return [
        Row(
            f"{session.taken:%Y-%m-%d %H:%M}",
            address=f"../{model.runs[number]}" if number in verdicts else "",
            cells={"commit": model.commit(session, "../"), "gpu": gpu_label(session.uuid)},
        )
        for number, session in enumerate(model.trend.history.sessions)
    ]


def case_page(model: Model, number: int, sessions: Sequence[Row], trail: Sequence[PageLink]) -> str:
    """The page of one case: its picture, its change points, and its time in every session, newest first.

    ``number`` is the case's in the history, ``sessions`` are the rows of all sessions.
    """
    trend, history = model.trend, model.trend.history
    case = history.cases[number]
    own = [each for each in trend.changes if each.case == case]
    finding = next(each for each in trend.findings if each.case == case)
    drawn, words = chart(history, number, own, [row.address for row in sessions])
    regressions = [(Event((each,)).line(),) for each in trend.regressions if each.change.case == case]
    pages = {id(change): model.origin(each.name) for each in model.origins for change in each.changes}
    steps = [(CellLink(step_line(each), f"../{pages[id(each)]}"),) for each in own]
    found = Report(
        command="show",
        exit_code=ExitCode.OK,
        verdict=finding.verdict,
        sentences=(finding.reason, words, *sum_lines(own)),
        rows=[
            replace(row, cells={**row.cells, "time_us": time_us})
            for row, time_us in zip(sessions, history.times.to_numpy()[number].tolist(), strict=True)
            if not math.isnan(time_us)
        ][::-1],
        columns=SESSION_COLUMNS if history.gpus > 1 else [each for each in SESSION_COLUMNS if each.name != "gpu"],
        tables=[
            *([Table("Open regressions", ("regression",), regressions)] if regressions else []),
            *([Table("Change points", ("step",), steps)] if own else []),
        ],
        pictures=(Picture("Times", "A dot is a session and leads to its run.", drawn),) if drawn else (),
        legend=gpu_names(history) if drawn else (),
        unit="session",
    )
    return page(found, trail, case)
