"""From the pairs' log ratios to decisions; pure.

A pair is one process of each side, run one after the other, and gives each case one number: ln(time of head / time of
base). The process is the replicate, its samples are not. Stage one screens every case, generously and with
no claim; stage two measures the suspects again and decides on the fresh pairs alone, so that what the screen picked
for its luck has no luck left; of the first stage they take the variance only. Most cases show after a few screening
pairs that a change as large as what is looked for is not there, and a kernel twice as slow needs no ten pairs to be a
suspect: those are not screened any further. Variances are moderated across cases
(``reports.noise.squeeze``).

Nothing that the cases share is subtracted from them: where everything slowed, everything is slower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from peakgate.reports.ab.schedule import PAIRS_ALPHA, Look
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.noise import Floats

SCREEN_P = 0.2
SCREEN_SHIFT = math.log1p(0.0015)
TO_BE_FOUND = math.log1p(0.005)
"""The effect that is looked for: a suspect whose fresh pairs rule it out is dropped."""

RULED_OUT_P = 0.001
"""The chance, at each look, of giving up on a slowdown that is just as large as what is looked for."""

SMALLEST_PAIRS_SHIFT = math.log1p(0.0025)
"""No smaller shift is flagged, however sure: half of what is looked for, since a floor at that itself would miss every
second one of its size."""

HOPELESS_P = 0.3
HOPELESS_PAIRS = 10
"""Futility stop: a suspect is dropped when its unadjusted p-value exceeds this after so many fresh pairs."""

LEANING_P = 0.01
"""A suspect beyond SMALLEST_PAIRS_SHIFT at this unadjusted p is measured further; left open if that does not help."""

INTERVAL_TAIL = 0.005
"""What the 99 % confidence interval leaves on either side, over all looks together. An experiment that stops as
soon as a shift is plain stops on a large one by chance, so an interval for a fixed number of pairs would be too narrow.
Each look's interval leaves its share, as it has its share of PAIRS_ALPHA: the chance that the interval of any look
misses the true shift is 1 %, so it holds whichever look was the last."""

FEWEST_CASES_TOGETHER = 3
MOST_CASES = 0.9
"""A pair counts for the suite as a whole with this share of the cases that the fullest pair measured."""


class CaseStatus(Enum):
    """Where a case stands after the pairs there are."""

    CLEARED = "cleared"
    FLAGGED = "flagged"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Estimate:
    """One case's shift over ``pairs`` pairs: Hodges and Lehmann's estimate, the mean, and the mean's standard error.

    Natural logarithms, positive when head is slower. ``tail`` is what its interval leaves on either side.
    """

    pairs: int
    shift: float
    mean: float
    standard_error: float
    df: float
    tail: float = INTERVAL_TAIL

    def p_value(self, direction: int) -> float:
        """The chance of a mean so far in this direction (+1 slower, -1 faster) when nothing changed."""
        return noise.upper_tail(direction * self.mean / self.standard_error, self.df)

    def half_width(self, tail: float) -> float:
        """Half the confidence interval that leaves this much on either side."""
        return self.standard_error * noise.upper_quantile(tail, self.df)

    def interval(self) -> tuple[float, float]:
        """The 99 % confidence interval of the shift; it holds whenever the experiment stopped."""
        half = self.half_width(self.tail)
        return self.shift - half, self.shift + half


@dataclass(frozen=True, slots=True)
class Decision:
    """What the pairs say of one case.

    ``estimate`` is from the pairs that decided: the confirming ones of a suspect, else the screening ones.
    ``p_value`` is adjusted for all suspects and all looks: below PAIRS_ALPHA means flagged; None for no suspect.
    ``resolvable`` is the smallest shift this experiment would have flagged. ``direction`` is the suspected one, +1
    slower, -1 faster, 0 for no suspect.
    """

    status: CaseStatus
    estimate: Estimate
    resolvable: float
    direction: int = 0
    p_value: float | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """How far several cases moved as one, from one number a pair."""

    estimate: Estimate
    cases: int
    moved: bool
    resolvable: float


def hodges_lehmann(values: Floats) -> float:
    """The median of the means of all pairs of values, each with itself too: as steady as a mean, deaf to outliers."""
    first, second = np.triu_indices(len(values))
    return float(np.median((values[first] + values[second]) / 2))


def estimates(
    log_ratios: Floats,
    log_time: Floats,
    others: tuple[Floats, Floats, Floats] | None = None,
    other_pairs: Floats | None = None,
) -> list[Estimate | None]:
    """One estimate per case (row) over its finite pairs (columns); None with fewer than two.

    ``others`` are variances, degrees of freedom and log times of other cases, by which those of these are moderated.
    ``other_pairs`` are log ratios of the same cases, used for their variance only.
    """
    counts = np.isfinite(log_ratios).sum(axis=1)
    variance, df = spread(log_ratios)
    if other_pairs is not None:
        variance, df = _pooled(variance, df, *spread(other_pairs))
    if others is not None:
        variance, df, times = (np.concatenate(both) for both in zip((variance, df, log_time), others, strict=True))
    else:
        times = log_time
    moderated, total_df = noise.squeeze(variance, df, times)
    found: list[Estimate | None] = []
    for row, count in enumerate(counts):
        if count < 2:
            found.append(None)
            continue
        values = log_ratios[row][np.isfinite(log_ratios[row])]
        error = math.sqrt(moderated[row] / count)
        found.append(Estimate(int(count), hodges_lehmann(values), float(values.mean()), error, float(total_df[row])))
    return found


def spread(log_ratios: Floats) -> tuple[Floats, Floats]:
    """Variance and degrees of freedom of each case's pairs; 0 and 0 with fewer than two."""
    variance, df = np.zeros(len(log_ratios)), np.zeros(len(log_ratios))
    for row, values in enumerate(log_ratios):
        finite = values[np.isfinite(values)]
        if len(finite) >= 2:
            variance[row], df[row] = finite.var(ddof=1), len(finite) - 1
    return variance, df


