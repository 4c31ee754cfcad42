"""How far two measurements of unchanged code differ: the noise that a shift must exceed.

Samples of one process share its state, so they are not replicates: sessions are. Where sessions were repeated, their
spread is estimated per case and moderated across cases (empirical Bayes); where they were not, a fixed rule says what
one run against one other run can resolve.

Everything is in natural logarithms of time, so a standard deviation of 0.01 is one percent.
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

# Smallest shift that one run against another can resolve when the spread between sessions is unknown: of the ordered
# pairs of 100 processes of one H200, 0.4 % differ by more in any case, 1.7 % by 3 % (lab/compared).
SINGLE_RUN_RESOLVABLE = math.log1p(0.035)

ONE_AGAINST_ONE = 2.0  # the sum over the sides of one over their sessions, where each has one

# Time that a process may add to each of its samples, and the share of the shortest kernels' that it is at most. One of
# 31 gate sessions of three H200s added 0.5 to 0.9 µs to the kernels under 60 µs (baselines/nvidia-h200/runs).
PROCESS_OFFSET_US = 1.2
SHORT_RESOLVABLE = math.log1p(0.13)

# How far off a single session may be in a case whose others repeat: of one case of 31 gate sessions of three H200s it
# was 1.3 %, of several of 100 processes of one up to 1.1 %.
ODD_SESSION = math.log1p(0.015)

# The speed of a short library call depends on where the library's own memory was placed, for a whole process: sessions
# of cuBLAS at 12 µs lay up to 13 % apart on one H200 (baselines/nvidia-h200/runs), SD 3.5 %.
SHORT_IN_A_LIBRARY_US = 20.0
LIBRARY_RESOLVABLE = math.log1p(0.15)

# A z value: resolvable shift in standard errors of the difference, from the samples within the two runs. Beyond it lie
# 6e-5 of normal differences, which is 1 % of gates of 160 cases.
SAMPLING_ERRORS = 4.0

# For normal noise: the SD in median absolute deviations, one over the upper quartile of a standard normal.
MAD_TO_SD = 1.4826

# Asymptotic efficiency of the median absolute deviation as an estimate of a normal SD (Hampel, 1974): it is as precise
# as the SD of this share of the values.
MAD_EFFICIENCY = 0.37

# No case repeats better than this between sessions; agreement beyond it is luck or the timer's steps.
CASE_SD_FLOOR = 0.0005

# Common shift of a whole session (temperature, another machine start): 0.03-0.3 % between two starts.
COMMON_SD_PRIOR = 0.0015
COMMON_DF_PRIOR = 4.0

# Sessions that agree to the timer's step have no variance, and no logarithm: the fit of the prior reads this share of
# the median instead. It is low, because cutting more of the lower tail makes the cases look alike.
LEAST_OF_TYPICAL = 1e-4

# Stands for infinitely many: cases whose variances differ by no more than chance share one.
MOST_PRIOR_DF = 1000.0

# Two variances of unknown mean say nothing of how far variances differ; limma's squeezeVar begins with three too.
FEWEST_CASES_TO_SQUEEZE = 3

# Fewer log variances fit a slope to their noise, and the median of fewer cases is a case's noise, not the session's:
# its standard error is 0.4 of a case's SD from ten.
FEWEST_CASES_FOR_TREND = 12
FEWEST_CASES_FOR_COMMON = 10


@dataclass(frozen=True, slots=True)
class Prior:
    """Prior common to the cases: a variance for each case and its degrees of freedom."""

    variance: Floats
    df: float


@dataclass(frozen=True, slots=True)
class SessionNoise:
    """Variance of one session's log median: ``case`` of its own, ``common`` to all cases of the session.

    ``case`` and ``case_df`` have one entry per case, NaN and 0 where no session was ever repeated.
    """

    case: Floats
    case_df: Floats
    common: float
    common_df: float

    def standard_error(self, sessions: Floats, sampling_variance: Floats) -> Floats:
        """Standard error of the difference of the two sides' mean log times, per case.

        ``sessions`` is the sum over the sides of one over their sessions. A session cannot repeat better than the
        samples in it allow: ``sampling_variance``, the variance of one session's median from its own samples, is the
        least the case's own part can be.
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


