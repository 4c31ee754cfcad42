"""Computes how far below a case's measured fraction of peak its floor must be to hold on every GPU of the model.

The fraction of peak of one session on one GPU is modelled, in logarithms, as

    y = mean of the GPU model + effect of this GPU + effect of this session

with independent normal effects of SD ``between`` and ``within``. From G GPUs with n sessions in total, the lower
prediction bound of one new session on an unmeasured GPU is

    mean of the GPUs' means - t(p, df) x sqrt(between^2 (1 + 1/G) + within^2 (1 + 1/n))

(one-way random effects; Hahn and Meeker, Statistical Intervals, 1991, prediction intervals; df by Welch and
Satterthwaite). p is 5e-5 per case, which is 1 % of runs of 200 cases. ``within`` is the largest of the case's own SD,
the one moderated across cases and the one known for its duration. ``between`` is the case's own, moderated towards what
cases of its duration have (empirical Bayes; Smyth 2004), since two or three GPUs say little about one case. The floor
is also at least LEAST_MARGIN / sqrt(G) below the worst session measured. For a case under 100 µs, the floor also allows
for a host that adds HOST_OFFSET_US to every sample.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.compare import noise
from peakgate.compare.noise import Floats

FALSE_FAILURE_P = 5e-5
LEAST_MARGIN = 0.05

SHORT_US = 20.0
MEDIUM_US = 100.0

LIBRARY, SHORT, MEDIUM, LONG = "library call under 20 µs", "under 20 µs", "20 to 100 µs", "from 100 µs"

BETWEEN_SD = {LIBRARY: 0.015, SHORT: 0.015, MEDIUM: 0.0095, LONG: 0.0095}
"""Smallest prior SD between GPUs of one model, by duration. The SD of 15 H200s, pooled over 164 cases from 100 µs, is
0.85 %; with it, a fifteenth GPU fell below a floor set by the other fourteen, with a tenth more it did not
(lab/floors). Cases of 20 to 100 µs vary by as much, apart from the host's share (HOST_OFFSET_US)."""

BETWEEN_DF = 10.0
"""Degrees of freedom of that prior. Maximum likelihood over the same cases gives 4 to 6, but they share GPUs and have
similar kernels. With 10, floors from one GPU failed on none of the 14 others and detect 82 % of sessions that are 10 %
slower (cases from 100 µs); with 6 they detect 4 %, and without a prior per case 99 %, but 6 % of the GPUs fail."""

WITHIN_SD = {LIBRARY: 0.035, SHORT: 0.009, MEDIUM: 0.004, LONG: 0.001}
"""Smallest SD between sessions of one GPU (baselines/nvidia-h200/runs). A library's short calls have modes that differ
between processes (3.5 %). ``SHORT_KERNEL_SD`` adds to it below 7 µs."""

SHORT_KERNEL_SD = ((5.0, 0.026), (7.0, 0.016), (20.0, 0.009))
"""(upper limit of the time in microseconds, SD between sessions). The medians of 24 processes on an H200 had SDs of
2.4-2.9, 1.0-1.7 and 0.7 %. A kernel of 18 µs had 0.9 % over ten sessions on each of three H200s, 0.3 to 1.4 % per GPU
(baselines/nvidia-h200/runs)."""

HOST_OFFSET_US = 1.5
"""Time that another host may add to every sample of any kernel, in addition to the noise. The four GPUs of two hosts
with two NVLinked H200s each were slower by 0.91 to 1.30 µs (median of the cases under 60 µs) than those of one-GPU
hosts (lab/floors/runs against baselines/nvidia-h200/runs); rounded up."""

WITHIN_DF = 30.0
"""Degrees of freedom of WITHIN_SD: fewer than the number of cases, which share GPUs and sessions."""


def durations(time_us: pd.Series[float], library: pd.Series[bool]) -> pd.Series[str]:
    """The duration class of each case, which selects the priors of its noise."""
    short = np.where(library, LIBRARY, SHORT)
    found = np.select([time_us < SHORT_US, time_us < MEDIUM_US], [short, np.full(len(short), MEDIUM)], LONG)
    return pd.Series(found, time_us.index)


