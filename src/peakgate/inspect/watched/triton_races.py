"""Races between the programs of one Triton launch.

Programs of one launch run concurrently in any order, and only atomics can order them: it is a race if one program
stores to an address that another one accesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_LOOKED_AT = 10_000  # racing addresses to examine, the lowest first; the others repeat the same lines

Addresses = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class ProgramAccess:
    """The accesses of one line in one program: ``place`` is ``file.py:12``, ``program`` the index in the grid."""

    program: tuple[int, ...]
    place: str
    stores: bool
    addresses: Addresses


@dataclass(frozen=True, slots=True)
class ProgramRace:
    """Two programs race at an address: ``stored`` is the store, ``other`` the conflicting access.

    ``addresses`` is the number of addresses at which the two lines race, ``first`` the lowest.
    """

    stored: ProgramAccess
    other: ProgramAccess
    first: int
    addresses: int


def races(accesses: Sequence[ProgramAccess]) -> list[ProgramRace]:
    """One race per pair of lines, at its lowest address, sorted by address."""
    if not accesses:
        return []
    where = np.concatenate([each.addresses for each in accesses])
    who = np.repeat(np.arange(len(accesses)), [each.addresses.size for each in accesses])
    programs = {program: number for number, program in enumerate(dict.fromkeys(each.program for each in accesses))}
    program = np.array([programs[each.program] for each in accesses])[who]
    stores = np.array([each.stores for each in accesses])[who]
    order = np.lexsort((who, where))
    where, who, program, stores = where[order], who[order], program[order], stores[order]
    starts = np.flatnonzero(np.r_[True, where[1:] != where[:-1]]) if where.size else np.zeros(0, int)
    several = np.minimum.reduceat(program, starts) != np.maximum.reduceat(program, starts)
    stored = np.logical_or.reduceat(stores, starts)
    found: dict[tuple[str, str], ProgramRace] = {}
    ends = np.r_[starts[1:], where.size]
    clashing = np.flatnonzero(several & stored)[:MOST_LOOKED_AT]
    for start, end in zip(starts[clashing], ends[clashing], strict=True):
        group = [accesses[at] for at in who[start:end]]
        store = next(each for each in group if each.stores)
        other = next(each for each in group if each.program != store.program)
        key = (store.place, other.place)
        known = found.get(key)
        if known is None:
            found[key] = ProgramRace(store, other, int(where[start]), 1)
        else:
            found[key] = ProgramRace(known.stored, known.other, known.first, known.addresses + 1)
    return list(found.values())
