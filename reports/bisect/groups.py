"""Commits in order, and the groups of adjacent ones that cannot differ; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from peakgate.reports.ab.code import Identity


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit with what it builds: its cases, or the reason why they cannot be had."""

    commit: str
    subject: str
    cases: Mapping[str, Identity]
    problem: str | None = None

    def problem_of(self, case: str) -> str | None:
        """Why this commit has nothing to measure for the case; None where it has."""
        if self.problem is not None:
            return self.problem
        if case not in self.cases:
            return "has no such case"
        return None if self.cases[case].builds else "does not build"


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent commits whose machine code and launch are equal, as places in the history, oldest first.

    ``since`` is the first commit that may have brought this code: the group's first, or an older one that has nothing
    to measure and directly precedes it.
    """

    places: tuple[int, ...]
    since: int
    identity: Identity

    @property
    def first(self) -> int:
        return self.places[0]


def groups(history: Sequence[Commit], case: str) -> list[Group]:
    """The groups of one case, oldest first; commits with nothing to measure are in none."""
    found: list[Group] = []
    since = 0
    for place, commit in enumerate(history):
        if commit.problem_of(case) is not None:
            continue
        identity = commit.cases[case]
        if found and identity.surely_equals(found[-1].identity):
            found[-1] = Group((*found[-1].places, place), found[-1].since, identity)
        else:
            found.append(Group((place,), since, identity))
        since = place + 1
    return found


def narrowed(found: Sequence[Group]) -> list[Group]:
    """The groups between which the change must be: from the last with GOOD's code to the next with BAD's.

    A change that was made, reverted and made again is looked for where it was made last. One group, GOOD's, where both
    ends are surely equal.
    """
    good, bad = found[0].identity, found[-1].identity
    if good.surely_equals(bad):
        return [found[0]]
    start = max(at for at, group in enumerate(found) if at == 0 or group.identity.surely_equals(good))
    end = min(
        at
        for at, group in enumerate(found)
        if at > start and (at == len(found) - 1 or group.identity.surely_equals(bad))
    )
    return list(found[start : end + 1])