def bounds(sessions: pd.DataFrame) -> pd.DataFrame:
    """The lowest fraction of peak that unchanged code should reach, one row per case in order of appearance.

    ``sessions`` has one row per session of a case, oldest first: ``case``, ``gpu``, ``time_us``, ``library`` and
    ``peak_fraction`` (positive). Returned columns: ``floor`` before rounding; the relative SDs ``within_sd`` and
    ``between_sd``; ``duration``; for a session on an unmeasured GPU ``expected``, its relative SD ``new_sd`` and
    ``df``; and of the sessions ``sessions``, ``gpus``, ``time_us`` (median), ``median``, ``best``, ``worst`` and
    ``spread``.
    """
    rows = sessions.assign(log=np.log(sessions["peak_fraction"]))
    by_case = rows.groupby("case", sort=False)
    found = by_case.agg(
        sessions=("log", "size"),
        gpus=("gpu", "nunique"),
        time_us=("time_us", "median"),
        library=("library", "last"),
        median=("peak_fraction", "median"),
        best=("peak_fraction", "max"),
        worst=("peak_fraction", "min"),
        spread=("log", "std"),
    )
    found["duration"] = durations(found["time_us"], found["library"])
    means = rows.groupby(["case", "gpu"], sort=False)["log"].mean().groupby("case", sort=False)

    # The SD between sessions of one GPU, and its degrees of freedom.
    of_one = rows.groupby(["case", "gpu"], sort=False)["log"]
    squares = (rows["log"] - of_one.transform("mean")) ** 2
    sums = squares.groupby(rows["case"], sort=False).sum().to_numpy()
    freedom = (found["sessions"] - found["gpus"]).to_numpy(np.float64)
    variance = sums / np.maximum(freedom, 1)
    time_us = found["time_us"].to_numpy()
    moderated, moderated_df = noise.squeeze(variance, freedom, np.log(time_us))
    limits_us, sds = zip(*SHORT_KERNEL_SD, strict=True)
    usual = np.select([time_us < limit_us for limit_us in limits_us], sds, 0.0)
    expected = np.maximum([WITHIN_SD[duration] for duration in found["duration"]], usual)
    measured = np.where(freedom > 0, np.sqrt(np.fmax(variance, moderated)), 0.0)
    # The expected SD rests on many sessions, the measured one on the case's own only.
    found["within_sd"] = np.maximum(expected, measured)
    within_df = pd.Series(np.where(measured <= expected, WITHIN_DF, moderated_df), found.index)

    found["between_sd"], between_df = _between(found, means.var().fillna(0.0))
    of_gpu = found["between_sd"] ** 2 * (1 + 1 / found["gpus"])
    of_session = found["within_sd"] ** 2 * (1 + 1 / found["sessions"])
    found["new_sd"] = np.sqrt(of_gpu + of_session)
    found["df"] = found["new_sd"] ** 4 / (of_gpu**2 / between_df + of_session**2 / within_df)
    found["expected"] = np.exp(means.mean())
    distance = noise.upper_quantile(FALSE_FAILURE_P, found["df"].to_numpy(np.float64)) * found["new_sd"]
    least = found["worst"] * (1 - LEAST_MARGIN / np.sqrt(found["gpus"]))
    floor = np.minimum(found["expected"] * np.exp(-distance), least)
    # From 100 µs the host's offset is at most 1.5 %, a third of the distance.
    return found.assign(floor=floor.where(found["duration"] == LONG, floor / (1 + HOST_OFFSET_US / found["time_us"])))


def power(found: pd.DataFrame, floors: pd.Series[float], slowdown: float) -> pd.Series[float]:
    """The probability that a session on any GPU of the model is below these floors if slower by ``slowdown``.

    ``found`` are rows of ``bounds``; ``slowdown`` is relative, 0.1 for 10 %.
    """
    expected, sd, df = (found[name].to_numpy(np.float64) for name in ("expected", "new_sd", "df"))
    distance = np.log(expected) - np.log(floors.to_numpy(np.float64)) - math.log1p(slowdown)
    return pd.Series(noise.upper_tail(distance / sd, df), found.index)


def _between(found: pd.DataFrame, variance: pd.Series[float]) -> tuple[Floats, Floats]:
    """SD between GPUs of each case and its degrees of freedom; ``variance``: of the GPUs' means, 0 with one GPU."""
    df = (found["gpus"] - 1).to_numpy(np.float64)
    prior = found["duration"].map(BETWEEN_SD).to_numpy(np.float64) ** 2
    for duration, least_sd in BETWEEN_SD.items():
        cases = (found["duration"] == duration).to_numpy() & (df > 0)
        if cases.any():
            # The prior whose F distribution has its median at the median of the cases' variances: robust to single
            # cases.
            usual = np.median(variance[cases]) / special.fdtri(np.median(df[cases]), BETWEEN_DF, 0.5)
            prior[found["duration"] == duration] = max(least_sd**2, usual)
    found_variance = (BETWEEN_DF * prior + df * variance.to_numpy(np.float64)) / (BETWEEN_DF + df)
    return np.sqrt(found_variance), BETWEEN_DF + df
