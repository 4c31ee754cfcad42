"""From the pairs' log ratios to decisions; pure.

A pair is one process of each side, run one after the other, or rounds of both sides in one process, and gives each case
one number: ln(time of head / time of base). The pair is the replicate, its samples are not. Stage one screens every
case, generously and with no claim; stage two measures the suspects again and decides on the fresh pairs alone, which
removes the selection bias; of the first stage they take the variance only. Most cases show after a few screening pairs
that a change as large as what is looked for is not there, and a kernel twice as slow needs no ten pairs to be a
suspect: those are not screened any further. Variances are moderated across cases (``compare.noise.squeeze``).

Nothing that the cases share is subtracted from them: where everything slowed, everything is slower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from peakgate.compare import noise
from peakgate.compare.ab.schedule import PAIRS_ALPHA, Look
from peakgate.compare.noise import Floats
from peakgate.runfile.frame import records

# One-sided level and smallest shift of the screening test. It makes no claim, so its error costs pairs alone: at most a
# fifth of the unchanged cases of each direction are measured again: lab/injected, docs/results/starts.md.
SCREEN_P = 0.2
SCREEN_SHIFT = math.log1p(0.0015)

# The effect that is looked for: a suspect whose fresh pairs rule it out is dropped.
TO_BE_FOUND = math.log1p(0.005)

# The chance, at each look, of giving up on a slowdown that is just as large as what is looked for.
RULED_OUT_P = 0.001

# No smaller shift is flagged, however sure: half of what is looked for, since a floor at that itself would miss every
# second one of its size.
SMALLEST_PAIRS_SHIFT = math.log1p(0.0025)

# Futility stop: a suspect is dropped when its unadjusted p-value exceeds this after so many fresh pairs.
HOPELESS_P = 0.3
HOPELESS_PAIRS = 10

# A suspect beyond SMALLEST_PAIRS_SHIFT at this unadjusted p is measured further; left open if that does not help.
LEANING_P = 0.01

# One-sided error of the 99 % confidence interval, over all looks together. An experiment that stops as soon as a shift
# is plain stops on a large one by chance, so an interval for a fixed number of pairs would be too narrow. Each look's
# interval leaves its share, as it has its share of PAIRS_ALPHA: the chance that the interval of any look misses the
# true shift is 1 %, so it holds whichever look was the last.
INTERVAL_TAIL = 0.005

FEWEST_CASES_TOGETHER = 3  # the fewest whose median is no single case

# A pair counts for the suite as a whole with this share of the cases that the fullest pair measured.
LEAST_SHARE_OF_FULLEST = 0.9


class CaseStatus(StrEnum):
    """Where a case stands after the pairs there are."""

    CLEARED = "cleared"
    FLAGGED = "flagged"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Together:
    """How far several cases moved as one, from one number a pair; ``estimate`` is a row of ``estimates``."""

    estimate: SimpleNamespace
    cases: int
    moved: bool
    resolvable: float


def p_value(estimate: Any, direction: Any) -> Any:
    """The chance of a mean so far in this direction (+1 slower, -1 faster) when nothing changed."""
    return noise.upper_tail(direction * estimate.mean_log_ratio / estimate.standard_error, estimate.df)


def half_width(estimate: Any, tail: float) -> Any:
    """Half the confidence interval that leaves this much on either side."""
    return estimate.standard_error * noise.upper_quantile(tail, estimate.df)


def interval(estimate: Any) -> tuple[float, float]:
    """The 99 % confidence interval of the shift; it holds whenever the experiment stopped."""
    half = half_width(estimate, estimate.interval_tail)
    return estimate.log_ratio - half, estimate.log_ratio + half


def hodges_lehmann(values: Floats) -> float:
    """The median of the means of all pairs of values, each with itself too: as steady as a mean, deaf to outliers."""
    first, second = np.triu_indices(len(values))
    return float(np.median((values[first] + values[second]) / 2))


def estimates(
    log_ratios: Floats,
    log_time: Floats,
    others: tuple[Floats, Floats, Floats] | None = None,
    other_pairs: Floats | None = None,
) -> pd.DataFrame:
    """Each case's shift over its finite pairs (columns), a row per case; missing with fewer than two pairs.

    ``pairs``; ``log_ratio``, Hodges and Lehmann's estimate, positive when head is slower; ``mean_log_ratio`` with its
    ``standard_error`` and degrees of freedom ``df``; ``interval_tail``, what its interval leaves on either side.
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
    moderated, total_df = (values[: len(counts)] for values in noise.squeeze(variance, df, times))
    timed = np.flatnonzero(counts >= 2)
    finite = [row[np.isfinite(row)] for row in log_ratios[timed]]
    figures = {
        "log_ratio": [hodges_lehmann(row) for row in finite],
        "mean_log_ratio": [row.mean() for row in finite],
        "standard_error": np.sqrt(moderated[timed] / counts[timed]),
        "df": total_df[timed],
        "interval_tail": INTERVAL_TAIL,
    }
    found: pd.DataFrame = pd.DataFrame(figures, timed).reindex(range(len(counts)))
    return found.assign(pairs=counts)


