"""Decides from the log ratios of the pairs which cases changed; pure.

A pair is one process of each side, run one after the other, or interleaved rounds of both sides in one process. It
gives each case one number, ln(time of head / time of base). The replicate is the pair, not the sample. Stage one
screens every case at a liberal level and draws no conclusion. Stage two measures the suspects again and decides on the
fresh pairs alone, which removes the selection bias; from stage one it takes only the variance. A case is not screened
further once a few pairs rule out a change of the size looked for, or already make it a suspect. Variances are moderated
across cases (``compare.noise.squeeze``).

A shift common to all cases is not subtracted: if everything slowed down, every case is slower.
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

# One-sided level and smallest shift of the screening test. A false suspect costs only more pairs: at most a fifth of
# the unchanged cases in each direction are measured again (lab/injected, docs/results/starts.md).
SCREEN_P = 0.2
SCREEN_SHIFT = math.log1p(0.0015)

# The smallest effect of interest: a suspect whose fresh pairs rule it out is dropped.
TO_BE_FOUND = math.log1p(0.005)

# The probability, at each look, of dropping a true slowdown of exactly TO_BE_FOUND.
RULED_OUT_P = 0.001

# No smaller estimate is flagged, however significant. Half of TO_BE_FOUND: a threshold of TO_BE_FOUND itself would miss
# half of the slowdowns of that size.
SMALLEST_PAIRS_SHIFT = math.log1p(0.0025)

# Futility stop: a suspect is dropped when its unadjusted p-value exceeds this after so many fresh pairs.
HOPELESS_P = 0.3
HOPELESS_PAIRS = 10

# A suspect beyond SMALLEST_PAIRS_SHIFT with an unadjusted p-value below this is measured further; it stays open if that
# does not decide it.
LEANING_P = 0.01

# One-sided error of the 99 % confidence interval over all looks. An experiment that stops early tends to stop on an
# estimate that is too large by chance, so an interval for a fixed number of pairs would be too narrow. Each look spends
# the same share of this error as of PAIRS_ALPHA: the probability that the interval of any look misses the true shift is
# at most 1 %, whichever look is the last.
INTERVAL_TAIL = 0.005

FEWEST_CASES_TOGETHER = 3  # with fewer, the median would be a single case

# A pair counts for the whole suite if it measured at least this share of the cases that the most complete pair did.
LEAST_SHARE_OF_FULLEST = 0.9


class CaseStatus(StrEnum):
    """What the pairs so far say of a case."""

    CLEARED = "cleared"
    FLAGGED = "flagged"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Together:
    """The common shift of several cases, from one number per pair; ``estimate`` is a row of ``estimates``."""

    estimate: SimpleNamespace
    cases: int
    moved: bool
    resolvable: float


def p_value(estimate: Any, direction: Any) -> Any:
    """One-sided p-value of the mean in this direction (+1 slower, -1 faster)."""
    return noise.upper_tail(direction * estimate.mean_log_ratio / estimate.standard_error, estimate.df)


def half_width(estimate: Any, tail: float) -> Any:
    """Half width of the confidence interval with this tail probability on each side."""
    return estimate.standard_error * noise.upper_quantile(tail, estimate.df)


def interval(estimate: Any) -> tuple[float, float]:
    """The 99 % confidence interval of the log ratio, valid whichever look was the last."""
    half = half_width(estimate, estimate.interval_tail)
    return estimate.log_ratio - half, estimate.log_ratio + half


def hodges_lehmann(values: Floats) -> float:
    """The median of the pairwise means, self-pairs included: nearly as efficient as the mean, robust to outliers."""
    first, second = np.triu_indices(len(values))
    return float(np.median((values[first] + values[second]) / 2))


def estimates(
    log_ratios: Floats,
    log_time: Floats,
    others: tuple[Floats, Floats, Floats] | None = None,
    other_pairs: Floats | None = None,
) -> pd.DataFrame:
    """Each case's shift over its finite pairs (columns), one row per case; missing with fewer than two pairs.

    ``pairs``; ``log_ratio``, Hodges and Lehmann's estimate, positive when head is slower; ``mean_log_ratio`` with its
    ``standard_error`` and degrees of freedom ``df``; ``interval_tail``, the tail probability on each side of its
    interval. ``others`` holds variances, degrees of freedom and log times of other cases, which take part in moderating
    the variances. ``other_pairs`` holds more log ratios of the same cases, used for the variance only.
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
    """Variance and degrees of freedom of each case's pairs; both 0 with fewer than two."""
    count = np.isfinite(log_ratios).sum(axis=1, keepdims=True)
    squares = (log_ratios - np.nansum(log_ratios, axis=1, keepdims=True) / np.maximum(count, 1)) ** 2
    df = np.maximum(count[:, 0] - 1.0, 0.0)
    return np.nansum(squares, axis=1) / np.maximum(df, 1.0), df


def _pooled(variance: Floats, df: Floats, other: Floats, other_df: Floats) -> tuple[Floats, Floats]:
    """Pool two estimates of each variance."""
    both = df + other_df
    return (df * variance + other_df * other) / np.maximum(both, 1), both


