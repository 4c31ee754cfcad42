"""The report of a history: cases, the origins of its change points, and the events behind its regressions.

An origin collects the change points of all cases that begin with one commit or one change of the environment. The
position of a regression is known only as a range of sessions: regressions of one cause whose ranges overlap form one
event, so that a driver upgrade is one line, however many cases it made slower.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from peakgate.base.formatting import cell, counted, figure, one_line, percent, sparkline
from peakgate.base.report import CellLink, CellValue, Column, Picture, Report, Row, Table
from peakgate.base.verdict import Verdict
from peakgate.compare.history.causes import Cause, ChangePoint
from peakgate.compare.history.chart import chart, mark_line, size, step_line, sum_lines
from peakgate.compare.history.series import History, SessionFacts, commit_name
from peakgate.compare.history.trend import CaseFinding, OpenRegression, Trend
from peakgate.compare.report import spread_fields, spread_sentence, spread_table
from peakgate.compare.result import change_text, shift_percent
from peakgate.render.cases import of_metric
from peakgate.runfile.frame import GPU_NAMES, gpu_label
from peakgate.runfile.schema import ENVIRONMENT

FINDING_COLUMNS = (
    Column("older_time_us", "before (µs)", figure, brief=True),
    Column("newest_time_us", "time (µs)", figure, brief=True),
    Column("smallest_detectable_change_percent", "detectable", percent, brief=True),
    Column("open_percent", "open", percent),
)
FINDING_CELLS = ("older_time_us", "newest_time_us", "change_percent", "smallest_detectable_change_percent")
MOVED = frozenset({Verdict.SLOWER, Verdict.FASTER, Verdict.UNCONFIRMED})
ORIGIN_HEADINGS = ("origin", "first session", "cause", "slower", "faster", "largest", "case")
CHANGE_HEADINGS = ("case", "size (99 % interval)", "cause", "where", "changed with it")
MOST_MARKS = 5
MOST_CHARTS = 12
"""Cases that moved, the worst, whose charts stand before the table; those of the others are in their rows."""


def report(
    trend: Trend, links: Mapping[str, str] | None = None, origin: Callable[[ChangeOrigin], str] | None = None
) -> Report:
    """Report the regressions, worst first; ``links``: URLs of the cases' pages, ``origin`` returns an origin's."""
    history, links, together = trend.history, links or {}, trend.together
    found = events(trend.regressions)
    still_open = sum(not each.accepted for each in found)
    left: defaultdict[str, float] = defaultdict(float)
    for each in trend.open:
        left[each.change.case] += each.remaining
    steps: defaultdict[str, list[ChangePoint]] = defaultdict(list)
    for change in trend.changes:
        steps[change.case].append(change)

    rows: list[Row] = []
    pictures: list[Picture] = []
    numbers = {case: number for number, case in enumerate(history.cases)}
    for finding in sorted(trend.findings, key=lambda each: each.verdict == Verdict.NEW):  # judged ones first
        case, own = finding.case, steps[finding.case]
        drawn, words = chart(history, numbers[case], own)
        if drawn and (own or finding.verdict in MOVED) and len(pictures) < MOST_CHARTS:
            pictures.append(Picture(case, _reason(finding), drawn, narrow=True, address=links.get(case, "")))
            drawn = ""
        recent = () if finding.older_time_us is None else (sparkline(finding.recent_us),)
        open_percent = shift_percent(left[case]) if case in left else None
        rows.append(
            Row(
                name=case,
                verdict=finding.verdict,
                reason=_reason(finding),
                change="" if finding.change_percent is None else change_text(finding.change_percent),
                details=(*recent, *sum_lines(own), *map(step_line, own)),
                cells={name: getattr(finding, name) for name in FINDING_CELLS}
                | {"open_percent": open_percent, "metric": "launch" if case in history.of_host else "gpu"},
                group=case.partition(".")[0],
                address=links.get(case, ""),
                picture=drawn or f"<small>{words}</small>",
            )
        )

    qualified = [
        f"{counted(len(cases), 'case')}{'' if verdict == trend.verdict else f' {verdict}'} in the newest session"
        for verdict, cases in trend.untimed.items()
    ]
    if together and together.verdict == trend.verdict and trend.verdict not in trend.counts:
        qualified.append("suite-wide")
    if trend.open:
        qualified.append(f"{counted(still_open, 'regression')} open")
    tables = [spread_table(trend.spread)] if trend.spread else []
    if found:
        lines = [(each.line(history.retired), each.regressions[0].change.case) for each in found]
        regressions = [(CellLink(line, links[case]) if case in links else line,) for line, case in lines]
        tables.append(Table(f"Open regressions ({still_open})", ("regression",), regressions))
    if trend.changes:
        tables.append(origins_table(origins(history, trend.changes), origin))
        changes = [
            (each.case, size(each), each.cause, each.place.where, ", ".join(each.place.facts)) for each in trend.changes
        ]
        tables.append(Table(f"Change points ({len(changes)})", CHANGE_HEADINGS, changes, folded=True))
    return Report(
        command="history",
        exit_code=trend.exit_code,
        verdict=trend.verdict,
        qualified=", ".join(qualified),
        about=(("history", header(history)),),
        notes=remarks(trend),
        overall=(Row("suite-wide", together.verdict, _reason(together)),) if together else (),
        rows=rows,
        columns=(*of_metric(rows), *FINDING_COLUMNS),
        sentences=[
            *([spread_sentence(trend.spread)] if trend.spread else []),
            *(f"to settle it: `{command}`" for command in trend.commands[1:]),
        ],
        tables=tables,
        pictures=pictures,
        fields=_fields(trend, found),
        legend=gpu_names(history),
        next=trend.commands[0] if trend.commands else "",
    )


def _reason(finding: CaseFinding) -> str:
    return f"{finding.reason}; {finding.where}" if finding.where else finding.reason


def _fields(trend: Trend, events: Sequence[Event]) -> dict[str, Any]:
    """The JSON fields: counts, sessions, marks and every finding, worst first."""
    sessions = list(map(_about, trend.history.sessions))

    def plain(finding: CaseFinding) -> dict[str, Any]:
        ends = {
            name: None if (number := getattr(finding, name)) is None else sessions[number] for name in ("good", "bad")
        }
        return {name: value for name, value in finding._asdict().items() if name not in {"case", "where"}} | ends

    def change_record(change: ChangePoint) -> dict[str, Any]:
        return {
            "case": change.case,
            "gpu": change.uuid,
            "cause": change.cause,
            "percent": change.change_percent,
            "interval_percent": list(change.interval_percent),
            "sessions_since": change.since,
            "between": change.place.between,
            "good": sessions[change.place.good],
            "bad": sessions[change.place.bad],
            "facts": change.place.facts,
            "command": change.place.command,
        }

    return {
        "gpu": trend.history.slug,
        "counts": trend.counts,
        "spread": spread_fields(trend.spread),
        "suite_wide": plain(trend.together) if trend.together else None,
        "commands": trend.commands,
        "sessions": sessions,
        "sessions_needed": trend.sessions_needed,
        "marks": [asdict(mark) for mark in trend.history.marks],
        "retired": list(trend.history.retired),
        "notes": list(trend.notes),
        "change_points": list(map(change_record, trend.changes)),
        "open_regressions": [
            {
                **change_record(each.change),
                "remaining_percent": each.remaining_percent,
                "accepted": None if each.accepted is None else each.accepted.reason,
            }
            for each in trend.regressions
        ],
        "open_events": [
            {
                **change_record(each.narrowest.change),
                "cases": {regression.change.case: regression.remaining_percent for regression in each.regressions},
                "accepted": each.accepted,
            }
            for each in events
        ],
        "rows": [{"case": each.case} | plain(each) for each in trend.findings],
    }


def _about(session: SessionFacts) -> dict[str, Any]:
    """A session's fields for CSV and JSON."""
    return session._asdict() | {"taken": session.taken.isoformat()}


