"""A history as terminal, Markdown, CSV and JSON; none of them decides anything."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peakgate.common.text import cell
from peakgate.reports.history import words
from peakgate.reports.history.detect import Finding
from peakgate.reports.history.session import Session
from peakgate.reports.history.words import Told
from peakgate.reports.render.markdown import code, escape
from peakgate.reports.render.words import UNCHANGED, one_line
from peakgate.verdict import REGRESSIONS, UNDECIDED, Verdict
from rich.console import Console
from rich.text import Text

SCHEMA = 1
FOLDED = UNDECIDED | {Verdict.NEW}
MOST_ALIKE = 5
MOST_MARKS = 5
CHANGE_WIDTH = len("10.00x slower") + 2
VERDICT_WIDTH = max(len(verdict) for verdict in Verdict) + 2
ABOUT = ("taken", "commit", "dirty", "driver", "uuid", "tier", "whole", "path")
HEADINGS = ("case", "verdict", "change", "time (µs)", "recent", "where", "reason")
SECTIONS = (
    ("Regressions", REGRESSIONS, False),
    ("Undecided", UNDECIDED, True),
    ("Faster", frozenset({Verdict.FASTER}), False),
    ("New", frozenset({Verdict.NEW}), True),
    ("Unchanged", UNCHANGED, True),
)


def show(told: Told, console: Console, *, everything: bool = False) -> None:
    """Print header, marks, findings and the suite's line; only changed cases unless ``everything``."""
    _line(console, words.header(told.history))
    for remark in _remarks(told):
        _line(console, remark, style="dim")
    listed = [finding for finding in told.findings if everything or finding.verdict not in UNCHANGED]
    if listed:
        console.print()
    for alike in _alike(listed):
        if len(alike) > MOST_ALIKE:
            _folded(console, alike)
            continue
        for finding in alike:
            _finding(console, finding)
    console.print()
    if told.together:
        text = Text("suite-wide: ").append(told.together.verdict, _style(told.together.verdict))
        console.print(text.append(f", {_reason(told.together)}"), soft_wrap=True)
    for command in words.commands(told):
        _line(console, f"to settle it: {command}")


def last_line(told: Told, console: Console, written: Sequence[Path]) -> None:
    """Counts, verdict, and where the report lies."""
    text = Text(f"{words.counts(told)}: ").append(told.verdict, _style(told.verdict))
    console.print(text.append(f"; {', '.join(str(path) for path in written)}"), soft_wrap=True)


def markdown(told: Told) -> str:
    """The whole report; every text that comes from a file is escaped."""
    lines = [f"# Peakgate history: {told.verdict}", "", f"{escape(words.counts(told))}.", ""]
    lines += [f"- {escape(words.header(told.history))}"]
    if told.together:
        lines.append(f"- suite-wide: {told.together.verdict}, {escape(_reason(told.together))}")
    lines += [f"- `{command}`" for command in words.commands(told)]
    lines += [f"- {escape(remark)}" for remark in _remarks(told)]
    lines.append("")
    for title, verdicts, folded in SECTIONS:
        found = [finding for finding in told.findings if finding.verdict in verdicts]
        if not found:
            continue
        table = [_row(HEADINGS), _row(["---"] * len(HEADINGS)), *(_row(_cells(finding)) for finding in found), ""]
        if folded:
            lines += [f"<details><summary>{title} ({len(found)})</summary>", "", *table, "</details>", ""]
        else:
            lines += [f"## {title} ({len(found)})", "", *table]
    return "\n".join(lines)


