"""The report of a history."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from peakgate.base.report import CellLink, Column, Report, Row, Table
from peakgate.base.text import cell, counted, figure, one_line, percent, sparkline
from peakgate.compare.history.changes import ChangePoint
from peakgate.compare.history.chart import chart
from peakgate.compare.history.events import ChangeOrigin, Event, mark_line, origins, origins_table, size, step_lines
from peakgate.compare.history.levels import Change
from peakgate.compare.history.regressions import OpenRegression
from peakgate.compare.history.series import History, SessionFacts
from peakgate.compare.history.steps import Place
from peakgate.compare.history.trend import CaseFinding, Trend
from peakgate.compare.result import change_text
from peakgate.runfile.frame import gpu_label

CHANGE_HEADINGS = ("case", "size (99 % interval)", "cause", "where", "changed with it")
MOST_MARKS = 5
COLUMNS = (
    Column("older_time_us", "before (µs)", figure, brief=True),
    Column("newest_time_us", "time (µs)", figure, brief=True),
    Column("smallest_detectable_change_percent", "detectable", percent, brief=True),
    Column("open_percent", "open", percent),
)


def report(
    trend: Trend, links: Mapping[str, str] | None = None, origin: Callable[[ChangeOrigin], str] | None = None
) -> Report:
    """Regressions, worst first; ``links`` are the addresses of the cases' pages, ``origin`` makes one of an origin."""
    left = _left(trend)
    steps: dict[str, list[ChangePoint]] = {}
    for change in trend.changes:
        steps.setdefault(change.case, []).append(change)
    numbers = {case: number for number, case in enumerate(trend.history.cases)}
    together = trend.together
    return Report(
        command="history",
        exit_code=trend.exit_code,
        verdict=trend.verdict,
        qualified=f"{counted(_still_open(trend), 'regression')} open" if trend.open else "",
        about=(("history", header(trend.history)),),
        notes=remarks(trend),
        overall=(Row("suite-wide", together.verdict, _reason(together)),) if together else (),
        rows=[
            _row(
                each,
                chart(trend.history, numbers[each.case], own := steps.get(each.case, [])),
                step_lines(own),
                left.get(each.case),
                (links or {}).get(each.case, ""),
            )
            for each in trend.findings
        ],
        columns=COLUMNS,
        sentences=[f"to settle it: `{command}`" for command in trend.commands],
        tables=_tables(trend, links or {}, origin),
        fields=_fields(trend),
        legend=gpu_names(trend.history),
    )


def _left(trend: Trend) -> dict[str, float]:
    """What is open of each case in percent: all of its steps together."""
    sums: defaultdict[str, float] = defaultdict(float)
    for each in trend.open:
        sums[each.change.case] += each.remaining
    return {case: 100 * math.expm1(total) for case, total in sums.items()}


def _row(
    finding: CaseFinding, drawn: tuple[str, str], steps: Sequence[str], open_percent: float | None, address: str
) -> Row:
    """A case; ``drawn`` is its chart and the range of its times, ``steps`` are its change points in words."""
    known = ("older_time_us", "newest_time_us", "change_percent", "smallest_detectable_change_percent")
    recent = () if finding.older_time_us is None else (sparkline(finding.recent_us),)
    return Row(
        name=finding.case,
        verdict=finding.verdict,
        reason=_reason(finding),
        change="" if finding.change_percent is None else change_text(finding.change_percent),
        details=(*recent, *steps),
        cells={name: getattr(finding, name) for name in known} | {"open_percent": open_percent},
        group=finding.case.partition(".")[0],
        address=address,
        picture=drawn[0] or f"<small>{drawn[1]}</small>",
    )


def _tables(trend: Trend, links: Mapping[str, str], origin: Callable[[ChangeOrigin], str] | None) -> list[Table]:
    regressions = []
    for event in trend.events:
        line, case = event.line(trend.history.retired), event.regressions[0].change.case
        regressions.append((CellLink(line, links[case]) if case in links else line,))
    found = origins(trend.history, trend.changes)
    changes = [
        (each.case, size(each), each.cause, each.place.where, ", ".join(each.place.facts)) for each in trend.changes
    ]
    return [
        *([Table(f"Open regressions ({_still_open(trend)})", ("regression",), regressions)] if regressions else []),
        *([origins_table(trend.history, found, list(map(origin, found)) if origin else None)] if found else []),
        *([Table(f"Change points ({len(changes)})", CHANGE_HEADINGS, changes, folded=True)] if changes else []),
    ]


def _still_open(trend: Trend) -> int:
    """How many commits and changes of the environment have regressions that are not accepted."""
    return sum(not each.accepted for each in trend.events)