def series_csv(history: History) -> str:
    """CSV text, one row per session, oldest first, with one column per case: the median in microseconds."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")  # several times as fast as pandas for so many columns
    table.writerow([*SessionFacts._fields, *(cell(f"{case} time_us") for case in history.cases)])
    digits = ",".join(["%.8g"] * len(history.cases))
    for session, times_us in zip(history.sessions, history.times.to_numpy().T.tolist(), strict=True):
        known = map(cell, _about(session).values())
        table.writerow([*known, *(digits % tuple(times_us)).replace("nan", "").split(",")])
    return text.getvalue()


def header(history: History) -> str:
    """``nvidia-h200: 36 sessions from 2026-10-01 to 2026-11-20, 180 cases``."""
    taken = [session.taken for session in history.sessions]
    sessions = counted(len(history.sessions), "session")
    span = f"from {min(taken):%Y-%m-%d} to {max(taken):%Y-%m-%d}"
    return f"{one_line(history.slug)}: {sessions} {span}, {counted(len(history.cases), 'case')}"


def gpu_names(history: History) -> list[str]:
    """Labels of the GPUs, in the order of their line colours."""
    return [gpu_label(each) for each in history.by_gpu]


def remarks(trend: Trend) -> list[str]:
    """Changes of the environment, and the notes, one line each."""
    history = trend.history
    remarks = [mark_line(mark, history) for mark in history.marks[-MOST_MARKS:]]
    if (earlier := len(history.marks) - len(remarks)) > 0:
        remarks.insert(0, f"{counted(earlier, 'earlier change')} of driver or GPU")
    if history.gpus > 1:
        remarks.insert(0, f"{history.gpus} GPUs: their sessions are judged together, with one level per GPU")
    for change, place in trend.launch:
        since = counted(len(history.sessions) - place.bad, "session")
        moved = f"time per launch changed by {change.shift:+.2f} µs {since} ago"
        remarks.append(f"{moved}: caused by the host, not by a commit; {place.where}")
    if history.retired:
        verb = "is" if len(history.retired) == 1 else "are"
        cases = ", ".join(history.retired)
        remarks.append(f"{counted(len(history.retired), 'case')} {verb} no longer measured: {cases}")
    return [one_line(remark) for remark in (*remarks, *trend.notes)]


class ChangeOrigin(NamedTuple):
    """``name`` is the commit or what else changed, ``first`` its first session; ``changes`` are sorted by size."""

    name: str
    cause: Cause
    first: SessionFacts
    changes: tuple[ChangePoint, ...]

    @property
    def label(self) -> str:
        """The name as reports show it."""
        return commit_name(self.first) if self.cause is Cause.COMMITS else self.name

    @property
    def since(self) -> str:
        return f"{self.first.taken:%Y-%m-%d %H:%M}"

    @property
    def slower(self) -> int:
        """How many cases became slower."""
        return len({each.case for each in self.changes if each.log_ratio > 0})

    @property
    def faster(self) -> int:
        return len({each.case for each in self.changes if each.log_ratio < 0})


def origins(history: History, changes: Sequence[ChangePoint]) -> list[ChangeOrigin]:
    """The origins of these change points, newest first."""
    found: defaultdict[tuple[str, Cause], list[ChangePoint]] = defaultdict(list)
    for change in changes:
        session = history.sessions[change.number]
        name = session.commit
        if change.cause is not Cause.COMMITS:
            # the change of the environment, such as ``driver 580.159.04 to 590.44.01``, or else only the date
            known = tuple(GPU_NAMES[each] for each in ENVIRONMENT)
            what = "drift" if change.cause is Cause.DRIFT else "no known change"
            facts = [fact for fact in change.place.facts if fact.startswith(known)]
            name = ", ".join(facts) or f"{what}, {session.taken:%Y-%m-%d}"
        found[name, change.cause].append(change)
    made = [
        (min(each.number for each in own), *key, tuple(sorted(own, key=lambda each: -abs(each.log_ratio))))
        for key, own in found.items()
    ]
    newest_first = sorted(made, key=lambda each: -each[0])
    return [ChangeOrigin(name, cause, history.sessions[number], own) for number, name, cause, own in newest_first]


def origins_table(found: Sequence[ChangeOrigin], address: Callable[[ChangeOrigin], str] | None = None) -> Table:
    """One row per origin; ``address`` returns the URL of its page, or an empty text."""
    rows: list[list[CellValue]] = []
    for each in found:
        page, largest = address(each) if address else "", each.changes[0]
        shown = CellLink(each.label, page) if page else each.label
        rows.append([shown, each.since, each.cause, each.slower, each.faster, size(largest), largest.case])
    return Table(f"Commits and environments that moved a case ({len(found)})", ORIGIN_HEADINGS, rows, folded=True)


@dataclass(frozen=True, slots=True)
class Event:
    """Regressions with one cause and overlapping positions, the largest first."""

    regressions: tuple[OpenRegression, ...]

    @property
    def accepted(self) -> bool:
        return self.regressions[0].accepted is not None

    @property
    def narrowest(self) -> OpenRegression:
        """The regression with the narrowest range of sessions."""
        return min(self.regressions, key=lambda each: each.change.place.bad - each.change.place.good)

    def line(self, dropped: Iterable[str] = ()) -> str:
        """The event as one line: cases, size, since when, between which commits, what to do next."""
        first, change = self.regressions[0], self.narrowest.change
        place, gone = change.place, sorted({each.change.case for each in self.regressions} & set(dropped))
        left = f", {first.remaining_percent:.2f} % left" if first.remaining < first.change.low else ""
        cases = f"{first.change.case} {size(first.change)}{left}"
        if (others := len(self.regressions) - 1) > 0:
            least = self.regressions[-1].remaining_percent
            cases += f" and {counted(others, 'other case')} by {least:.2f} % or more"
        facts = f"; {', '.join(place.facts)}" if place.facts else ""
        word = first.accepted
        settled = f"; accepted on {word.day}: {word.reason}" if word else f"; {place.command}" if place.command else ""
        named = f" ({', '.join(gone)})" if others and gone else ""
        missing = f"; no longer measured{named}: open until it is accepted" if gone and not word else ""
        since = f"since {counted(change.since, 'session')}, {change.cause}: {place.where}"
        return one_line(f"{cases} {since}{facts}{settled}{missing}")


def events(regressions: Sequence[OpenRegression]) -> tuple[Event, ...]:
    """Group the regressions into as few events as possible; accepted ones last, then by size."""
    found: list[list[OpenRegression]] = []
    reached: dict[tuple[object, ...], int] = {}
    for each in sorted(regressions, key=lambda each: each.change.place.bad):
        place = each.change.place
        key = each.change.cause, None if each.accepted is None else each.accepted.case
        at = reached.get(key)
        if at is not None and place.good < found[at][0].change.place.bad:
            found[at].append(each)
        else:
            reached[key] = len(found)
            found.append([each])

    def largest(each: OpenRegression) -> tuple[float, str]:
        return -each.remaining, each.change.case

    ordered = [Event(tuple(sorted(each, key=largest))) for each in found]
    return tuple(sorted(ordered, key=lambda event: (event.accepted, *largest(event.regressions[0]))))
