"""What moved cases, in words: the change points that one commit, or change of the environment, explains; pure.

An origin has the change points of all cases that begin with it. Each open regression is known to lie between two
sessions only: those of one cause that share a place are one event, so that a driver upgrade is one line, however many
cases it made slower.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from peakgate.base.report import CellLink, CellValue, Table
from peakgate.base.text import counted, one_line
from peakgate.compare.history.changes import Cause, ChangePoint
from peakgate.compare.history.regressions import OpenRegression
from peakgate.compare.history.series import History, Mark, commit_name
from peakgate.runfile.frame import GPU_NAMES, shortly
from peakgate.runfile.schema import ENVIRONMENT

ORIGIN_HEADINGS = ("origin", "first session", "cause", "slower", "faster", "largest", "case")


def mark_line(mark: Mark, history: History) -> str:
    """A change of environment or GPU: ``from session 10 of 20 on another driver, 590.44.01 instead of 580.159.04``."""
    session = history.sessions[mark.index]
    since = f"from session {mark.index + 1} of {len(history.sessions)} on another {GPU_NAMES.get(mark.what, mark.what)}"
    what = f"{shortly(mark.after)} instead of {shortly(mark.before)}"
    return one_line(f"{since}, {what} ({session.taken:%Y-%m-%d %H:%M}, {commit_name(session)})")


def size(change: ChangePoint) -> str:
    """``+2.10 % (1.85 to 2.35 %)``."""
    low, high = change.interval_percent
    return f"{change.change_percent:+.2f} % ({low:.2f} to {high:.2f} %)"


def step_line(change: ChangePoint) -> str:
    """A change point in words: size, cause, place and what changed with it."""
    facts = f": {', '.join(change.place.facts)}" if change.place.facts else ""
    return f"{size(change)}, {change.cause}, {change.place.where}{facts}"


def sum_lines(changes: Sequence[ChangePoint]) -> list[str]:
    """What the steps of a case add up to where there are several."""
    if len(changes) < 2:
        return []
    together = sum(each.log_ratio for each in changes)
    return [f"{100 * math.expm1(together):+.2f} % together: {counted(len(changes), 'step')}"]


class ChangeOrigin(NamedTuple):
    """``name`` is the commit, or what else changed; ``number`` that of the first session, ``changes`` largest first."""

    name: str
    cause: Cause
    number: int
    changes: tuple[ChangePoint, ...]

    @property
    def slower(self) -> int:
        """How many cases became slower."""
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
    """What of the environment changed with the step, or only its day: ``driver 580.159.04 to 590.44.01``."""
    facts = [fact for fact in change.place.facts if fact.startswith(tuple(GPU_NAMES[name] for name in ENVIRONMENT))]
    what = "drift" if change.cause is Cause.DRIFT else "no known change"
    return ", ".join(facts) or f"{what}, {history.sessions[change.number].taken:%Y-%m-%d}"


def step_lines(changes: Sequence[ChangePoint]) -> list[str]:
    """The change points of a case, newest first, and what they add up to."""
    return [*sum_lines(changes), *map(step_line, changes)]


def origins_table(history: History, found: Sequence[ChangeOrigin], pages: Sequence[str] | None = None) -> Table:
    """A row per origin; ``pages`` are the addresses of their pages, empty where there is none."""
    rows: list[list[CellValue]] = []
    for place, each in enumerate(found):
        session, largest = history.sessions[each.number], each.changes[0]
        name = commit_name(session) if each.cause is Cause.COMMITS else each.name
        shown = CellLink(name, pages[place]) if pages and pages[place] else name
        first = f"{session.taken:%Y-%m-%d %H:%M}"
        rows.append([shown, first, each.cause, each.slower, each.faster, size(largest), largest.case])
    return Table(f"Commits and environments that moved a case ({len(found)})", ORIGIN_HEADINGS, rows, folded=True)


@dataclass(frozen=True, slots=True)
class Event:
    """Regressions of one cause that happened at one place, the largest first."""

    regressions: tuple[OpenRegression, ...]

    @property
    def accepted(self) -> bool:
        return self.regressions[0].accepted is not None

    @property
    def narrowest(self) -> OpenRegression:
        """The regression whose place is known best."""
        return min(self.regressions, key=lambda each: each.change.place.bad - each.change.place.good)

    def line(self, dropped: Iterable[str] = ()) -> str:
        """The event in one line: cases, size, since when, between which commits, what to do."""
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
    """The regressions by what made them: as few places as all of them allow; accepted ones last, then by size."""
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
    ordered = [Event(tuple(sorted(each, key=_size))) for each in found]
    return tuple(sorted(ordered, key=lambda event: (event.accepted, *_size(event.regressions[0]))))


def _size(each: OpenRegression) -> tuple[float, str]:
    return -each.remaining, each.change.case