def _pooled(variance: Floats, df: Floats, other: Floats, other_df: Floats) -> tuple[Floats, Floats]:
    """Two estimates of each variance as one."""
    both = df + other_df
    return (df * variance + other_df * other) / np.maximum(both, 1), both


def suspects(screened: Sequence[Estimate | None]) -> dict[int, int]:
    """Row to direction (+1 slower, -1 faster) of the cases to measure again."""
    found = {}
    for row, estimate in enumerate(screened):
        if estimate is None or abs(estimate.shift) <= SCREEN_SHIFT:
            continue
        direction = 1 if estimate.shift > 0 else -1
        if estimate.p_value(direction) < SCREEN_P:
            found[row] = direction
    return found


def decide(
    screen: Floats, confirm: Floats, log_time: Floats, looks: Sequence[Look], judged: Sequence[bool]
) -> list[Decision | None]:
    """Decide every case (row) from its screening and confirming pairs (columns, NaN where not measured).

    A case that is not ``judged`` is never suspected; it only informs the noise estimate.

    Looks whose pairs are not all there yet leave what is undecided OPEN; so do suspects that lean beyond the smallest
    shift after the last look. None for a case without two screening pairs.
    """
    screened = estimates(screen, log_time)
    suspected = {row: direction for row, direction in suspects(screened).items() if judged[row]}
    decided: list[Decision | None] = [
        None
        if estimate is None
        else Decision(CaseStatus.CLEARED, estimate, _resolvable(estimate, looks, len(suspected)))
        for estimate in screened
    ]
    for row, direction in suspected.items():
        estimate = screened[row]
        assert estimate is not None
        decided[row] = Decision(CaseStatus.OPEN, estimate, _resolvable(estimate, looks, len(suspected)), direction)
    others = [row for row, estimate in enumerate(screened) if estimate is not None and row not in suspected]
    variance, df = spread(screen[others])
    rest = variance, df, log_time[others]
    taken = int(np.isfinite(confirm).any(axis=0).sum())
    open_rows = sorted(suspected)
    unflagged = len(suspected)
    for look in looks:
        if not open_rows or taken < look.pairs:
            break
        fresh = estimates(confirm[open_rows, : look.pairs], log_time[open_rows], rest, screen[open_rows])
        known = {row: estimate for row, estimate in zip(open_rows, fresh, strict=True) if estimate is not None}
        verdicts = _look(known, suspected, look, unflagged)
        unflagged -= sum(decision.status is CaseStatus.FLAGGED for decision in verdicts.values())
        for row, decision in verdicts.items():
            decided[row] = decision
        open_rows = [row for row in open_rows if row not in verdicts or verdicts[row].status is CaseStatus.OPEN]
    return decided


def moved_together(log_ratios: Floats) -> Together | None:
    """Whether the median case moved, one number per pair; None with too few cases or pairs.

    Of the pairs that measured nearly all cases: later ones have those alone that earlier pairs left unsettled, whose
    median moves by selection.
    """
    rows = log_ratios[np.isfinite(log_ratios).any(axis=1)]
    if len(rows) < FEWEST_CASES_TOGETHER:
        return None
    measured = np.isfinite(rows).sum(axis=0)
    columns = rows[:, measured >= MOST_CASES * measured.max()]
    if columns.shape[1] < 2:
        return None
    estimate = estimates(np.nanmedian(columns, axis=0, keepdims=True), np.zeros(1))[0]
    assert estimate is not None
    direction = 1 if estimate.shift > 0 else -1
    moved = estimate.p_value(direction) < PAIRS_ALPHA / 2 and abs(estimate.shift) > SMALLEST_PAIRS_SHIFT
    return Together(estimate, len(columns), moved, max(SMALLEST_PAIRS_SHIFT, estimate.half_width(PAIRS_ALPHA / 2)))


