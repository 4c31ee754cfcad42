"""Estimates the noise between sessions of unchanged code, which a shift must exceed.

Samples of one process share its state, so the replicates are sessions, not samples. The spread of repeated sessions is
estimated per case and moderated across cases (empirical Bayes); without repeats, a fixed rule gives the smallest shift
that one run against one other detects.

All values are natural logarithms of time, so a standard deviation of 0.01 is one percent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Positions = NDArray[np.intp]

# Smallest shift detectable by one run against one other if the spread between sessions is unknown. Of the ordered pairs
# of 100 processes on one H200, 0.4 % differ by more in any case, 1.7 % differ by more than 3 % (lab/compared).
SINGLE_RUN_RESOLVABLE = math.log1p(0.035)

ONE_AGAINST_ONE = 2.0  # sum of 1 / sessions over the sides, with one session each

# Time that a process may add to each of its samples, and the largest log shift that this causes in the shortest
# kernels. One of 31 gate sessions on three H200s added 0.5 to 0.9 µs to the kernels under 60 µs
# (baselines/nvidia-h200/runs).
PROCESS_OFFSET_US = 1.2
SHORT_RESOLVABLE = math.log1p(0.13)

# Largest deviation of a single outlying session in a case whose other sessions agree: 1.3 % in one case of 31 gate
# sessions on three H200s, up to 1.1 % in several cases of 100 processes on one.
ODD_SESSION = math.log1p(0.015)

# The speed of a short library call depends, for a whole process, on where the library's own memory was placed: sessions
# of cuBLAS at 12 µs differed by up to 13 % on one H200 (baselines/nvidia-h200/runs), SD 3.5 %.
SHORT_IN_A_LIBRARY_US = 20.0
LIBRARY_RESOLVABLE = math.log1p(0.15)

# A process takes more or less time for all of its calls on the host, by what else its cores run and where its memory
# is: two single sessions may differ by this much (tests/data/launches/h200.json). Hosts of one GPU model differ by a
# fifth, of which this is the SD.
HOST_RESOLVABLE = math.log1p(0.5)
HOST_SD = 0.1

# A step up to this size of the time on the host may be another host's, or this one's after a restart.
OF_ANOTHER_HOST = math.log1p(0.25)

# Detectable shift in standard errors from the samples within the two runs (a z value). 6e-5 of normal differences
# exceed it, which is 1 % of gates of 160 cases.
SAMPLING_ERRORS = 4.0

# Ratio of SD to median absolute deviation for normal noise: 1 / (upper quartile of the standard normal).
MAD_TO_SD = 1.4826

# Asymptotic efficiency of the median absolute deviation as an estimate of a normal SD (Hampel, 1974).
MAD_EFFICIENCY = 0.37

# Lower limit of the SD between sessions; closer agreement is chance or the timer's resolution.
CASE_SD_FLOOR = 0.0005

# Common shift of a whole session (temperature, restart of the machine): 0.03-0.3 % between two starts.
COMMON_SD_PRIOR = 0.0015
COMMON_DF_PRIOR = 4.0

# Sessions that agree to the timer's resolution have variance 0, whose logarithm is infinite: the prior's fit replaces
# it by this share of the median. It is small because truncating more of the lower tail would make the cases look alike.
LEAST_OF_TYPICAL = 1e-4

# Stands for infinity, if the cases' variances differ by no more than chance.
MOST_PRIOR_DF = 1000.0

# Two variances do not show how much variances differ; limma's squeezeVar also needs three.
FEWEST_CASES_TO_SQUEEZE = 3

# With fewer cases, a trend would be fitted to noise, and the median over cases would reflect single cases rather than
# the session: with ten, its standard error is 0.4 of a case's SD.
FEWEST_CASES_FOR_TREND = 12
FEWEST_CASES_FOR_COMMON = 10


@dataclass(frozen=True, slots=True)
class SessionNoise:
    """Variance of one session's log median: a part of each ``case``, and a part ``common`` to all cases of the session.

    ``case`` and ``case_df`` have one entry per case, NaN and 0 without repeated sessions.
    """

    case: Floats
    case_df: Floats
    common: float
    common_df: float

    def standard_error(self, sessions: Floats, sampling_variance: Floats) -> Floats:
        """Standard error of the difference of the two sides' mean log times, per case.

        ``sessions`` is the sum of 1 / sessions over the sides. ``sampling_variance``, the variance of one session's
        median from its own samples, is the lower limit of the case's part.
        """
        error: Floats = np.sqrt((np.maximum(self.case, sampling_variance) + self.common) * sessions)
        return error

    @property
    def df(self) -> Floats:
        """Degrees of freedom of ``case`` and ``common`` together (Welch and Satterthwaite), per case."""
        with np.errstate(divide="ignore", invalid="ignore"):
            df: Floats = (self.case + self.common) ** 2 / (
                self.case**2 / self.case_df + self.common**2 / self.common_df
            )
        return df


def fixed_resolvable(
    time_us: Floats, sampling_error: Floats, sessions: Floats | float, library: Bools, *, of_host: bool = False
) -> Floats:
    """The smallest log shift to flag if the spread between sessions is unknown, per case.

    ``time_us`` is the shorter of the two medians, ``sampling_error`` the standard error of the log ratio from the
    samples within the sessions, ``sessions`` the sum of 1 / sessions over the sides. ``library`` marks cases that run
    in the driver or a vendor's library. ``of_host``: the times are the host's.
    """
    between = np.maximum(SINGLE_RUN_RESOLVABLE, process_offset(time_us, of_host=of_host))
    short = library & (time_us < SHORT_IN_A_LIBRARY_US)
    between = np.where(short, np.maximum(between, LIBRARY_RESOLVABLE), between)
    found: Floats = np.maximum(np.sqrt(sessions / ONE_AGAINST_ONE) * between, SAMPLING_ERRORS * sampling_error)
    return found


def odd_session(time_us: Floats, fewest_sessions: Floats, *, of_host: bool = False) -> Floats:
    """The log shift that one outlying session may cause in the mean of ``fewest_sessions``."""
    found: Floats = np.maximum(ODD_SESSION, process_offset(time_us, of_host=of_host)) / fewest_sessions
    return found


def process_offset(time_us: Floats, *, of_host: bool = False) -> Floats:
    """The log shift that a process's constant overhead per sample may cause, or its share of the host's times."""
    return (
        np.full_like(time_us, HOST_RESOLVABLE) if of_host else np.minimum(PROCESS_OFFSET_US / time_us, SHORT_RESOLVABLE)
    )


def session_noise(residuals: Floats, df: Floats, log_time: Floats) -> SessionNoise | None:
    """Variance between sessions, estimated from repeated sessions; None without any.

    ``residuals`` (case, session) are log medians less the mean of their group of repeated sessions, NaN if a case has
    no repeat in that session; ``df`` is the number of residuals less that of groups, by case. The part common to a
    session is estimated by the median over cases, because it does not average out over cases; with few cases it stays
    in each case's own part.
    """
    repeated = df > 0
    if not repeated.any():
        return None
    own = residuals
    common, common_df = 0.0, COMMON_DF_PRIOR
    if np.count_nonzero(repeated) >= FEWEST_CASES_FOR_COMMON:
        used = residuals[:, ~np.isnan(residuals[repeated]).all(axis=0)]
        together = np.nanmedian(used[repeated], axis=0)
        own = used - together
        typical_df = float(np.median(df[repeated]))
        common_df = COMMON_DF_PRIOR + typical_df
        common = (COMMON_DF_PRIOR * COMMON_SD_PRIOR**2 + float(np.sum(together**2))) / common_df
    variance = np.full(len(df), np.nan)
    variance[repeated] = np.nansum(own[repeated] ** 2, axis=1) / df[repeated]
    squeezed, squeezed_df = squeeze(variance, df, log_time)
    return SessionNoise(squeezed, squeezed_df, common, common_df)


def squeeze(variance: Floats, df: Floats, log_time: Floats) -> tuple[Floats, Floats]:
    """Moderate each case's variance toward that of cases of its duration; return variances and degrees of freedom.

    The posterior weights a case's own variance and the prior by their degrees of freedom. Cases without degrees of
    freedom give NaN and 0. The prior is a scaled inverse chi-square distribution, fitted by the moments of the log
    variances. Source: Smyth, Linear models and empirical Bayes methods (2004), with a log-linear trend in duration for
    the prior.
    """
    known = df > 0
    own, own_df, times, count = variance[known], df[known], log_time[known], np.count_nonzero(known)
    prior, prior_df = own, 0.0
    if count >= FEWEST_CASES_TO_SQUEEZE and (typical := float(np.median(own))) != 0:
        centred = np.log(np.maximum(own, LEAST_OF_TYPICAL * typical)) - special.digamma(own_df / 2) + np.log(own_df / 2)
        trended = count >= FEWEST_CASES_FOR_TREND and float(np.ptp(times)) > 0
        fitted = np.polyval(np.polyfit(times, centred, 1), times) if trended else np.full(count, centred.mean())
        scatter = float(np.sum((centred - fitted) ** 2)) / (count - (2 if trended else 1))
        excess = scatter - float(np.mean(special.polygamma(1, own_df / 2)))
        prior_df = min(MOST_PRIOR_DF, 2 * _inverse_trigamma(excess))
        prior = np.exp(fitted + special.digamma(prior_df / 2) - np.log(prior_df / 2))
    posterior, posterior_df = np.full(len(df), np.nan), np.zeros(len(df))
    posterior_df[known] = own_df + prior_df
    posterior[known] = (prior_df * prior + own_df * own) / posterior_df[known]
    return np.maximum(posterior, CASE_SD_FLOOR**2), posterior_df


def surely(sd: Floats, df: Floats) -> Floats:
    """The lower 95 % confidence bound of a standard deviation estimated with ``df`` degrees of freedom."""
    found: Floats = sd * np.sqrt(df / special.chdtri(df, 0.05))
    return found


def upper_quantile(probability: Floats | float, df: Floats | float) -> Any:
    """The value that a t variable exceeds with this probability; broadcasts."""
    return -special.stdtrit(df, probability)


def upper_tail(statistic: Floats | float, df: Floats | float) -> Any:
    """The probability that a t variable exceeds this value; broadcasts."""
    return special.stdtr(df, -statistic)


def holm(p_values: Floats) -> Floats:
    """Holm's step-down adjusted p-values."""
    order = np.argsort(p_values)
    steps = (len(p_values) - np.arange(len(p_values))) * p_values[order]
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def _inverse_trigamma(value: float) -> float:
    """Solve ``trigamma(x) = value`` for ``x`` by bisection; at most MOST_PRIOR_DF."""
    low, high = 1e-4, MOST_PRIOR_DF
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if special.polygamma(1, middle) > value else (low, middle)
    return high
