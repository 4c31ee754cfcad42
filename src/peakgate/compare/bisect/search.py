"""The search: which group of commits brought the change, from A/B pairs that a function measures.

Adjacent commits that cannot differ are a group.

1. The ends are compared as ``ab`` compares two commits. Where they do not differ, no commit is the cause.
2. Groups between are measured against GOOD, a few pairs at a time, where the posterior of a change point is halved,
   until one border has it almost all.
3. The two groups at that border are compared directly, with fresh pairs, again as ``ab`` does. Only where that flags
   the change as well is the commit named.

Half of the allowed error is the posterior's, the other half is left to what its model lacks: noise that is not normal,
and changes in several steps. A group that is clearly between GOOD and BAD becomes the new end: the search goes on for
the oldest part of the change.

Every pair is ln(time at a group / time at GOOD). Under the hypothesis that the change came with group k, pairs at
groups before k have mean 0, and pairs from k on have one common mean, the change. Both that mean and the variance of a
pair are unknown and integrated out (flat prior for the mean, 1 / variance for the variance); before measuring every k
is as likely as any other: A. F. M. Smith, A Bayesian approach to inference about a change-point in a sequence of random
variables, Biometrika 62 (1975). Measuring next at the posterior's median is Horstein's rule (IEEE Transactions on
Information Theory 9, 1963); R. Waeber, P. I. Frazier and S. G. Henderson, Bisection search with noisy responses, SIAM
Journal on Control and Optimization 51 (2013), for its convergence.

The posterior is valid under optional stopping. So stopping where one k has 1 - e leaves at most a share e
of whole bisects wrong, however many steps they take, and no step needs a share of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import SimpleNamespace

import numpy as np

from peakgate.compare.ab.decide import CaseStatus, decide, estimates, half_width
from peakgate.compare.ab.schedule import looks
from peakgate.runfile.frame import records
from peakgate.spec.contract import Contract


@dataclass(frozen=True, slots=True)
class BuiltCommit:
    """One commit with what it builds: its cases, or the reason why they cannot be had."""

    commit: str
    subject: str
    cases: Mapping[str, Contract]
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
    identity: Contract

    @property
    def first(self) -> int:
        return self.places[0]


def groups(history: Sequence[BuiltCommit], case: str) -> list[Group]:
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


LEAST_SD = 1e-5
"""Pairs that agree better than this, 0.001 %, are not taken for that exact."""


def posterior(pairs: Mapping[int, Sequence[float]], candidates: Sequence[int]) -> dict[int, float]:
    """The probability of each candidate group that the change came with it.

    ``pairs`` by group; some must be at or after the last candidate, the end that is known to differ.
    """
    logs = np.array([_log_likelihood(pairs, candidate) for candidate in candidates])
    weights = np.exp(logs - logs.max())
    return dict(zip(candidates, (weights / weights.sum()).tolist(), strict=True))


def halving(beliefs: Mapping[int, float], usable: Sequence[int]) -> int:
    """The usable group whose measurement splits the posterior most evenly; the older of two that do it alike."""

    def imbalance(group: int) -> float:
        before = sum(probability for candidate, probability in beliefs.items() if candidate <= group)
        return abs(before - 0.5)

    return min(usable, key=lambda group: (round(imbalance(group), 9), group))


def _log_likelihood(pairs: Mapping[int, Sequence[float]], candidate: int) -> float:
    before = np.array([value for group, values in pairs.items() if group < candidate for value in values])
    after = np.array([value for group, values in pairs.items() if group >= candidate for value in values])
    count = len(before) + len(after)
    squares = float((before**2).sum() + ((after - after.mean()) ** 2).sum())
    squares = max(squares, count * LEAST_SD**2)
    return -0.5 * math.log(len(after)) - 0.5 * (count - 1) * math.log(squares)


BETWEEN_TAIL = 0.0005
"""The one-sided error of taking a group for one between GOOD and BAD: 0.1 % for both sides."""

FEWEST_TO_BE_BETWEEN = 8


class Unusable(Exception):
    """A group that cannot be measured, wrong results for instance; the message says why."""


Pairs = Callable[[int, int, int], Sequence[float]]
"""Of base, head and a count: ln(head / base) of so many fresh pairs; Unusable where head cannot be measured."""


class End(StrEnum):
    """How a bisect ends."""

    FOUND = "found"
    SAME = "same"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Effort:
    """How sure the answer has to be, and how many pairs that may take.

    ``error``: the share of whole bisects that may name a wrong commit. ``screen`` and ``confirm``: pairs of a
    comparison of two groups, as of ``ab``. ``batch``: pairs at a time between the ends, an even number. ``most``: at
    one group.
    """

    error: float = 0.05
    screen: int = 10
    confirm: int = 20
    batch: int = 4
    most: int = 40


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """Outcome of a search. Groups are numbered from 0, GOOD's.

    ``group`` brought the change, against ``before``; ``candidates`` are the groups that may have, with their
    probability. ``ends`` and ``border`` are what the comparisons of the ends, and of ``before`` with ``group``, gave.
    ``between`` are groups between GOOD and BAD, so that the change has more than one part.
    """

    end: End
    ends: SimpleNamespace
    reason: str
    group: int | None = None
    before: int | None = None
    border: SimpleNamespace | None = None
    candidates: tuple[tuple[int, float], ...] = ()
    unusable: tuple[tuple[int, str], ...] = ()
    between: tuple[int, ...] = ()


def search(last: int, pairs: Pairs, effort: Effort, note: Callable[[str], object] = str) -> SearchOutcome:
    """Find the group, of 1 to ``last``, that brought the change between group 0 and group ``last``.

    Unusable where an end cannot be measured.
    """
    note("comparing the ends")
    ends, values = compare(pairs, 0, last, effort)
    if ends.status == CaseStatus.OPEN:
        return SearchOutcome(End.UNDECIDED, ends, "the ends are suspected to differ, more pairs would decide")
    if ends.status != CaseStatus.FLAGGED:
        return SearchOutcome(End.SAME, ends, "the ends do not differ by more than can be resolved")
    state = _State(last, {last: list(values)}, {}, [])
    undecided = _narrow(state, pairs, effort, note)
    candidates = tuple(sorted(state.beliefs().items(), key=lambda item: -item[1]))
    found = SearchOutcome(
        *(End.UNDECIDED, ends, undecided or ""),
        candidates=candidates,
        unusable=tuple(state.unusable.items()),
        between=tuple(state.between),
    )
    if undecided:
        return found
    group = candidates[0][0]
    before = max(each for each in range(group) if each not in state.unusable)
    border = ends
    if (before, group) != (0, last):
        note("comparing both sides of the border")
        border, _ = compare(pairs, before, group, effort)
    if border.status == CaseStatus.FLAGGED and border.direction == ends.direction:
        return replace(found, end=End.FOUND, group=group, before=before, border=border)
    why = "the two sides of the likeliest border, compared directly, are not flagged"
    return replace(found, reason=why, before=before, border=border)


def compare(pairs: Pairs, base: int, head: int, effort: Effort) -> tuple[SimpleNamespace, list[float]]:
    """Compare two groups by the rule of ``ab``; the decision, and all pairs."""
    planned = looks(effort.confirm)
    screened, confirmed = list(pairs(base, head, effort.screen)), list[float]()
    for look in planned:
        decision = _decided(screened, confirmed, effort)
        if decision.status != CaseStatus.OPEN:
            break
        confirmed += pairs(base, head, look.pairs - len(confirmed))
    return _decided(screened, confirmed, effort), [*screened, *confirmed]


def _decided(screened: Sequence[float], confirmed: Sequence[float], effort: Effort) -> SimpleNamespace:
    screen, confirm = (np.array(values, dtype=np.float64).reshape(1, -1) for values in (screened, confirmed))
    (decision,) = records(decide(screen, confirm, np.zeros(1), looks(effort.confirm), [True]))
    return decision


@dataclass
class _State:
    """A search between the ends: the group that ends it, pairs against GOOD by group, and what was set aside."""

    last: int
    pairs: dict[int, list[float]]
    unusable: dict[int, str]
    between: list[int]

    def candidates(self) -> list[int]:
        return [group for group in range(1, self.last + 1) if group not in self.unusable]

    def beliefs(self) -> dict[int, float]:
        return posterior({group: self.pairs[group] for group in self.pairs if group <= self.last}, self.candidates())

    def is_between(self, group: int) -> bool:
        """Whether a group clearly differs from GOOD and from the end."""
        if len(self.pairs[group]) < FEWEST_TO_BE_BETWEEN:
            return False
        here, end = _estimated(self.pairs[group]), _estimated(self.pairs[self.last])
        direction = 1 if end.mean_log_ratio > 0 else -1
        from_good = direction * here.mean_log_ratio - half_width(here, BETWEEN_TAIL)
        widths = half_width(here, BETWEEN_TAIL) + half_width(end, BETWEEN_TAIL)
        to_end = direction * (end.mean_log_ratio - here.mean_log_ratio) - widths
        return bool(from_good > 0 and to_end > 0)


def _narrow(state: _State, pairs: Pairs, effort: Effort, note: Callable[[str], object]) -> str | None:
    """Measure between the ends until one border is sure enough; else the reason why that was not reached."""
    while True:
        candidates, beliefs = state.candidates(), state.beliefs()
        if len(candidates) == 1 or max(beliefs.values()) >= 1 - effort.error / 2:
            return None
        group = halving(beliefs, candidates[:-1])
        measured = state.pairs.setdefault(group, [])
        if len(measured) >= effort.most:
            return f"{effort.most} pairs at one commit do not decide on which side of it the change is"
        note(f"{sum(belief > effort.error / 10 for belief in beliefs.values())} borders left")
        try:
            measured += pairs(0, group, effort.batch)
        except Unusable as reason:
            state.unusable[group] = str(reason)
            del state.pairs[group]
            continue
        if state.is_between(group):
            state.between.append(group)
            state.last = group


def _estimated(values: Sequence[float]) -> SimpleNamespace:
    (found,) = records(estimates(np.array(values, dtype=np.float64).reshape(1, -1), np.zeros(1)))
    return found