def _look(
    fresh: Mapping[int, Estimate], suspected: Mapping[int, int], look: Look, unflagged: int
) -> dict[int, Decision]:
    """Step down through the suspects, surest first (Holm): each that is flagged leaves fewer others.

    Flagged at any look if p times the suspects not yet flagged is below the look's share of PAIRS_ALPHA: the first
    false positive would need a true null whose p is below its share of the look's, and the shares over looks add up to
    PAIRS_ALPHA.
    """
    ranked = sorted(fresh, key=lambda row: fresh[row].p_value(suspected[row]))
    decisions, stepping, adjusted = {}, True, 0.0
    for row in ranked:
        estimate, direction = replace(fresh[row], tail=INTERVAL_TAIL * look.alpha / PAIRS_ALPHA), suspected[row]
        adjusted = max(adjusted, min(1.0, estimate.p_value(direction) * unflagged * PAIRS_ALPHA / look.alpha))
        shift = direction * estimate.shift
        stepping = stepping and adjusted < PAIRS_ALPHA
        if stepping and shift > SMALLEST_PAIRS_SHIFT:
            status, unflagged = CaseStatus.FLAGGED, unflagged - 1
        elif _settled(estimate, direction, final=look.final):
            status = CaseStatus.CLEARED
        else:
            status = CaseStatus.OPEN
        resolvable = max(SMALLEST_PAIRS_SHIFT, estimate.half_width(look.alpha / max(unflagged, 1)))
        decisions[row] = Decision(status, estimate, resolvable, direction, adjusted)
    return decisions


def _settled(estimate: Estimate, direction: int, *, final: bool) -> bool:
    """Whether more pairs would be wasted on a suspect that was not flagged."""
    shift = direction * estimate.shift
    if shift + estimate.half_width(RULED_OUT_P) < TO_BE_FOUND:
        return True
    if estimate.pairs >= HOPELESS_PAIRS and estimate.p_value(direction) > HOPELESS_P:
        return True
    return final and not (shift > SMALLEST_PAIRS_SHIFT and estimate.p_value(direction) < LEANING_P)


def _resolvable(screened: Estimate, looks: Sequence[Look], suspected: int) -> float:
    """The smallest shift the planned confirming pairs would have flagged, by the spread of the screening ones."""
    look = next(look for look in looks if look.final)
    error = screened.standard_error * math.sqrt(screened.pairs / look.pairs)
    return max(SMALLEST_PAIRS_SHIFT, error * noise.upper_quantile(look.alpha / max(suspected, 1), screened.df))


SCREENING_LOOKS = (4, 6)
"""After so many screening pairs the cases are looked at; even numbers, so that both orders count alike."""

EARLY_LOOK = 2
"""Two pairs rule nothing out: what moves all cases of a process alike has the same sign twice in half of all runs. They
are enough where every changed case moved by GROSS_SHIFT and the sentinels, which that would move too, stayed."""

GROSS_SHIFT = math.log1p(0.03)

PLAIN_P = 1e-4
"""A case beyond SMALLEST_PAIRS_SHIFT at this unadjusted p is a suspect without further pairs."""


def next_look(done: int, planned: int, *, early: bool = False) -> int:
    """How many pairs there are to be at the next look, ``early`` also after EARLY_LOOK; the planned ones at most."""
    looks = (EARLY_LOOK, *SCREENING_LOOKS) if early else SCREENING_LOOKS
    return next((look for look in looks if done < look < planned), planned)


def all_gross(screen: Floats, log_time: Floats, sentinels: Sequence[bool]) -> bool:
    """Whether every case (row) but the sentinels moved far in every pair, and no sentinel did; there must be both.

    No p-value is asked for: two pairs give it one degree of freedom, and fresh pairs decide.
    """
    watched = np.array(sentinels, bool)
    others, suspected = screen[~watched], suspects(estimates(screen, log_time))
    if not watched.any() or watched.all() or not suspected.keys() >= set(np.flatnonzero(~watched)):
        return False
    moved = (others > GROSS_SHIFT).all(axis=1) | (others < -GROSS_SHIFT).all(axis=1)
    stayed = np.abs(screen[watched].mean(axis=1)) < GROSS_SHIFT / 2
    return bool(moved.all() and stayed.all())


def unsettled(screen: Floats, log_time: Floats) -> list[int]:
    """The cases (rows) that need further pairs after these (columns of log ratios, NaN where not measured)."""
    found = estimates(screen, log_time)
    suspected = suspects(found)
    return [
        row
        for row, estimate in enumerate(found)
        if estimate is None or not (_plain(estimate) or (row not in suspected and _ruled_out(estimate)))
    ]


def _plain(estimate: Estimate) -> bool:
    direction = 1 if estimate.shift > 0 else -1
    return abs(estimate.shift) > SMALLEST_PAIRS_SHIFT and estimate.p_value(direction) < PLAIN_P


def _ruled_out(estimate: Estimate) -> bool:
    return abs(estimate.shift) + estimate.half_width(RULED_OUT_P) < TO_BE_FOUND