def header(history: History) -> str:
    """``nvidia-h200: 36 sessions from 2026-10-01 to 2026-11-20, 180 cases``."""
    taken = [session.taken for session in history.sessions]
    sessions = counted(len(history.sessions), "session")
    span = f"from {min(taken):%Y-%m-%d} to {max(taken):%Y-%m-%d}"
    return f"{one_line(history.slug)}: {sessions} {span}, {counted(len(history.cases), 'case')}"


def gpu_names(history: History) -> list[str]:
    """The GPUs of a history in the order of their lines' colours."""
    return [gpu_label(each) for each in history.by_gpu]


def series_csv(trend: Trend) -> str:
    """One row per session, oldest first, with the median in microseconds of every case that it has, a column each."""
    history, text = trend.history, io.StringIO()
    table = csv.writer(text, lineterminator="\n")  # pandas takes several times as long for so many columns
    table.writerow([*SessionFacts._fields, *(cell(f"{case} time_us") for case in history.cases)])
    digits = ",".join(["%.8g"] * len(history.cases))
    for session, times_us in zip(history.sessions, history.times.to_numpy().T.tolist(), strict=True):
        known = [cell(each) for each in _about(session).values()]
        table.writerow([*known, *(digits % tuple(times_us)).replace("nan", "").split(",")])
    return text.getvalue()


def _fields(trend: Trend) -> dict[str, Any]:
    """Counts, sessions, marks and every finding, worst first, with the times it was judged by."""
    return {
        "gpu": trend.history.slug,
        "counts": trend.counts,
        "suite_wide": _plain(trend.together, trend.history) if trend.together else None,
        "commands": trend.commands,
        "sessions": [_about(session) for session in trend.history.sessions],
        "marks": [asdict(mark) for mark in trend.history.marks],
        "retired": list(trend.history.retired),
        "notes": list(trend.notes),
        "change_points": [change_record(each, trend.history) for each in trend.changes],
        "open_regressions": [
            {
                **change_record(each.change, trend.history),
                "remaining_percent": each.remaining_percent,
                "accepted": None if each.accepted is None else each.accepted.reason,
            }
            for each in trend.regressions
        ],
        "open_events": [
            {
                **change_record(each.narrowest.change, trend.history),
                "cases": {regression.change.case: regression.remaining_percent for regression in each.regressions},
                "accepted": each.accepted,
            }
            for each in trend.events
        ],
        "rows": [{"case": each.case} | _plain(each, trend.history) for each in trend.findings],
    }


def change_record(change: ChangePoint, history: History) -> dict[str, Any]:
    """A change point as JSON has it."""
    low, high = change.interval_percent
    return {
        "case": change.case,
        "gpu": change.uuid,
        "cause": change.cause,
        "percent": change.change_percent,
        "interval_percent": [low, high],
        "sessions_since": change.since,
        "between": change.place.between,
        "good": _about(history.sessions[change.place.good]),
        "bad": _about(history.sessions[change.place.bad]),
        "facts": change.place.facts,
        "command": change.place.command,
    }


def open_line(regression: OpenRegression) -> str:
    """An open or accepted regression by itself, as an event's line."""
    return Event((regression,)).line()


def remarks(trend: Trend) -> list[str]:
    """Changes other than of the code, and the notes, one line each."""
    remarks = [mark_line(mark, trend.history) for mark in trend.history.marks[-MOST_MARKS:]]
    if (earlier := len(trend.history.marks) - len(remarks)) > 0:
        remarks.insert(0, f"{counted(earlier, 'earlier change')} of driver or GPU")
    if (gpus := trend.history.gpus) > 1:
        remarks.insert(0, f"{gpus} GPUs: their sessions are judged together, each about the level of its own GPU")
    remarks += [launch_line(*each, trend.history) for each in trend.launch]
    if retired := trend.history.retired:
        verb = "is" if len(retired) == 1 else "are"
        remarks.append(f"{counted(len(retired), 'case')} {verb} no longer measured: {', '.join(retired)}")
    return [one_line(remark) for remark in (*remarks, *trend.notes)]


def launch_line(change: Change, place: Place, history: History) -> str:
    """``every launch takes +0.52 µs since 12 sessions: a host's event, no commit's; after ... and not after ...``."""
    since = counted(len(history.sessions) - place.bad, "session")
    return f"every launch takes {change.shift:+.2f} µs since {since}: a host's event, no commit's; {place.where}"


def _reason(finding: CaseFinding) -> str:
    return f"{finding.reason}; {finding.where}" if finding.where else finding.reason


def _plain(finding: CaseFinding, history: History) -> dict[str, Any]:
    record = {name: value for name, value in finding._asdict().items() if name not in {"case", "where"}}
    sessions = {
        name: None if record[name] is None else _about(history.sessions[record[name]]) for name in ("good", "bad")
    }
    return record | sessions


def _about(session: SessionFacts) -> dict[str, Any]:
    """A session as CSV and JSON have it."""
    return session._asdict() | {"taken": session.taken.isoformat()}
