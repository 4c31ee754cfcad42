"""Estimates the shifts that many cases of a history share in a session, and removes them from each case; pure.

In each session, the cases' deviations from their usual log times are modelled as a relative shift common to all and a
number of microseconds per launch, by robust regression on 1 and 1 / time (Huber 1981). Both series are searched for
steps like a case's: a host that adds half a microsecond, a slow drift or a season is reported once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from peakgate.compare import noise
from peakgate.compare.history.levels import SHORTEST, Series, case_series, gpu_levels, row_medians, successive
from peakgate.compare.history.steps import Levels, find_steps
from peakgate.compare.judge import FEWEST_CASES_FOR_SUITE
from peakgate.compare.noise import Bools, Floats, Positions

# Tuning constants, in SDs, of Huber's weights (first half of the iterations) and of Tukey's bisquare (second half): 95
# % efficient for normal noise (Huber 1981; Beaton and Tukey 1974).
HUBER, BISQUARE = 1.345, 4.685
ITERATIONS = 20

# A step is common if at least SHARED of the cases that would show it moved by at least ALONG of it.
SHARED, ALONG = 0.75, 0.25

# The share of the cases whose code changes at once and that may move the common series, but are not the suite.
FEWEST_REBUILT, MOST_REBUILT = 0.1, 0.5

# The largest share of the information on the microseconds from one case (Mallows): a few short kernels do not decide.
MOST_INFLUENCE = 0.1


class Shared(NamedTuple):
    """The common shifts of each session, ``share`` (log) and ``per_launch_us``, and their levels.

    ``removed`` (case, session) is to be subtracted from the cases' log times; ``events`` masks the sessions after each
    common step. ``per_launch_us`` also holds values that too few cases show to be removed.
    """

    share: Floats
    per_launch_us: Floats
    suite: Levels | None
    launch: Levels | None
    removed: Floats
    events: Bools


def shared(log_time: Floats, gpus: Positions, known: Bools, codes: pd.DataFrame) -> Shared:
    """The common shifts of ``log_time`` (case, session); zero with too few cases or sessions.

    ``codes`` (case, session) identifies the machine code, None if unknown.
    """
    nothing = np.zeros(log_time.shape[1])
    none = Shared(nothing, nothing, None, None, np.zeros_like(log_time), known[:0])
    there = np.isfinite(log_time)
    usual = there.mean(axis=1) > 0.5
    if usual.sum() < FEWEST_CASES_FOR_SUITE:
        return none
    enough = there[usual].mean(axis=0) > 0.5
    if enough.sum() < 2 * SHORTEST:
        return none
    share, per_launch_us, shown, shortness, errors = _common(log_time, gpus, _builds(codes))
    common = [np.where(enough, each, np.nan) for each in (share, np.where(shown, per_launch_us, 0.0))]
    # One at a time: variances are moderated across cases, and these two series are not alike.
    searched = [case_series(Series(each[None], gpus, known))[0] for each in common]
    levels = [find_steps(each, 1) for each in searched if each]
    if len(levels) < len(searched):
        return none
    levelled = log_time - gpu_levels(log_time, gpus)
    removed, events, reported = [], [], []
    for series, found, by, error in zip(common, levels, (np.ones_like(shortness), shortness), errors, strict=True):
        kept, own = _retained(found, known, levelled, by)
        events += own
        own_steps = [int(each.argmax()) for each in own]
        common_steps = [
            each for each in found.changes if not each.column.is_cut or int(found.at[each.column.start]) in own_steps
        ]
        reported.append(replace(found, changes=tuple(common_steps)))
        # Remove what exceeds the estimation error, by shrinkage toward the GPU's mean (James and Stein).
        off = series - kept
        for gpu in set(gpus.tolist()):
            of_gpu = off[gpus == gpu]
            off[gpus == gpu] -= of_gpu[np.isfinite(of_gpu)].mean() if np.isfinite(of_gpu).any() else 0.0
        off = np.nan_to_num(off)
        variance = float(np.mean(off**2))
        certain = off * max(0.0, 1 - float(np.mean(error)) / variance) if variance else off
        removed.append(certain * by)
    after = np.array(events, dtype=bool).reshape(-1, len(nothing))
    return Shared(common[0], per_launch_us, reported[0], reported[1], removed[0] + removed[1], after)


def _builds(codes: pd.DataFrame) -> Positions:
    """The number of each case's build in each session; a change of the code of few or most cases begins none."""
    known = codes.ffill(axis=1)
    before = known.shift(axis=1)
    changed = known.notna() & before.notna() & (known != before)
    return np.asarray((changed & changed.mean().between(FEWEST_REBUILT, MOST_REBUILT)).cumsum(axis=1), dtype=np.intp)


