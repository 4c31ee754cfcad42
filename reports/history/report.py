"""A history as terminal, Markdown, CSV and JSON, and the sentences they share; none of them decides anything."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peakgate.common.text import as_json, cell, counted
from peakgate.reports.history.changes import ChangePoint, OpenRegression
from peakgate.reports.history.series import History, Mark, SessionFacts, commit_name
from peakgate.reports.history.trend import CaseFinding, Trend
from peakgate.reports.render import terminal
from peakgate.reports.render.markdown import code, escape
from peakgate.reports.render.markdown import table as markdown_table
from peakgate.reports.render.phrases import UNCHANGED, change, one_line
from peakgate.reports.runs.sessions import gpu_label, shortly
from peakgate.verdict import REGRESSIONS, UNDECIDED, Verdict
from rich.console import Console
from rich.text import Text

BARS = "▁▂▃▄▅▆▇█"


def header(history: History) -> str:
    """``nvidia-h200: 36 sessions from 2026-10-01 to 2026-11-20, 180 cases``."""
    first, last = history.sessions[0], history.sessions[-1]
    sessions = counted(len(history.sessions), "session")
    span = f"from {first.taken:%Y-%m-%d} to {last.taken:%Y-%m-%d}"
    return f"{one_line(history.slug)}: {sessions} {span}, {counted(len(history.cases), 'case')}"


def mark_line(mark: Mark, history: History) -> str:
    """A change of driver or GPU: ``from session 10 of 20 on another driver, 590.44.01 instead of 580.159.04 (...)``."""
    session = history.sessions[mark.index]
    since = f"from session {mark.index + 1} of {len(history.sessions)} on another {mark.what}"
    what = f"{shortly(mark.after)} instead of {shortly(mark.before)}"
    return one_line(f"{since}, {what} ({session.taken:%Y-%m-%d %H:%M}, {commit_name(session)})")


def _counts(trend: Trend) -> str:
    """``1 SLOWER, 179 SAME``."""
    return ", ".join(f"{count} {verdict}" for verdict, count in trend.counts.items())


def _times(finding: CaseFinding) -> str:
    """``153 to 161``, in microseconds."""
    return "" if finding.older_time_us is None else f"{finding.older_time_us:.4g} to {finding.newest_time_us:.4g}"


def sparkline(values: Sequence[float]) -> str:
    """The values as bars from the least to the most of them; level where they are all but equal."""
    least, most = min(values), max(values)
    if most - least < 1e-3 * most:
        return BARS[3] * len(values)
    return "".join(BARS[round((value - least) / (most - least) * (len(BARS) - 1))] for value in values)


HISTORY_SCHEMA = 1
MOST_OPEN = 10
CHANGE_HEADINGS = ("case", "size (99 % interval)", "GPU", "cause", "where", "changed with it")
FOLDED_IN_HISTORY = UNDECIDED | {Verdict.NEW}
MOST_MARKS = 5
HISTORY_HEADINGS = ("case", "verdict", "change", "time (µs)", "recent", "where", "reason")
HISTORY_SECTIONS = (
    ("Regressions", REGRESSIONS, False),
    ("Undecided", UNDECIDED, True),
    ("Faster", frozenset({Verdict.FASTER}), False),
    ("New", frozenset({Verdict.NEW}), True),
    ("Unchanged", UNCHANGED, True),
)


def show(trend: Trend, console: Console, *, everything: bool = False) -> None:
    """Print header, marks, findings and the suite's line; only changed cases unless ``everything``."""
    terminal.line(console, header(trend.history))
    for remark in remarks(trend):
        terminal.line(console, remark, style="dim")
    listed = [each for each in trend.findings if everything or each.verdict not in UNCHANGED]
    if listed:
        console.print()
    terminal.show_rows(console, listed, FOLDED_IN_HISTORY, _details)
    for regression in trend.open[:MOST_OPEN]:
        terminal.line(
            console, f"open regression: {open_line(regression)}", style="bold red" if trend.fail_on_open else "yellow"
        )
    if (more := len(trend.open) - MOST_OPEN) > 0:
        terminal.line(console, counted(more, "more open regression"), style="yellow")
    if accepted := len(trend.regressions) - len(trend.open):
        terminal.line(console, counted(accepted, "accepted regression"), style="dim")
    console.print()
    if trend.together:
        text = Text("suite-wide: ").append_text(terminal.verdict_text(trend.together.verdict))
        console.print(text.append(f", {_reason(trend.together)}"), soft_wrap=True)
    for command in trend.commands:
        terminal.line(console, f"to settle it: {command}")


def last_line(trend: Trend, console: Console, written: Sequence[Path]) -> None:
    """Counts, verdict, and where the report was written."""
    text = Text(f"{_counts(trend)}: ").append_text(terminal.verdict_text(trend.verdict))
    console.print(text.append(f"; {', '.join(str(path) for path in written)}"), soft_wrap=True)


