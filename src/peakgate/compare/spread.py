"""Tests whether the spread of a case's times grew, which its mean does not show; pure.

Two spreads are compared between the sides, over their sessions (in ``ab``: processes):

- of the times between sessions, by the ratio of their variances: an F test whose degrees of freedom Box and Andersen
  (1955, Permutation theory in the derivation of robust criteria) correct for the kurtosis of the residuals, here of all
  cases together. What one outlying session adds to a variance is subtracted first, as ``compare`` subtracts it from a
  shift;
- of the samples within sessions, by the mean logarithm of their SD (Bartlett and Kendall, 1946), whose variance is that
  between sessions, moderated across cases (empirical Bayes), and at least that of the samples.

Growth is reported if significant at 1 % (Holm-adjusted over all cases and both tests), to at least LEAST_GROWTH times
the old SD and at least SMALLEST_SPREAD. It does not affect the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.compare import noise
from peakgate.compare.evidence import places
from peakgate.compare.noise import Floats
from peakgate.compare.result import SpreadFinding
from peakgate.runfile.frame import is_usable
from peakgate.runfile.saved import MEDIAN_ERROR_IN_SDS

# Level of the test; smallest growth and smallest relative SD that are reported.
SPREAD_ALPHA = 0.01
LEAST_GROWTH = 2.0
SMALLEST_SPREAD = 0.005

FEWEST_OF_A_SIDE = 4  # sessions that a side needs to estimate the variance between them

# Variance of the logarithm of an interquartile range of n normal values, times n (Kendall and Stuart, 10.12: the
# quartiles' asymptotic variances). The samples of a batch share the placement of their arrays, so n counts batches.
BATCH = 6
LOG_IQR_VARIANCE = 1.36

NORMAL_KURTOSIS = 3.0
BETWEEN_SESSIONS, WITHIN_SESSIONS = "between sessions", "of the samples of a session"


@dataclass(frozen=True, slots=True)
class SideSpread:
    """A side's measurements by case (row) and session (column); NaN if not timed.

    ``log_time`` is the logarithm of the time in microseconds, ``sample_sd`` the relative SD of a session's samples,
    ``samples`` their number.
    """

    log_time: Floats
    sample_sd: Floats
    samples: Floats


def of_rows(rows: pd.DataFrame, cases: pd.Index[str]) -> SideSpread:
    """The measurements of ``cases`` in a side's frame of runs, which has each case of a run once."""
    place, session = places(rows, cases), pd.factorize(rows["run"])[0]
    timed = (place >= 0) & is_usable(rows)
    samples = rows["samples"].to_numpy(np.float64)
    sample_sd = sd_of_samples(rows["sampling_error"].to_numpy(np.float64), samples)
    found = np.full((3, len(cases), session.max() + 1), np.nan)
    figures = np.log(rows["time_us"].to_numpy(np.float64, na_value=np.nan)), sample_sd, samples
    found[:, place[timed], session[timed]] = [each[timed] for each in figures]
    return SideSpread(*found)


def sd_of_samples(sampling_error: Floats, samples: Floats) -> Floats:
    """The relative SD of a session's samples, from the standard error of their median."""
    return sampling_error * np.sqrt(samples) / MEDIAN_ERROR_IN_SDS


def grown(cases: Sequence[str], before: SideSpread, after: SideSpread, *, between: bool = True) -> list[SpreadFinding]:
    """The cases (rows of both sides) whose spread grew, the smallest p-value first.

    Within sessions, and unless ``between`` is False also between them.
    """
    kinds = {BETWEEN_SESSIONS: between_sessions(before.log_time, after.log_time)} if between else {}
    kinds[WITHIN_SESSIONS] = within_sessions(before, after)
    sds = np.concatenate([found[:2] for found in kinds.values()], axis=1)
    p_values = np.concatenate([found[2] for found in kinds.values()])
    tested = np.flatnonzero(~np.isnan(p_values))
    adjusted = noise.holm(p_values[tested])
    named = [(case, kind) for kind in kinds for case in cases]
    findings = []
    for at, p_value in zip(tested, adjusted, strict=True):
        (case, kind), (before_sd, after_sd) = named[at], sds[:, at].tolist()
        if p_value < SPREAD_ALPHA and after_sd >= max(LEAST_GROWTH * before_sd, SMALLEST_SPREAD):
            findings.append(SpreadFinding(case, kind, 100 * before_sd, 100 * after_sd, float(p_value)))
    return sorted(findings, key=lambda each: (each.p_value, -each.growth))