def series_csv(told: Told) -> str:
    """One row a session, oldest first, with the median in microseconds of every case that it has, a column each."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*ABOUT, *(cell(f"{case} time_us") for case in told.history.cases)))
    for session in told.history.sessions:
        times = map(session.times_us.get, told.history.cases)
        about = _about(session)
        writer.writerow(
            [*(cell(about[name]) for name in ABOUT), *("" if time is None else f"{time:.8g}" for time in times)]
        )
    return text.getvalue()


def verdict_json(told: Told) -> str:
    """Verdict, exit code, counts, sessions, marks and every finding, worst first, with the times it was judged by."""
    document = {
        "schema": SCHEMA,
        "command": "history",
        "verdict": told.verdict,
        "exit_code": int(told.exit_code),
        "gpu": told.history.slug,
        "counts": told.counts,
        "suite_wide": _plain(told.together) if told.together else None,
        "commands": words.commands(told),
        "sessions": [_about(session) for session in told.history.sessions],
        "marks": [asdict(mark) for mark in told.history.marks],
        "retired": list(told.history.retired),
        "notes": list(told.notes),
        "rows": [{"case": finding.case} | _plain(finding) for finding in told.findings],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _remarks(told: Told) -> list[str]:
    remarks = [words.mark(mark, told.history) for mark in told.history.marks[-MOST_MARKS:]]
    if (earlier := len(told.history.marks) - len(remarks)) > 0:
        remarks.insert(0, f"{earlier} earlier changes of driver or chip")
    if several := words.chips(told.history):
        remarks.insert(0, several)
    if told.history.retired:
        remarks.append(f"{len(told.history.retired)} cases are no longer measured: {', '.join(told.history.retired)}")
    return [one_line(remark) for remark in (*remarks, *told.notes)]


def _reason(finding: Finding) -> str:
    where = f"; {words.step(finding.step)}" if finding.step else ""
    return one_line(finding.judgement.reason + where)


def _alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of FOLDED verdicts that give one reason, together; each other by itself."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        key = (finding.verdict, finding.judgement.reason if finding.verdict in FOLDED else finding.case)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def _folded(console: Console, alike: Sequence[Finding]) -> None:
    head = Text(f"{alike[0].verdict:<{VERDICT_WIDTH}}", _style(alike[0].verdict))
    console.print(head.append(f"{len(alike)} cases, {one_line(alike[0].case)} the first"), soft_wrap=True)
    _line(console, f"    {alike[0].judgement.reason}", style="dim")


def _finding(console: Console, finding: Finding) -> None:
    """The id stays whole on its line, however long, so that it can be searched for; the reason wraps below it."""
    head = Text(f"{finding.verdict:<{VERDICT_WIDTH}}", _style(finding.verdict))
    head.append(f"{_change(finding):<{CHANGE_WIDTH}}").append(one_line(finding.case), "bold")
    console.print(head, soft_wrap=True)
    if finding.shift:
        _line(console, f"    {words.sparkline(finding.recent_us)}  {words.times(finding)} µs")
    _line(console, f"    {_reason(finding)}", style="dim")


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(one_line(text), style), soft_wrap=True)


def _style(verdict: Verdict) -> str:
    if verdict in REGRESSIONS:
        return "bold red"
    return "yellow" if verdict in UNDECIDED else "green"


def _change(finding: Finding) -> str:
    return str(finding.shift) if finding.shift else ""


def _cells(finding: Finding) -> tuple[str, ...]:
    return (
        code(finding.case),
        finding.verdict,
        _change(finding),
        words.times(finding),
        words.sparkline(finding.recent_us) if finding.shift else "",
        escape(words.step(finding.step)) if finding.step else "",
        escape(finding.judgement.reason),
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(finding: Finding) -> dict[str, Any]:
    shift, step = finding.shift, finding.step
    return {
        "verdict": finding.verdict,
        "reason": finding.judgement.reason,
        "older_time_us": finding.older_us,
        "newest_time_us": finding.newest_us,
        "change_percent": shift.percent if shift else None,
        "smallest_detectable_change_percent": shift.resolvable_percent if shift else None,
        "p_value": shift.p_value if shift else None,
        "good": _about(step.before) if step else None,
        "bad": _about(step.after) if step else None,
        "command": step.command if step else None,
        "recent_us": list(finding.recent_us),
    }


def _about(session: Session) -> dict[str, Any]:
    """What is known of a session besides its times, in the order of ``ABOUT``."""
    return {name: getattr(session, name) for name in ABOUT} | {"taken": session.taken.isoformat()}
