"""What moves many cases at once: a share of every time, and a time that every launch takes longer; pure.

In each session the cases' log times less their usual ones are a share common to all of them and a number of
microseconds, which short kernels show most: a robust regression on 1 and 1 / time (Huber 1981). Both are series of
their own, searched like a case's. A host that adds half a microsecond, a slow drift or a season is found there, once,
and taken out of the cases before they are searched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peakgate.compare import noise
from peakgate.compare.history import scan
from peakgate.compare.history.columns import SHORTEST, Series
from peakgate.compare.history.hampel import gpu_levels, packed, row_medians
from peakgate.compare.history.levels import Levels, levels
from peakgate.compare.judge import FEWEST_CASES_FOR_SUITE
from peakgate.compare.noise import Bools, Floats, Positions

HUBER, BISQUARE = 1.345, 4.685
"""SDs from which a case's weight falls, at first, and at which it is none, at last: 95 % efficient for normal noise
(Huber 1981; Beaton and Tukey 1974)."""

ITERATIONS = 20

SHARED, ALONG = 0.75, 0.25
"""A step is the suite's where so many of the cases that would show it moved with it by so much of it; else theirs."""

MOST_INFLUENCE = 0.1
"""Share of what is known of the microseconds that one case decides (Mallows): no few short kernels make a host."""


class Shared(NamedTuple):
    """``share`` (log) and ``per_launch_us``, their levels and what of them is to be taken out of the cases.

    ``per_launch_us`` has what too few cases show to be taken out, too.
    """

    share: Floats
    per_launch_us: Floats
    suite: Levels | None
    launch: Levels | None
    removed: Floats
    events: Bools


def shared(log_time: Floats, gpus: Positions, known: Bools) -> Shared:
    """What the cases (case, session) have in common; nothing of too few."""
    nothing = np.zeros(log_time.shape[1])
    none = Shared(nothing, nothing, None, None, np.zeros_like(log_time), known[:0])
    there = np.isfinite(log_time)
    usual = there.mean(axis=1) > 0.5
    if usual.sum() < FEWEST_CASES_FOR_SUITE:
        return none
    enough = there[usual].mean(axis=0) > 0.5
    if enough.sum() < 2 * SHORTEST:
        return none
    share, per_launch, faint, shortness, error = _common(log_time, gpus)
    share, per_launch = (np.where(enough, each, np.nan) for each in (share, per_launch))
    (suite,), (launch,) = (scan.cases(Series(each[None], gpus, known)) for each in (share, per_launch))
    if suite is None or launch is None:
        return none
    of_suite, of_launch = levels(suite, 1), levels(launch, 1)
    levelled = log_time - gpu_levels(log_time, gpus)
    kept_share, of_all = _retained(of_suite, known, levelled, np.ones_like(shortness))
    kept_launch, hosts = _retained(of_launch, known, levelled, shortness)
    removed = (
        _certain(share - kept_share, gpus, error[0]) + _certain(per_launch - kept_launch, gpus, error[1]) * shortness
    )
    events = np.array([*of_all, *hosts], dtype=bool).reshape(-1, len(nothing))
    return Shared(share, faint, of_suite, of_launch, removed, events)


def _certain(series: Floats, gpus: Positions, error: Floats) -> Floats:
    """What of a common series is no estimation error: drawn toward its GPUs' means as far as that explains (Stein)."""
    off = np.nan_to_num(series - _means(series, gpus))
    variance = float(np.mean(off**2))
    return off * max(0.0, 1 - float(np.mean(error)) / variance) if variance else off


def _means(series: Floats, gpus: Positions) -> Floats:
    found = np.zeros_like(series)
    for gpu in set(gpus.tolist()):
        own = series[gpus == gpu]
        found[gpus == gpu] = own[np.isfinite(own)].mean() if np.isfinite(own).any() else 0.0
    return found