def spread(log_ratios: Floats) -> tuple[Floats, Floats]:
    """Variance and degrees of freedom of each case's pairs; 0 and 0 with fewer than two."""
    count = np.isfinite(log_ratios).sum(axis=1, keepdims=True)
    squares = (log_ratios - np.nansum(log_ratios, axis=1, keepdims=True) / np.maximum(count, 1)) ** 2
    df = np.maximum(count[:, 0] - 1.0, 0.0)
    return np.nansum(squares, axis=1) / np.maximum(df, 1.0), df


def _pooled(variance: Floats, df: Floats, other: Floats, other_df: Floats) -> tuple[Floats, Floats]:
    """Two estimates of each variance as one."""
    both = df + other_df
    return (df * variance + other_df * other) / np.maximum(both, 1), both


def suspects(screened: pd.DataFrame) -> Floats:
    """The suspected direction of each case (+1 slower, -1 faster), 0 for no suspect."""
    direction = np.sign(screened["log_ratio"])
    surely = (screened["log_ratio"].abs() > SCREEN_SHIFT) & (p_value(screened, direction) < SCREEN_P)
    return np.where(surely, direction, 0.0)


def decide(
    screen: Floats, confirm: Floats, log_time: Floats, looks: Sequence[Look], judged: Sequence[bool]
) -> pd.DataFrame:
    """Decide every case (row) from its screening and confirming pairs (columns, NaN where not measured).

    To the columns of ``estimates``, from the pairs that decided (the confirming ones of a suspect, else the screening
    ones), come ``status``, empty for a case without two screening pairs; ``direction``, that of ``suspects``;
    ``p_value``, adjusted for all suspects and all looks: below PAIRS_ALPHA means flagged, missing for no suspect;
    ``resolvable``, the smallest shift this experiment would have flagged.

    A case that is not ``judged`` is never suspected; it only informs the noise estimate. Looks whose pairs are not all
    there yet leave what is undecided OPEN; so do suspects that lean beyond the smallest shift after the last look.
    """
    screened = estimates(screen, log_time)
    direction = np.where(judged, suspects(screened), 0.0)
    timed, suspected = screened["pairs"] >= 2, direction != 0
    unflagged = int(suspected.sum())
    decided = screened.assign(
        status=np.where(suspected, CaseStatus.OPEN.value, np.where(timed, CaseStatus.CLEARED.value, "")),
        direction=direction,
        p_value=math.nan,
        resolvable=_resolvable(screened, looks, unflagged),
    )
    others = (timed & ~suspected).to_numpy()
    rest = *spread(screen[others]), log_time[others]
    taken = int(np.isfinite(confirm).any(axis=0).sum())
    for look in looks:
        open_rows = np.flatnonzero(decided["status"] == CaseStatus.OPEN)
        if taken < look.pairs:
            break
        fresh = estimates(confirm[open_rows, : look.pairs], log_time[open_rows], rest, screen[open_rows])
        known = fresh.set_axis(open_rows).query("pairs >= 2")
        found = _look(known.assign(direction=direction[known.index]), look, unflagged)
        unflagged -= int((found["status"] == CaseStatus.FLAGGED).sum())
        decided.loc[found.index, found.columns] = found
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
    columns = rows[:, measured >= LEAST_SHARE_OF_FULLEST * measured.max()]
    if columns.shape[1] < 2:
        return None
    (estimate,) = records(estimates(np.nanmedian(columns, axis=0, keepdims=True), np.zeros(1)))
    direction = np.sign(estimate.log_ratio)
    moved = p_value(estimate, direction) < PAIRS_ALPHA / 2 and abs(estimate.log_ratio) > SMALLEST_PAIRS_SHIFT
    resolvable = max(SMALLEST_PAIRS_SHIFT, half_width(estimate, PAIRS_ALPHA / 2))
    return Together(estimate, len(columns), bool(moved), float(resolvable))