def markdown(trend: Trend) -> str:
    """The whole report; every text that comes from a file is escaped."""
    lines = [f"# Peakgate history: {trend.verdict}", "", f"{escape(_counts(trend))}.", ""]
    lines += [f"- {escape(header(trend.history))}"]
    if trend.together:
        lines.append(f"- suite-wide: {trend.together.verdict}, {escape(_reason(trend.together))}")
    lines += [f"- `{command}`" for command in trend.commands]
    lines += [f"- {escape(remark)}" for remark in remarks(trend)]
    lines.append("")
    if trend.regressions:
        lines += [f"## Open regressions ({len(trend.open)})", ""]
        lines += [f"- {escape(open_line(each))}" for each in trend.regressions] + [""]
    if trend.changes:
        table = markdown_table(CHANGE_HEADINGS, map(_change_cells, trend.changes))
        lines += [f"<details><summary>Change points ({len(trend.changes)})</summary>", "", *table, "</details>", ""]
    for title, verdicts, folded in HISTORY_SECTIONS:
        found = [each for each in trend.findings if each.verdict in verdicts]
        if not found:
            continue
        table = markdown_table(HISTORY_HEADINGS, map(_cells, found))
        if folded:
            lines += [f"<details><summary>{title} ({len(found)})</summary>", "", *table, "</details>", ""]
        else:
            lines += [f"## {title} ({len(found)})", "", *table]
    return "\n".join(lines)


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


def verdict_json(trend: Trend) -> str:
    """Verdict, exit code, counts, sessions, marks and every finding, worst first, with the times it was judged by."""
    document = {
        "schema": HISTORY_SCHEMA,
        "command": "history",
        "verdict": trend.verdict,
        "exit_code": int(trend.exit_code),
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
        "rows": [{"case": each.case} | _plain(each, trend.history) for each in trend.findings],
    }
    return as_json(document)


def size(change: ChangePoint) -> str:
    """``+2.10 % (1.85 to 2.35 %)``."""
    low, high = change.interval_percent
    return f"{change.percent:+.2f} % ({low:.2f} to {high:.2f} %)"


def change_record(change: ChangePoint, history: History) -> dict[str, Any]:
    """A change point as JSON has it."""
    low, high = change.interval_percent
    return {
        "case": change.case,
        "gpu": change.uuid,
        "cause": change.cause,
        "percent": change.percent,
        "interval_percent": [low, high],
        "sessions_since": change.since,
        "between": change.place.between,
        "good": _about(history.sessions[change.place.good]),
        "bad": _about(history.sessions[change.place.bad]),
        "facts": change.place.facts,
        "command": change.place.command,
    }


def open_line(regression: OpenRegression) -> str:
    """An open or accepted regression in one line: case, size, GPU, since when, between which commits, what to do."""
    change, place = regression.change, regression.change.place
    left = f", {regression.remaining_percent:.2f} % left" if regression.remaining < change.low else ""
    facts = f"; {', '.join(place.facts)}" if place.facts else ""
    word = regression.accepted
    settled = f"; accepted on {word.day}: {word.reason}" if word else f"; {place.command}" if place.command else ""
    gpu = f" on {gpu_label(change.uuid)}"
    since = f"since {counted(change.since, 'session')}, {change.cause}: {place.where}"
    return one_line(f"{change.case} {size(change)}{left}{gpu} {since}{facts}{settled}")


def _change_cells(change: ChangePoint) -> tuple[str, ...]:
    words = (gpu_label(change.uuid), change.cause, change.place.where, ", ".join(change.place.facts))
    return (code(change.case), size(change), *map(escape, words))


def remarks(trend: Trend) -> list[str]:
    """What changed besides the code, and the notes, a line each."""
    remarks = [mark_line(mark, trend.history) for mark in trend.history.marks[-MOST_MARKS:]]
    if (earlier := len(trend.history.marks) - len(remarks)) > 0:
        remarks.insert(0, f"{counted(earlier, 'earlier change')} of driver or GPU")
    if (gpus := trend.history.gpus) > 1:
        remarks.insert(0, f"{gpus} GPUs: a case is judged by the sessions of the GPU that measured it last")
    if retired := trend.history.retired:
        verb = "is" if len(retired) == 1 else "are"
        remarks.append(f"{counted(len(retired), 'case')} {verb} no longer measured: {', '.join(retired)}")
    return [one_line(remark) for remark in (*remarks, *trend.notes)]


def _reason(finding: CaseFinding) -> str:
    return one_line(f"{finding.reason}; {finding.where}" if finding.where else finding.reason)


def _details(finding: CaseFinding) -> tuple[str, ...]:
    times = () if finding.older_time_us is None else (f"{sparkline(finding.recent_us)}  {_times(finding)} µs",)
    return (*times, _reason(finding))


def _cells(finding: CaseFinding) -> tuple[str, ...]:
    return (
        code(finding.case),
        finding.verdict,
        change(finding),
        _times(finding),
        "" if finding.older_time_us is None else sparkline(finding.recent_us),
        escape(finding.where or ""),
        escape(finding.reason),
    )


def _plain(finding: CaseFinding, history: History) -> dict[str, Any]:
    record = {name: value for name, value in finding._asdict().items() if name not in {"case", "where"}}
    sessions = {
        name: None if record[name] is None else _about(history.sessions[record[name]]) for name in ("good", "bad")
    }
    return record | sessions


def _about(session: SessionFacts) -> dict[str, Any]:
    """A session as CSV and JSON have it."""
    return session._asdict() | {"taken": session.taken.isoformat()}