def _common(log_time: Floats, gpus: Positions) -> tuple[Floats, Floats, Floats, Floats, tuple[Floats, Floats]]:
    """The share and the microseconds of each session, one over each case's time as a column, and both's variances.

    The microseconds twice: 0 where few cases show them, and as they are.
    """
    usual = row_medians(log_time)[:, None]
    off = log_time - usual
    for gpu in set(gpus.tolist()):
        own = np.flatnonzero(gpus == gpu)
        if len(own) >= SHORTEST:
            off[:, own] -= row_medians(off[:, own])[:, None]
    shortness = np.exp(-usual)
    differences = row_medians(np.abs(np.diff(packed(off), axis=1)))[:, None]
    sd = np.maximum(noise.MAD_TO_SD * differences / np.sqrt(2), noise.CASE_SD_FLOOR)
    there = np.isfinite(off)
    alone = row_medians(off.T)
    off = np.where(there, off, 0.0)
    known = (shortness / sd) ** 2
    most = known.sum()
    for _ in range(ITERATIONS):
        most = MOST_INFLUENCE * np.minimum(known, most).sum()
    bounded = np.minimum(1.0, most / known) if len(known) * MOST_INFLUENCE > 1 else 1.0
    share = alone
    per_launch = np.zeros_like(share)
    for iteration in range(ITERATIONS):
        left = np.abs(off - share - per_launch * shortness) / sd
        huber, bisquare = (
            np.minimum(1.0, HUBER / np.maximum(left, 1e-9)),
            np.maximum(0.0, 1 - (left / BISQUARE) ** 2) ** 2,
        )
        weight = there * bounded / sd**2 * (huber if iteration < ITERATIONS / 2 else bisquare)
        one, cross = weight.sum(axis=0), (weight * shortness).sum(axis=0)
        square = (weight * shortness**2).sum(axis=0) + noise.PROCESS_OFFSET_US**-2
        first, second = (weight * off).sum(axis=0), (weight * off * shortness).sum(axis=0)
        determinant = np.maximum(one * square - cross**2, 1e-9)
        share, per_launch = (
            (first * square - second * cross) / determinant,
            (one * second - cross * first) / determinant,
        )
    expected = per_launch * shortness
    shows = there & (np.abs(expected) > 2 * sd)
    along = shows & ((off - share) / np.where(shows, expected, 1.0) > ALONG)
    few = shows.any(axis=0) & (
        (shows.sum(axis=0) < MOST_INFLUENCE * len(off)) | (along.sum(axis=0) < SHARED * shows.sum(axis=0))
    )
    errors = square / determinant, one / determinant
    return np.where(few, alone, share), np.where(few, 0.0, per_launch), per_launch, shortness, errors


def _retained(found: Levels, known: Bools, log_time: Floats, by: Floats) -> tuple[Floats, list[Bools]]:
    """What of a common series stays in the cases, session by session, and where the rest of its steps are.

    A known change of the environment stays, and so does a step that only some of the cases made; ``by`` times a shift
    is what each case should have moved.
    """
    kept = np.zeros(log_time.shape[1])
    events = []
    numbers = np.arange(log_time.shape[1])
    borders = [0, *(int(found.at[each.column.start]) for each in found.changes if each.column.is_cut), len(numbers)]
    for number, shift in enumerate(found.known_shifts(len(known))):
        kept += shift * known[number]
    for change in found.changes:
        if change.column.is_cut:
            cut = int(found.at[change.column.start])
            place = borders.index(cut)
            before, after = log_time[:, borders[place - 1] : cut], log_time[:, cut : borders[place + 1]]
            if _is_shared(before, after, change.shift * by[:, 0]):
                events.append(numbers >= cut)
            else:
                kept += change.shift * (numbers >= cut)
    return kept, events


def _is_shared(before: Floats, after: Floats, expected: Floats) -> bool:
    """Whether most of the cases that should show a step moved with it."""
    there = np.isfinite(before).any(axis=1) & np.isfinite(after).any(axis=1)
    old, new = before[there], after[there]
    moved = row_medians(new) - row_medians(old)
    sd = noise.MAD_TO_SD * row_medians(np.abs(old - row_medians(old)[:, None]))
    error = np.maximum(sd, noise.CASE_SD_FLOOR) * np.sqrt(1 / old.shape[1] + 1 / new.shape[1])
    shows = np.abs(expected[there]) > 2 * error
    return bool(np.mean((moved / expected[there])[shows] > ALONG) >= SHARED) if shows.any() else True