def _look(suspected: pd.DataFrame, look: Look, unflagged: int) -> pd.DataFrame:
    """Step down through the suspects, surest first (Holm): each that is flagged leaves fewer others.

    ``suspected`` are the fresh estimates with their ``direction``. Flagged at any look if p times the suspects not yet
    flagged is below the look's share of PAIRS_ALPHA: the first false positive would need a true null whose p is below
    its share of the look's, and the shares over looks add up to PAIRS_ALPHA.
    """
    p_values: Floats = p_value(suspected, suspected["direction"]).to_numpy()
    shift, count = (suspected["direction"] * suspected["log_ratio"]).to_numpy(), len(suspected)
    settled = _settled(suspected, final=look.final)
    status = np.where(settled, CaseStatus.CLEARED.value, CaseStatus.OPEN.value).astype(object)
    adjusted_p, left, adjusted = np.zeros(count), np.zeros(count), 0.0
    for row in np.argsort(p_values, kind="stable"):
        adjusted = max(adjusted, min(1.0, p_values[row] * unflagged * PAIRS_ALPHA / look.alpha))
        if adjusted < PAIRS_ALPHA and shift[row] > SMALLEST_PAIRS_SHIFT:
            status[row], unflagged = CaseStatus.FLAGGED.value, unflagged - 1
        adjusted_p[row], left[row] = adjusted, max(unflagged, 1)
    width = suspected["standard_error"] * noise.upper_quantile(look.alpha / left, suspected["df"].to_numpy())
    tail = INTERVAL_TAIL * look.alpha / PAIRS_ALPHA
    resolvable = width.clip(lower=SMALLEST_PAIRS_SHIFT)
    return suspected.assign(interval_tail=tail, status=status, p_value=adjusted_p, resolvable=resolvable)


def _settled(suspected: pd.DataFrame, *, final: bool) -> pd.Series[bool]:
    """Whether more pairs would be wasted on a suspect that was not flagged."""
    shift, p_values = suspected["direction"] * suspected["log_ratio"], p_value(suspected, suspected["direction"])
    ruled_out = shift + half_width(suspected, RULED_OUT_P) < TO_BE_FOUND
    hopeless = (suspected["pairs"] >= HOPELESS_PAIRS) & (p_values > HOPELESS_P)
    leaning = (shift > SMALLEST_PAIRS_SHIFT) & (p_values < LEANING_P)
    settled: pd.Series[bool] = ruled_out | hopeless | (~leaning & final)
    return settled


def _resolvable(screened: pd.DataFrame, looks: Sequence[Look], suspected: int) -> pd.Series[float]:
    """The smallest shift the planned confirming pairs would have flagged, by the spread of the screening ones."""
    look = next(look for look in looks if look.final)
    error = screened["standard_error"] * np.sqrt(screened["pairs"] / look.pairs)
    found: pd.Series[float] = error * noise.upper_quantile(look.alpha / max(suspected, 1), screened["df"].to_numpy())
    return found.clip(lower=SMALLEST_PAIRS_SHIFT)


# After so many screening pairs the cases are looked at; even numbers, so that both orders count alike.
SCREENING_LOOKS = (4, 6)

# Two pairs rule nothing out: what moves all cases of a process alike has the same sign twice in half of all runs. They
# are enough where every changed case moved by GROSS_SHIFT and the sentinels, which that would move too, stayed.
EARLY_LOOK = 2

# Six times TO_BE_FOUND, and more than any but a library's short calls scatter between two processes
# (docs/results/starts.md).
GROSS_SHIFT = math.log1p(0.03)

# A case beyond SMALLEST_PAIRS_SHIFT at this unadjusted p is a suspect without further pairs.
PLAIN_P = 1e-4


def next_look(done: int, planned: int, *, early: bool = False) -> int:
    """How many pairs there are to be at the next look, ``early`` also after EARLY_LOOK; the planned ones at most."""
    looks = (EARLY_LOOK, *SCREENING_LOOKS) if early else SCREENING_LOOKS
    return min([planned, *(look for look in looks if look > done)])


def all_gross(screen: Floats, log_time: Floats, sentinels: Sequence[bool]) -> bool:
    """Whether every case (row) but the sentinels moved far in every pair, and no sentinel did; there must be both.

    No p-value is asked for: two pairs give it one degree of freedom, and fresh pairs decide.
    """
    watched = np.array(sentinels, bool)
    others, suspected = screen[~watched], suspects(estimates(screen, log_time)) != 0
    if not watched.any() or watched.all() or not suspected[~watched].all():
        return False
    moved = (others > GROSS_SHIFT).all(axis=1) | (others < -GROSS_SHIFT).all(axis=1)
    stayed = np.abs(screen[watched].mean(axis=1)) < GROSS_SHIFT / 2
    return bool(moved.all() and stayed.all())


def unsettled(screen: Floats, log_time: Floats) -> list[int]:
    """The cases (rows) that need further pairs after these (columns of log ratios, NaN where not measured)."""
    found = estimates(screen, log_time)
    shift = found["log_ratio"].abs()
    plain = (shift > SMALLEST_PAIRS_SHIFT) & (p_value(found, np.sign(found["log_ratio"])) < PLAIN_P)
    ruled_out = shift + half_width(found, RULED_OUT_P) < TO_BE_FOUND
    settled = plain | (ruled_out & (suspects(found) == 0))
    rows: list[int] = np.flatnonzero(~settled).tolist()
    return rows
