"""Which columns are changes of a series: chosen stepwise, tried again and moved; pure numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from peakgate.compare.history.columns import SHORTEST
from peakgate.compare.history.scan import CaseSeries
from peakgate.compare.noise import Bools, Floats

ERROR = 0.01
"""Nominal probability that any unchanged series of a history has a change."""

NEWEST, NEWEST_SHARE, SLOW_SHARE = 10, 0.5, 0.01
"""Steps fewer than so many sessions ago, which have had the fewest to show, have this share of it, and slow changes
this (weighted Bonferroni: Genovese, Roeder and Wasserman 2006)."""

DOUBT = 5.0
"""Places whose misfit, in variances, is this close to the best are not separated: the 97th percentile of chi-square."""

MOST_CHANGES = 12


def usable(case: CaseSeries, chosen: Sequence[int]) -> Bools:
    """Which columns may be added to the chosen ones: cuts far enough from the others, nothing twice."""
    found = case.pattern.usable.copy()
    found[list(chosen)] = False
    cuts = len(case.pattern.at) - 1
    for index in chosen:
        column = case.pattern.columns[index]
        if column.is_cut or column.known is not None:
            near = slice(max(0, column.start - SHORTEST), min(cuts, column.start + SHORTEST - 1))
            found[near] = False
    return found


def search(case: CaseSeries, series: int) -> tuple[int, ...]:
    """The columns of a case that are changes, in the order of their places; the error is shared by so many series.

    Where one is slow, steps alone are preferred if they explain as much for what they need (Schwarz's criterion).
    """
    columns = case.pattern.columns
    found = _stepwise(case, series, case.pattern.usable)
    if any(columns[index].is_slow for index in found):
        steps = _stepwise(case, series, case.pattern.usable & [not each.is_slow for each in columns])
        found = max(found, steps, key=lambda chosen: _criterion(case, chosen))
    return tuple(sorted(found, key=lambda index: columns[index].start))


def _criterion(case: CaseSeries, chosen: Sequence[int]) -> float:
    """Schwarz's: a step has a place and a size, a slow change two places."""
    numbers = sum(2 + case.pattern.columns[index].is_slow for index in chosen)
    likely = np.logaddexp.reduce(case.log_likelihood(case.given(chosen).squares))
    return float(likely) - numbers / 2 * math.log(len(case.raw))


def _stepwise(case: CaseSeries, series: int, allowed: Bools) -> list[int]:
    """The columns among the allowed that are chosen one after the other, the best first, and stay."""
    columns = case.pattern.columns
    chosen: list[int] = []
    least = _least(case, series)
    double = float(least.max()) + math.log(max(1, int(case.pattern.usable.sum())))
    while len(chosen) < MOST_CHANGES:
        fine = allowed & usable(case, chosen)
        given = case.given(chosen)
        scores = np.where(fine, case.scores(given), -np.inf)
        best = int((scores - least).argmax())
        found = bool(scores[best] > least[best])
        if not chosen and not found and case.most_of_a_pulse() <= double:
            break
        if found:
            # a known change explains a step as well as a cut that is no better than the place of one
            near = [
                i
                for i in np.flatnonzero(fine & (scores > scores[best] - DOUBT / 2)).tolist()
                if columns[i].known is not None
            ]
            added = [max(near, key=lambda index: scores[index]) if near and columns[best].is_cut else best]
        elif pair := case.pulse(given, fine, double):
            added = list(pair)
        else:
            break
        chosen = _refined(case, [*chosen, *added])
    return _pruned(case, chosen, least)


def confirmed(case: CaseSeries, chosen: Sequence[int], series: int) -> tuple[int, ...]:
    """Those of the chosen columns that are changes of these values too."""
    return tuple(sorted(_pruned(case, list(chosen), _least(case, series)), key=chosen.index))


def _least(case: CaseSeries, series: int) -> Floats:
    """The gain in log likelihood that each column must exceed."""
    n, columns = len(case.raw), case.pattern.columns
    slow = np.array([each.is_slow for each in columns])
    newest = np.array([each.is_cut and n - each.start < NEWEST for each in columns])
    found = np.full(len(columns), np.inf)
    for share, among in ((NEWEST_SHARE, newest), (SLOW_SHARE, slow), (1 - NEWEST_SHARE - SLOW_SHARE, ~newest & ~slow)):
        own = among & case.pattern.usable
        found[among] = case.least_score(ERROR * share / series / max(1, int(own.sum())))
    return found


def _refined(case: CaseSeries, chosen: list[int]) -> list[int]:
    """The same with each cut moved to where the series is likeliest, the others staying."""
    for _ in range(3 if len(chosen) > 1 else 0):
        moved = False
        for place, index in enumerate(chosen):
            if not case.pattern.columns[index].is_cut:
                continue
            others = chosen[:place] + chosen[place + 1 :]
            allowed = usable(case, others)
            allowed[len(case.pattern.at) - 1 :] = False
            scores = np.where(allowed, case.scores(case.given(others)), -1.0)
            best = int(scores.argmax())
            if scores[best] > scores[index] and best != index:
                chosen[place], moved = best, True
        if not moved:
            break
    return chosen


def _pruned(case: CaseSeries, chosen: list[int], least: Floats) -> list[int]:
    """The same without those that the others make superfluous, the faintest first."""
    while chosen:
        own = [case.scores(case.given([each for each in chosen if each != index]))[index] for index in chosen]
        over = np.array(own) - least[chosen]
        faintest = int(over.argmin())
        if over[faintest] > 0:
            break
        del chosen[faintest]
    return chosen