def fixed_resolvable(time_us: Floats, sampling_error: Floats, sessions: Floats | float, library: Bools) -> Floats:
    """The smallest log shift to trust where nothing is known of the spread between sessions, per case.

    ``time_us`` is the shorter of the two medians, ``sampling_error`` the standard error of the log ratio from the
    samples within the sessions, ``sessions`` the sum over the sides of one over their sessions: more of them narrow it
    as they narrow a mean. ``library`` is for what the driver or a vendor's library does.
    """
    between = np.maximum(SINGLE_RUN_RESOLVABLE, process_offset(time_us))
    short = library & (time_us < SHORT_IN_A_LIBRARY_US)
    between = np.where(short, np.maximum(between, LIBRARY_RESOLVABLE), between)
    found: Floats = np.maximum(np.sqrt(sessions / ONE_AGAINST_ONE) * between, SAMPLING_ERRORS * sampling_error)
    return found


def odd_session(time_us: Floats, fewest_sessions: Floats) -> Floats:
    """The log shift of the mean of so many sessions that one of them may cause, however well the others repeat."""
    found: Floats = np.maximum(ODD_SESSION, process_offset(time_us)) / fewest_sessions
    return found


def process_offset(time_us: Floats) -> Floats:
    """The log shift that a process's constant overhead per sample may cause."""
    return np.minimum(PROCESS_OFFSET_US / time_us, SHORT_RESOLVABLE)


def session_noise(residuals: Floats, df: Floats, log_time: Floats) -> SessionNoise | None:
    """Variance between sessions, from sessions that were repeated; None when none was.

    ``residuals`` (case, session) are log medians less the mean of their group of repeated sessions, NaN where a case
    has no repeat in that session; ``df`` is, for each case, its residuals less its groups. The part that moves a
    whole session together is separated by the median over cases, because it does not average out over cases; with
    few cases it stays in each case's own part.
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
    """Pull each case's variance towards what cases of its duration have: variances and degrees of freedom.

    A few sessions estimate a variance poorly, hundreds of cases estimate a typical one well; the posterior weighs
    the two by their degrees of freedom. Cases with no degrees of freedom stay NaN and 0. Source: Smyth, Linear
    models and empirical Bayes methods (2004), with a log-linear trend in duration for the prior.
    """
    known = df > 0
    prior = _fit_prior(variance[known], df[known], log_time[known])
    posterior, posterior_df = np.full(len(df), np.nan), np.zeros(len(df))
    posterior_df[known] = df[known] + prior.df
    posterior[known] = (prior.df * prior.variance + df[known] * variance[known]) / posterior_df[known]
    return np.maximum(posterior, CASE_SD_FLOOR**2), posterior_df


def surely(sd: Floats, df: Floats) -> Floats:
    """The lower 95 % confidence bound of a standard deviation that was estimated with so many degrees of freedom."""
    found: Floats = sd * np.sqrt(df / special.chdtri(df, 0.05))
    return found


def upper_quantile(probability: Floats | float, df: Floats | float) -> Any:
    """The value a t variable exceeds with this probability; an array where either is one."""
    return -special.stdtrit(df, probability)


def upper_tail(statistic: Floats | float, df: Floats | float) -> Any:
    """The probability that a t variable exceeds this value; an array where either is one."""
    return special.stdtr(df, -statistic)


def holm(p_values: Floats) -> Floats:
    """Holm's step-down adjusted p-values: rejecting below alpha keeps the error of the whole family below alpha."""
    order = np.argsort(p_values)
    steps = (len(p_values) - np.arange(len(p_values))) * p_values[order]
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def _fit_prior(variance: Floats, df: Floats, log_time: Floats) -> Prior:
    """Fit the scaled inverse chi-square prior by the moments of the log variances."""
    count = len(variance)
    if count < FEWEST_CASES_TO_SQUEEZE or (typical := float(np.median(variance))) == 0:
        return Prior(variance, 0.0)
    centred = np.log(np.maximum(variance, LEAST_OF_TYPICAL * typical)) - special.digamma(df / 2) + np.log(df / 2)
    trended = count >= FEWEST_CASES_FOR_TREND and float(np.ptp(log_time)) > 0
    fitted = np.polyval(np.polyfit(log_time, centred, 1), log_time) if trended else np.full(count, centred.mean())
    scatter = float(np.sum((centred - fitted) ** 2)) / (count - (2 if trended else 1))
    excess = scatter - float(np.mean(special.polygamma(1, df / 2)))
    prior_df = min(MOST_PRIOR_DF, 2 * _inverse_trigamma(excess))
    return Prior(np.exp(fitted + special.digamma(prior_df / 2) - np.log(prior_df / 2)), prior_df)


def _inverse_trigamma(value: float) -> float:
    """Solve ``trigamma(x) = value`` for ``x`` up to MOST_PRIOR_DF, which is the answer where no ``x`` is small enough.

    Bisection on a logarithmic scale: trigamma falls steadily.
    """
    low, high = 1e-4, MOST_PRIOR_DF
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if special.polygamma(1, middle) > value else (low, middle)
    return high