def _common(
    log_time: Floats, gpus: Positions, builds: Positions
) -> tuple[Floats, Floats, Bools, Floats, tuple[Floats, Floats]]:
    """The share and microseconds of each session, whether enough cases show the latter, 1 / time, and variances.

    1 / time is a column (case, 1); the variances are of the share and of the microseconds.
    """
    usual = row_medians(log_time)[:, None]
    off = log_time - usual
    for _ in range(3 if builds.any() else 1):
        for gpu in set(gpus.tolist()):
            own = np.flatnonzero(gpus == gpu)
            if len(own) >= SHORTEST:
                off[:, own] -= row_medians(off[:, own])[:, None]
        # what a build changed is its own: with half of the cases it would seem common
        young = np.zeros(off.shape, dtype=bool)
        for build in range(1 + builds.max(initial=0)) if builds.any() else ():
            there = np.isfinite(off) & (builds == build)
            enough = there.sum(axis=1, keepdims=True) >= SHORTEST
            off -= (there & enough) * row_medians(np.where(there, off, np.nan))[:, None]
            young |= there & ~enough
    young &= np.isfinite(np.where(young, np.nan, off)).sum(axis=0) >= MOST_REBUILT * np.isfinite(off).sum(axis=0)
    off[young] = np.nan
    shortness = np.exp(-usual)
    sd = np.maximum(noise.MAD_TO_SD * successive(off)[:, None] / np.sqrt(2), noise.CASE_SD_FLOOR)
    there = np.isfinite(off)
    alone = row_medians(off.T)
    off = np.where(there, off, 0.0)
    known = (shortness / sd) ** 2
    most = known.sum()
    for _ in range(ITERATIONS):
        most = MOST_INFLUENCE * np.minimum(known, most).sum()
    bounded = np.minimum(1.0, most / known) if len(known) * MOST_INFLUENCE > 1 else 1.0
    share, per_launch = alone, np.zeros_like(alone)
    for iteration in range(ITERATIONS):
        left = np.abs(off - share - per_launch * shortness) / sd
        if iteration < ITERATIONS / 2:
            robust = np.minimum(1.0, HUBER / np.maximum(left, 1e-9))
        else:
            robust = np.maximum(0.0, 1 - (left / BISQUARE) ** 2) ** 2
        weight = there * bounded / sd**2 * robust
        one, cross = weight.sum(axis=0), (weight * shortness).sum(axis=0)
        square = (weight * shortness**2).sum(axis=0) + noise.PROCESS_OFFSET_US**-2
        first, second = (weight * off).sum(axis=0), (weight * off * shortness).sum(axis=0)
        determinant = np.maximum(one * square - cross**2, 1e-9)
        share = (first * square - second * cross) / determinant
        per_launch = (one * second - cross * first) / determinant
    expected = per_launch * shortness
    shows = there & (np.abs(expected) > 2 * sd)
    along = shows & ((off - share) / np.where(shows, expected, 1.0) > ALONG)
    few = shows.any(axis=0) & (
        (shows.sum(axis=0) < MOST_INFLUENCE * len(off)) | (along.sum(axis=0) < SHARED * shows.sum(axis=0))
    )
    errors = square / determinant, one / determinant
    return np.where(few, alone, share), per_launch, ~few, shortness, errors


def _retained(found: Levels, known: Bools, log_time: Floats, by: Floats) -> tuple[Floats, list[Bools]]:
    """The part of a common series to leave in the cases, by session, and masks of the sessions after its common steps.

    Known changes of the environment stay, and so does a step that only some cases show. Each case is expected to move
    by ``by`` times the shift.
    """
    numbers = np.arange(log_time.shape[1])
    kept = np.zeros(len(numbers))
    for shift, after in zip(found.known_shifts(len(known)), known, strict=True):
        kept += shift * after
    events = []
    cuts = [change for change in found.changes if change.column.is_cut]
    borders = [0, *(int(found.at[each.column.start]) for each in cuts), len(numbers)]
    for start, change, end in zip(borders, cuts, borders[2:], strict=False):
        cut = int(found.at[change.column.start])
        # whether at least SHARED of the cases that should show a step moved with it
        before = log_time[:, start:cut]
        after = log_time[:, cut:end]
        expected = change.shift * by[:, 0]
        there = np.isfinite(before).any(axis=1) & np.isfinite(after).any(axis=1)
        old, new = before[there], after[there]
        moved = row_medians(new) - row_medians(old)
        sd = noise.MAD_TO_SD * row_medians(np.abs(old - row_medians(old)[:, None]))
        error = np.maximum(sd, noise.CASE_SD_FLOOR) * np.sqrt(1 / old.shape[1] + 1 / new.shape[1])
        shows = np.abs(expected[there]) > 2 * error
        if bool(np.mean((moved / expected[there])[shows] > ALONG) >= SHARED) if shows.any() else True:
            events.append(numbers >= cut)
        else:
            kept += change.shift * (numbers >= cut)
    return kept, events
