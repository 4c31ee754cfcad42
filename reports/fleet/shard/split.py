"""Spread the cases of a tier over equal GPUs, with common cases that all of them measure. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from peakgate.reports.fleet.shard.tier import Expected

COMMON, COMMON_SHARE = 24, 0.1
"""About so many cases are measured on every GPU, of a small tier this share."""

FEWEST_COMMON = 4
"""Of each group, where it has as many."""

LONGEST_COMMON_S = 0.2
"""A case that takes longer is not measured on every GPU where there are enough others."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Which cases each GPU measures, by uuid: its own, and the ``common`` ones of all, in that order."""

    common: tuple[str, ...]
    own: dict[str, tuple[str, ...]]

    def of(self, uuid: str) -> tuple[str, ...]:
        """The cases of one GPU."""
        return (*self.common, *self.own[uuid])

    @property
    def cases(self) -> tuple[str, ...]:
        """Every case, once."""
        return (*self.common, *(case for cases in self.own.values() for case in cases))


def split(cases: Sequence[Expected], uuids: Sequence[str]) -> Shares:
    """Shares of about the same expected time: the longest case first, each to the GPU with the least so far."""
    common = _common(cases)
    left = sorted((each for each in cases if each.case not in common), key=lambda each: (-each.seconds, each.case))
    own: dict[str, list[str]] = {uuid: [] for uuid in uuids}
    loads = [(0.0, at) for at in range(len(uuids))]
    for each in left:
        seconds, at = heapq.heappop(loads)
        own[uuids[at]].append(each.case)
        heapq.heappush(loads, (seconds + each.seconds, at))
    return Shares(common, {uuid: tuple(chosen) for uuid, chosen in own.items()})


def _common(cases: Sequence[Expected]) -> tuple[str, ...]:
    """Cases of every group (memory, compute, link), evenly over the names of its cheaper ones."""
    wanted = min(COMMON, round(COMMON_SHARE * len(cases)))
    chosen: list[str] = []
    for group in sorted({str(each.bound) for each in cases}):
        members = [each for each in cases if str(each.bound) == group]
        names = sorted(each.case for each in members if each.seconds <= LONGEST_COMMON_S) or [
            each.case for each in members
        ]
        count = min(max(FEWEST_COMMON, round(wanted * len(members) / len(cases))), len(names))
        chosen += [names[(2 * place + 1) * len(names) // (2 * count)] for place in range(count)]
    return tuple(chosen)