def between_sessions(before: Floats, after: Floats) -> Floats:
    """Three rows by case: the relative SDs between sessions of both sides, and the p-value of growth.

    All NaN if a side has fewer than FEWEST_OF_A_SIDE sessions.
    """
    counts = [np.isfinite(side).sum(axis=1) for side in (before, after)]
    tested = np.minimum(*counts) >= FEWEST_OF_A_SIDE
    found = np.full((3, len(tested)), np.nan)
    if not tested.any():
        return found
    residuals = [side[tested] - np.nanmean(side[tested], axis=1, keepdims=True) for side in (before, after)]
    sizes = [count[tested].astype(np.float64) for count in counts]
    variances = [np.nansum(each**2, axis=1) / (size - 1) for each, size in zip(residuals, sizes, strict=True)]
    least = [np.maximum(each, noise.CASE_SD_FLOOR**2) for each in variances]
    time_us = np.exp(np.fmin(np.nanmean(before[tested], axis=1), np.nanmean(after[tested], axis=1)))
    odd = noise.odd_session(time_us, np.ones(len(time_us)))
    ratio = np.maximum(variances[1] - odd**2 / sizes[1], 0.0) / least[0]
    standardised = np.hstack([each / np.sqrt(own)[:, None] for each, own in zip(residuals, least, strict=True)])
    total = sizes[0] + sizes[1]
    fourth, second = (np.nansum(standardised**power, axis=1) for power in (4, 2))
    known = second > 0
    kurtosis = float(np.mean(((total + 2) * fourth)[known] / second[known] ** 2)) if known.any() else NORMAL_KURTOSIS
    corrected = 1 / (1 + max(kurtosis - NORMAL_KURTOSIS, 0.0) / 2)
    p_value = special.fdtrc(corrected * (sizes[1] - 1), corrected * (sizes[0] - 1), ratio)
    found[:, tested] = np.sqrt(least[0]), np.sqrt(least[1]), p_value
    return found


def within_sessions(before: SideSpread, after: SideSpread) -> Floats:
    """Three rows by case: the relative SDs of a session's samples on both sides, and the p-value of growth.

    All NaN if a side has no session.
    """
    sides = (before, after)
    logs = [np.log(np.hypot(side.sample_sd, noise.CASE_SD_FLOOR)) for side in sides]
    counts = [np.isfinite(each).sum(axis=1) for each in logs]
    tested = np.minimum(*counts) > 0
    found = np.full((3, len(tested)), np.nan)
    if not tested.any():
        return found
    logs, sizes = [each[tested] for each in logs], [count[tested].astype(np.float64) for count in counts]
    means = [np.nanmean(each, axis=1) for each in logs]
    squares = [np.nansum((each - mean[:, None]) ** 2, axis=1) for each, mean in zip(logs, means, strict=True)]
    batches = [np.nanmean(np.maximum(side.samples[tested] / BATCH, 1.0), axis=1) for side in sides]
    df = sizes[0] + sizes[1] - 2
    log_time = np.nanmean(np.hstack([side.log_time[tested] for side in sides]), axis=1)
    between = np.zeros(len(df))
    total_df = np.full(len(df), math.inf)
    if (df > 0).any():
        moderated, moderated_df = noise.squeeze((squares[0] + squares[1]) / np.maximum(df, 1), df, log_time)
        between, total_df = np.where(df > 0, moderated, 0.0), np.where(df > 0, moderated_df, math.inf)
    variance = sum(
        np.maximum(between, LOG_IQR_VARIANCE / number) / size for number, size in zip(batches, sizes, strict=True)
    )
    p_value = noise.upper_tail((means[1] - means[0]) / np.sqrt(variance), total_df)
    found[:, tested] = np.exp(means[0]), np.exp(means[1]), p_value
    return found
