"""How far below its measured fraction of peak the floor of a case must be to hold on every GPU of the model.

The fraction of peak of one session on one GPU is modelled, in logarithms, as

    y = mean of the model + difference of this GPU + difference of this session

with independent normal differences, of SD ``between`` and ``within``. From G GPUs with n sessions in all, the lower
prediction bound of one new session on a GPU not yet seen is

    mean of the GPUs' means - t(p, df) x sqrt(between^2 (1 + 1/G) + within^2 (1 + 1/n))

(one-way random effects; Hahn and Meeker, Statistical Intervals, 1991, prediction intervals; df by Welch and
Satterthwaite). p is 5e-5 per case, which is 1 % of runs of 200 cases. ``within`` is the largest of the case's own SD,
the one moderated across cases and the one known for its duration. ``between`` is pooled over the cases of a duration
class, since two or three GPUs say nothing about one case, and is never taken smaller than BETWEEN_SD. The floor is also
at least LEAST_MARGIN / sqrt(G) below the worst session measured. A case under 100 µs has room on top of all that for a
host that adds HOST_OFFSET_US to every sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from peakgate.reports.comparison import noise

FALSE_FAILURE_P = 5e-5
LEAST_MARGIN = 0.05

SHORT_US = 20.0
MEDIUM_US = 100.0

LIBRARY, SHORT, MEDIUM, LONG = "library call under 20 µs", "under 20 µs", "20 to 100 µs", "from 100 µs"

BETWEEN_SD = {LIBRARY: 0.015, SHORT: 0.015, MEDIUM: 0.0125, LONG: 0.0095}
"""SD between GPUs of one model, pooled by duration. Gate runs of three H200s (baselines/nvidia-h200/runs) have 1.06 %,
1.02 % and 0.88 % in 3, 17 and 164 cases; rounded up, more where there are few cases."""

WITHIN_SD = {LIBRARY: 0.035, SHORT: 0.009, MEDIUM: 0.004, LONG: 0.001}
"""Smallest SD between sessions of one GPU to reckon with; source as for BETWEEN_SD. A library's short calls have modes
of their own per process (3.5 %). ``noise.SHORT_KERNEL_SD`` adds to it below 7 µs."""

HOST_OFFSET_US = 1.5
"""What another host may add to every sample whatever the kernel, on top of the noise. The four GPUs of two
hosts with two NVLinked H200s each read 0.91 to 1.30 µs more (median of the cases under 60 µs) than those of one-GPU
hosts: the gates below lab/floors/runs against those in baselines/nvidia-h200/runs; rounded up."""

EXPECTED_DF = 30.0
"""Degrees of freedom of the SDs above: the cases share GPUs and sessions, so they count less than their number."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one case: the fractions of peak of its sessions, per GPU (none empty), and its median time."""

    time_us: float
    library: bool
    by_gpu: Mapping[str, Sequence[float]]

    @property
    def fractions(self) -> list[float]:
        return [fraction for sessions in self.by_gpu.values() for fraction in sessions]

    @property
    def duration(self) -> str:
        """The duration class, which decides what is expected of a case's noise."""
        if self.time_us < SHORT_US:
            return LIBRARY if self.library else SHORT
        return MEDIUM if self.time_us < MEDIUM_US else LONG


@dataclass(frozen=True, slots=True)
class FloorBound:
    """A floor before rounding, as a fraction of peak, and the relative SDs it rests on."""

    floor: float
    within_sd: float
    between_sd: float


def bounds(evidence: Mapping[str, Evidence]) -> dict[str, FloorBound]:
    """The lowest fraction of peak that unchanged code should reach, per case; fractions are above 0."""
    within = _within(evidence)
    between = _between(evidence)
    found = {}
    for case, known in evidence.items():
        within_sd, within_df = within[case]
        found[case] = _bound(known, within_sd, within_df, between[known.duration])
    return found


def room(floor: float, fractions: Sequence[float]) -> float:
    """The slowdown that is below the floor on every GPU measured, as a fraction of the time: best session to floor."""
    return max(fractions) / floor - 1


def with_host_offset(fraction: float, time_us: float) -> float:
    """The fraction of peak that is left when a host adds HOST_OFFSET_US to ``time_us``."""
    return fraction / (1 + HOST_OFFSET_US / time_us)


def _bound(known: Evidence, within_sd: float, within_df: float, between_sd: float) -> FloorBound:
    gpus, sessions = len(known.by_gpu), len(known.fractions)
    of_gpu = between_sd**2 * (1 + 1 / gpus)
    of_session = within_sd**2 * (1 + 1 / sessions)
    df = (of_gpu + of_session) ** 2 / (of_gpu**2 / EXPECTED_DF + of_session**2 / within_df)
    distance = noise.upper_quantile(FALSE_FAILURE_P, df) * math.sqrt(of_gpu + of_session)
    centre = float(np.mean([np.mean(np.log(fractions)) for fractions in known.by_gpu.values()]))
    worst = min(known.fractions) * (1 - LEAST_MARGIN / math.sqrt(gpus))
    floor = min(math.exp(centre - distance), worst)
    if known.duration != LONG:  # from 100 µs the offset is at most 1.5 %, a third of the distance
        floor = with_host_offset(floor, known.time_us)
    return FloorBound(floor, within_sd, between_sd)


def _within(evidence: Mapping[str, Evidence]) -> dict[str, tuple[float, float]]:
    """SD between sessions of one GPU and its degrees of freedom, per case."""
    sums, df = [], []
    for known in evidence.values():
        logs = [np.log(fractions) for fractions in known.by_gpu.values()]
        sums.append(sum(float(np.sum((each - each.mean()) ** 2)) for each in logs))
        df.append(sum(len(each) - 1 for each in logs))
    freedom = np.array(df, dtype=float)
    variance = np.array(sums) / np.maximum(freedom, 1)
    log_time = np.log([known.time_us for known in evidence.values()])
    moderated, moderated_df = noise.squeeze(variance, freedom, log_time)
    found = {}
    for index, (case, known) in enumerate(evidence.items()):
        expected = max(WITHIN_SD[known.duration], noise.short_kernel_sd(known.time_us))
        measured = math.sqrt(max(variance[index], float(moderated[index]))) if freedom[index] else 0.0
        # The expected SD is known from many sessions, one measured here only from the case's own.
        found[case] = (expected, EXPECTED_DF) if measured <= expected else (measured, float(moderated_df[index]))
    return found


def _between(evidence: Mapping[str, Evidence]) -> dict[str, float]:
    """SD between GPUs, per duration class."""
    variances: dict[str, list[float]] = {duration: [] for duration in BETWEEN_SD}
    for known in evidence.values():
        if len(known.by_gpu) > 1:
            means = [float(np.mean(np.log(fractions))) for fractions in known.by_gpu.values()]
            variances[known.duration].append(float(np.var(means, ddof=1)))
    return {
        duration: max(least, math.sqrt(np.mean(variances[duration])) if variances[duration] else 0.0)
        for duration, least in BETWEEN_SD.items()
    }