def suspects(screened: pd.DataFrame) -> Floats:
    """The suspected direction of each case: +1 slower, -1 faster, 0 not a suspect."""
    direction = np.sign(screened["log_ratio"])
    surely = (screened["log_ratio"].abs() > SCREEN_SHIFT) & (p_value(screened, direction) < SCREEN_P)
    return np.where(surely, direction, 0.0)


def decide(
    screen: Floats, confirm: Floats, log_time: Floats, looks: Sequence[Look], judged: Sequence[bool]
) -> pd.DataFrame:
    """Decide every case (row) from its screening and confirming pairs (columns, NaN where not measured).

    Returns the columns of ``estimates``, from the confirming pairs of a suspect and else from the screening pairs, and
    ``status``, empty for a case without two screening pairs; ``direction`` as of ``suspects``; ``p_value``, adjusted
    for all suspects and all looks, missing if not a suspect (a case is flagged below PAIRS_ALPHA); ``resolvable``, the
    smallest shift that this experiment would have flagged.

    A case that is not ``judged`` is never suspected; it contributes only to the noise estimate. OPEN are suspects whose
    next look lacks pairs, and those that LEANING_P keeps open after the last look.
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
    """Whether the median case moved; None with too few cases or pairs.

    Uses only pairs that measured nearly all cases: later pairs hold the cases that earlier ones left unsettled, and
    selection shifts their median.
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
    """Holm's step-down procedure over the suspects, smallest p-value first.

    ``suspected`` holds the fresh estimates with their ``direction``. A suspect is flagged if its p-value times the
    number of suspects not yet flagged is below the look's share of PAIRS_ALPHA. These shares add up to PAIRS_ALPHA over
    all looks, which bounds the family-wise error rate.
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
    """Whether a suspect that was not flagged needs no more pairs."""
    shift, p_values = suspected["direction"] * suspected["log_ratio"], p_value(suspected, suspected["direction"])
    ruled_out = shift + half_width(suspected, RULED_OUT_P) < TO_BE_FOUND
    hopeless = (suspected["pairs"] >= HOPELESS_PAIRS) & (p_values > HOPELESS_P)
    leaning = (shift > SMALLEST_PAIRS_SHIFT) & (p_values < LEANING_P)
    settled: pd.Series[bool] = ruled_out | hopeless | (~leaning & final)
    return settled


def _resolvable(screened: pd.DataFrame, looks: Sequence[Look], suspected: int) -> pd.Series[float]:
    """The smallest shift that the planned confirming pairs would have flagged, by the spread of the screening pairs."""
    look = next(look for look in looks if look.final)
    error = screened["standard_error"] * np.sqrt(screened["pairs"] / look.pairs)
    found: pd.Series[float] = error * noise.upper_quantile(look.alpha / max(suspected, 1), screened["df"].to_numpy())
    return found.clip(lower=SMALLEST_PAIRS_SHIFT)


# The cases are evaluated after so many screening pairs; even numbers, so that both orders occur equally often.
SCREENING_LOOKS = (4, 6)

# Two pairs alone rule nothing out: an effect of the process on all cases has the same sign in both pairs half of the
# time. They suffice if every changed case moved by GROSS_SHIFT and no sentinel, which such an effect would move too,
# did.
EARLY_LOOK = 2

# Six times TO_BE_FOUND, and more than any case but a library's short calls varies between two processes
# (docs/results/starts.md).
GROSS_SHIFT = math.log1p(0.03)

# A case beyond SMALLEST_PAIRS_SHIFT with an unadjusted p-value below this is a suspect without further pairs.
PLAIN_P = 1e-4


def next_look(done: int, planned: int, *, early: bool = False) -> int:
    """The number of pairs at the next evaluation, at most ``planned``; ``early`` adds one after EARLY_LOOK."""
    looks = (EARLY_LOOK, *SCREENING_LOOKS) if early else SCREENING_LOOKS
    return min([planned, *(look for look in looks if look > done)])


def all_gross(screen: Floats, log_time: Floats, sentinels: Sequence[bool]) -> bool:
    """Whether all cases (rows) but the sentinels moved by GROSS_SHIFT in every pair; False without both kinds.

    The sentinels' means must stay within half of it. No p-value is needed: fresh pairs decide.
    """
    watched = np.array(sentinels, bool)
    others, suspected = screen[~watched], suspects(estimates(screen, log_time)) != 0
    if not watched.any() or watched.all() or not suspected[~watched].all():
        return False
    moved = (others > GROSS_SHIFT).all(axis=1) | (others < -GROSS_SHIFT).all(axis=1)
    stayed = np.abs(screen[watched].mean(axis=1)) < GROSS_SHIFT / 2
    return bool(moved.all() and stayed.all())


def unsettled(screen: Floats, log_time: Floats) -> list[int]:
    """The cases (rows) that need more than these pairs (columns of log ratios, NaN where not measured)."""
    found = estimates(screen, log_time)
    shift = found["log_ratio"].abs()
    plain = (shift > SMALLEST_PAIRS_SHIFT) & (p_value(found, np.sign(found["log_ratio"])) < PLAIN_P)
    ruled_out = shift + half_width(found, RULED_OUT_P) < TO_BE_FOUND
    settled = plain | (ruled_out & (suspects(found) == 0))
    rows: list[int] = np.flatnonzero(~settled).tolist()
    return rows
