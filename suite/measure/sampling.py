"""How many samples a case gets, and which of them count.

Few samples a process: the process, not the sample, is the replicate of a comparison, so a sample past the point
where the median of this process is known well enough buys nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

THROTTLED_BELOW = 0.90
"""A sample is throttled when the SM clock fell under this fraction of the GPU's highest clock.

A GPU at its power cap runs steadily at 95 % and more of it (an H200 under a large SGEMM: 1905 of 1980 MHz), which
is how that kernel runs on that GPU; thermal slow-down and other people's load go well below."""

MOST_DISCARDED = 0.5
"""With more than this share of its samples discarded a case is inconclusive."""


TRIMMED = 0.05
"""Share of the samples that the trimmed mean leaves out at either end."""

LEAST_BATCHES = 4
"""The fewest batches whose scatter can be estimated."""

LONG_US, LONG_BATCH = 1_000.0, 2
"""A kernel that takes this long has so many samples per batch: its samples differ less than its placements do."""


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """When a case has been sampled enough.

    Sampling goes in batches, each with the arrays elsewhere in memory, and stops once ``min_samples`` are there and
    either the batches agree, so that the standard error of their middle is at most ``target_relative_error``, or
    ``budget_us`` of device time or ``max_samples`` are used up. LEAST_BATCHES are enough where these are used up.
    """

    min_samples: int = 12
    max_samples: int = 480
    target_relative_error: float = 0.002
    budget_us: float = 20_000.0
    batch: int = 6
    warmup: int = 2

    def done(self, batches_us: Sequence[Sequence[float]], discarded: int = 0) -> bool:
        """Whether these samples are enough, or so many were discarded that more would not help."""
        taken = sum(len(batch) for batch in batches_us)
        used_up = taken >= self.max_samples or sum(map(sum, batches_us)) >= self.budget_us
        if discarded >= self.max_samples or (discarded >= 4 * self.min_samples and discarded > taken):
            return True
        if taken < self.min_samples:
            return used_up and sum(map(bool, batches_us)) >= LEAST_BATCHES
        return used_up or relative_error(batches_us) <= self.target_relative_error

    def batch_of(self, time_us: float | None) -> int:
        """Samples in the next batch of a kernel that takes this long; None: not known before the first."""
        return self.batch if time_us is not None and time_us < LONG_US else min(self.batch, LONG_BATCH)


@dataclass(frozen=True, slots=True)
class Samples:
    """What one process measured of one case: kept times, their SM clocks (None: unknown), how many were discarded.

    ``control_us`` is what this process measured of the control kernel; None where it did not.
    """

    times_us: tuple[float, ...]
    sm_clocks_mhz: tuple[float | None, ...]
    discarded: int
    method: str
    control_us: float | None = None

    @property
    def median_us(self) -> float:
        return statistics.median(self.times_us)

    @property
    def trimmed_mean_us(self) -> float:
        """The mean of the samples but for the lowest and highest of them.

        Samples of one kernel have several values in turn, by their place in the batch, and the timer has steps: the
        median jumps between them, the mean does not.
        """
        return trimmed_mean(self.times_us)

    @property
    def median_sm_clock_mhz(self) -> float | None:
        known = [clock for clock in self.sm_clocks_mhz if clock is not None]
        return statistics.median(known) if known else None

    @property
    def conclusive(self) -> bool:
        """Whether enough samples ran undisturbed."""
        taken = len(self.times_us) + self.discarded
        return bool(self.times_us) and self.discarded <= MOST_DISCARDED * taken


def gather(
    plan: SamplingPlan,
    highest_sm_clock_mhz: float | None,
    batch: Callable[[int], Sequence[tuple[float, float | None]]],
    method: Callable[[], str],
) -> Samples:
    """Take batches until the plan is satisfied, and keep the undisturbed samples.

    ``batch(index)`` measures one: (microseconds, SM clock in MHz or None) of each sample. ``method()`` is read last.
    """
    batches_us: list[list[float]] = []
    clocks_mhz: list[float | None] = []
    discarded = 0
    while not plan.done(batches_us, discarded):
        kept = []
        for time_us, clock_mhz in batch(len(batches_us)):
            if undisturbed(clock_mhz, highest_sm_clock_mhz):
                kept.append(time_us)
                clocks_mhz.append(clock_mhz)
            else:
                discarded += 1
        batches_us.append(kept)
    times_us = tuple(time_us for taken in batches_us for time_us in taken)
    return Samples(times_us, tuple(clocks_mhz), discarded, method())


def trimmed_mean(values: Sequence[float]) -> float:
    """The mean without the lowest and the highest TRIMMED of the values."""
    cut = int(TRIMMED * len(values))
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def relative_error(batches_us: Sequence[Sequence[float]]) -> float:
    """Standard error of the middle of the batches' medians over that middle; infinite with too few batches.

    The batch, not the sample, is what varies with the placement of the arrays. The median's standard error is
    sqrt(pi / 2) SD / sqrt(n) where values are roughly normal.
    """
    medians = [statistics.median(batch) for batch in batches_us if batch]
    if len(medians) < LEAST_BATCHES:
        return math.inf
    error = math.sqrt(math.pi / 2) * statistics.stdev(medians) / math.sqrt(len(medians))
    return error / statistics.median(medians)


def undisturbed(sm_clock_mhz: float | None, highest_sm_clock_mhz: float | None) -> bool:
    """Whether a sample counts: its clock is unknown or near enough to the GPU's highest."""
    if sm_clock_mhz is None or highest_sm_clock_mhz is None:
        return True
    return sm_clock_mhz >= THROTTLED_BELOW * highest_sm_clock_mhz
