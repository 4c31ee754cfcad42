"""What made cases slower: the open regressions that one commit, or one change of the environment, explains; pure.

Each regression is known to lie between two sessions. Those of one GPU and cause that share a place are one event, so
that a driver upgrade is one line, however many cases it made slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peakgate.core.text import counted, one_line
from peakgate.reports.history.changes import OpenRegression
from peakgate.reports.history.chart import size
from peakgate.reports.runs.facts import gpu_label


@dataclass(frozen=True, slots=True)
class Event:
    """Regressions of one GPU and one cause that happened at one place, the largest first."""

    regressions: tuple[OpenRegression, ...]

    @property
    def accepted(self) -> bool:
        return self.regressions[0].accepted is not None

    @property
    def narrowest(self) -> OpenRegression:
        """The regression whose place is known best."""
        return min(self.regressions, key=lambda each: each.change.place.bad - each.change.place.good)

    def line(self, dropped: Iterable[str] = ()) -> str:
        """The event in one line: cases, size, GPU, since when, between which commits, what to do."""
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
        return one_line(f"{cases} on {gpu_label(change.uuid)} {since}{facts}{settled}{missing}")


def events(regressions: Sequence[OpenRegression]) -> tuple[Event, ...]:
    """The regressions by what made them: as few places as all of them allow; accepted ones last, then by size."""
    found: list[list[OpenRegression]] = []
    reached: dict[tuple[object, ...], int] = {}
    for each in sorted(regressions, key=lambda each: each.change.place.bad):
        place = each.change.place
        key = each.change.uuid, each.change.cause, None if each.accepted is None else each.accepted.case
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
