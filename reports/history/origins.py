"""Change points by their origin, a commit or a change of the environment, over all cases and GPUs; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from peakgate.core.report import CellLink, CellValue, Table
from peakgate.core.text import counted
from peakgate.reports.history.changes import Cause, ChangePoint
from peakgate.reports.history.chart import size, step_line, sum_lines
from peakgate.reports.history.series import History, commit_name
from peakgate.reports.runs.facts import GPU_NAMES
from peakgate.reports.runs.runfile import ENVIRONMENT

HEADINGS = ("origin", "first session", "cause", "slower", "faster", "largest", "case")


class ChangeOrigin(NamedTuple):
    """``name`` is the commit, or what else changed; ``number`` that of the first session, ``changes`` largest first."""

    name: str
    cause: Cause
    number: int
    changes: tuple[ChangePoint, ...]

    @property
    def slower(self) -> int:
        """How many cases became slower on a GPU or more."""
        return len({each.case for each in self.changes if each.log_ratio > 0})

    @property
    def faster(self) -> int:
        return len({each.case for each in self.changes if each.log_ratio < 0})


def origins(history: History, changes: Sequence[ChangePoint]) -> list[ChangeOrigin]:
    """Every origin of these change points, newest first."""
    found: dict[tuple[str, Cause], list[ChangePoint]] = {}
    for change in changes:
        of_commit = change.cause is Cause.COMMITS
        name = history.sessions[change.number].commit if of_commit else _environment(history, change)
        found.setdefault((name, change.cause), []).append(change)
    made = [
        ChangeOrigin(
            name, cause, min(each.number for each in own), tuple(sorted(own, key=lambda each: -abs(each.log_ratio)))
        )
        for (name, cause), own in found.items()
    ]
    return sorted(made, key=lambda each: -each.number)


def _environment(history: History, change: ChangePoint) -> str:
    """What changed on the GPU with the step, or only its day: ``driver 580.159.04 to 590.44.01``."""
    own = history.by_gpu[change.uuid]
    before = own[own < change.number][-1]
    old, new = (history.facts.loc[number, list(ENVIRONMENT)] for number in (before, change.number))
    facts = [
        f"{GPU_NAMES[name]} {old[name]} to {new[name]}"
        for name in ENVIRONMENT
        if old[name] is not None and new[name] is not None and old[name] != new[name]
    ]
    return ", ".join(facts) or f"no known change, {history.sessions[change.number].taken:%Y-%m-%d}"


def step_lines(history: History, changes: Sequence[ChangePoint]) -> list[str]:
    """The change points of a case, newest first: a line per origin, and what they add up to on each GPU."""
    lines = []
    for origin in origins(history, changes):
        own = origin.changes
        if len(own) == 1:
            lines.append(step_line(own[0], history))
            continue
        sizes = [each.change_percent for each in own]
        spread = f"{min(sizes):+.2f} to {max(sizes):+.2f} %"
        lines.append(
            f"{spread} on {counted(len({each.uuid for each in own}), 'GPU')}, {origin.cause}, {origin.name[:60]}"
        )
    return [*sum_lines(changes, history), *lines]


def table(history: History, found: Sequence[ChangeOrigin], pages: Sequence[str] | None = None) -> Table:
    """A row per origin; ``pages`` are the addresses of their pages, empty where there is none."""
    rows: list[list[CellValue]] = []
    for place, each in enumerate(found):
        session, largest = history.sessions[each.number], each.changes[0]
        name = commit_name(session) if each.cause is Cause.COMMITS else each.name
        shown = CellLink(name, pages[place]) if pages and pages[place] else name
        first = f"{session.taken:%Y-%m-%d %H:%M}"
        rows.append([shown, first, each.cause, each.slower, each.faster, size(largest), largest.case])
    return Table(f"Commits and environments that moved a case ({len(found)})", HEADINGS, rows, folded=True)
