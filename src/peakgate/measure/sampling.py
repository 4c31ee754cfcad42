"""How many samples a case gets, and which of them count.

Few samples per process: the process, not the sample, is the replicate of a comparison. Once the median of a process is
known well enough, further samples do not help.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

# A sample is throttled if the SM clock was below this fraction of the GPU's highest clock.
#
# A GPU at its power cap runs steadily at 95 % and more of it (an H200 under a large SGEMM: 1905 of 1980 MHz), which is
# how that kernel runs on that GPU; thermal slowdown and other load go well below. Tensor cores draw more power: their
# samples count at any clock if only the power cap lowers it. Samples of other cases do not, since a preceding case
# causes the cap.
THROTTLED_BELOW = 0.90

# A clock above this fraction of the highest counts as the highest: stamps measure it to a percent.
AT_HIGHEST = 0.98

# Wait after a batch without a kept sample: a quarter of a second before a case is INCONCLUSIVE.
RECOVERY_S = 0.06

# A case is INCONCLUSIVE with more than this share of its samples discarded.
MOST_DISCARDED = 0.5


# Share of the samples that the trimmed mean leaves out at each end.
TRIMMED = 0.05

# For shorter kernels the control kernel's time is subtracted in comparisons: at most 0.08 % of this time.
CONTROLLED_BELOW_US = 100.0

# The fewest batches from which a standard error is estimated.
LEAST_BATCHES = 4


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """When a case has been sampled enough.

    Samples are taken in batches, each with the arrays at new random offsets, until there are ``min_samples`` and the
    relative standard error of the median of the batch medians is at most ``target_relative_error``, or ``budget_us`` of
    device time or ``max_samples`` are used up. After ``fair_us`` or ``fair_samples`` an error of ``fair_error`` is
    enough. ``control_batches`` of the control kernel follow the samples of a short kernel.

    With the fair error, 3.5 % are four standard errors of the difference of two runs. More samples hardly reduce the
    variation between processes (docs/results/starts.md): a kernel of 1.3 ms, which varies by 0.1 %, gets one batch.
    """

    min_samples: int = 6
    max_samples: int = 240
    target_relative_error: float = 0.002
    budget_us: float = 20_000.0
    fair_error: float = 0.006
    fair_samples: int = 96
    fair_us: float = 8_000.0
    batch: int = 6
    warmup: int = 2
    control_batches: int = 0

    def done(self, batches_us: Sequence[Sequence[float]], discarded: int = 0) -> bool:
        """Whether these samples are enough, or too many were discarded to continue."""
        taken = sum(len(batch) for batch in batches_us)
        if discarded >= self.max_samples or (discarded >= 4 * self.min_samples and discarded > taken):
            return True
        if taken < self.min_samples:
            return False
        spent_us = sum(map(sum, batches_us))
        if taken >= self.max_samples or spent_us >= self.budget_us:
            return True
        if taken >= self.fair_samples or spent_us >= self.fair_us:
            few = len(batches_us) < LEAST_BATCHES
            apart = [[time_us] for batch in batches_us for time_us in batch] if few else batches_us
            return relative_error(apart) <= self.fair_error
        return relative_error(batches_us) <= self.target_relative_error


# For one of the many processes of an A/B. The control kernel's batches take 4 ms and have a standard error of some 15
# ns on an H200 (lab/injected/README.md).
REPEATED = SamplingPlan(budget_us=8_000.0, fair_samples=240, control_batches=10)

# For a run that only tests whether a case can be timed.
ONE_BATCH = SamplingPlan(min_samples=1, max_samples=1, batch=1, warmup=1)


# The first sample of a case whose builds are sampled interleaved.
FIRST_LAUNCH = SamplingPlan(min_samples=1, max_samples=1, batch=1)


def base_first(count: int) -> bool:
    """Whether base is first in round ``count``, by the Thue-Morse sequence.

    On an H200 a short launch takes up to 0.5 µs more in every second or fourth batch of a process, since the GPU reads
    queued commands in pieces. Over four rounds each side has every second and every fourth batch equally often. With
    A B, B A repeated one side would always have the same two of four.
    """
    return count.bit_count() % 2 == 0


@dataclass(frozen=True, slots=True)
class PairPlan:
    """When a pair of builds, sampled interleaved in one process, has been sampled enough.

    A round is one batch of ``share`` for each build and yields one log ratio of their times; the result of a pair is
    the mean. Rounds are taken until the standard error of the mean is at most ``target_error``, or there are
    ``most_rounds``; always a multiple of ``least_rounds``, in which both sides are first equally often.
    """

    share: SamplingPlan
    least_rounds: int = 4
    most_rounds: int = 16
    target_error: float = 0.0025

    def done(self, log_ratios: Sequence[float]) -> bool:
        """Whether these rounds are enough."""
        count = len(log_ratios)
        if count % self.least_rounds or count == 0:
            return False
        return count >= self.most_rounds or statistics.stdev(log_ratios) <= self.target_error * math.sqrt(count)


# Approximate time of one build's share of a round, and its most samples.
ROUND_US, MOST_OF_ROUND = 800.0, 6

# With more cases none gets more than eight rounds: the fifth that varies most would take half of the time.
MANY_CASES = 64

# Launches up to this length depend on the number of their batch: they need at least four rounds, others two.
UNEVEN_BELOW_US = 100.0


# Launches of at least this length have no untimed launch before them: caches without code and addresses cost little
# relative to their time, and the same for both builds.
COLD_FROM_US = 400.0


def pair_plan(launch_us: float, cases: int) -> PairPlan:
    """The plan for a kernel with this launch time, one of ``cases`` cases of a process."""
    count = min(MOST_OF_ROUND, max(1, int(ROUND_US / launch_us)))
    warmup = int(launch_us < COLD_FROM_US)
    share = SamplingPlan(min_samples=count, max_samples=count, batch=count, warmup=warmup)
    most_rounds = 16 if cases <= MANY_CASES else 8
    return PairPlan(share, least_rounds=4 if launch_us <= UNEVEN_BELOW_US else 2, most_rounds=most_rounds)


# Microseconds, and SM clock in MHz or None, of each sample.
Batch = Sequence[tuple[float, float | None]]


def slowest(of_each: Sequence[Batch]) -> Batch:
    """Merge the batches of several GPUs: for each sample the longest time and the lowest known clock."""
    if len(of_each) == 1:
        return of_each[0]
    return [
        (max(time_us for time_us, _ in parts), min((clock for _, clock in parts if clock is not None), default=None))
        for parts in zip(*of_each, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class PowerReading:
    """A GPU's power in W, None if the driver does not report it, and whether only power can lower its clocks.

    ``steady`` is False if heat, the hardware or a setting lowers them, or if the driver reports no reasons. It does not
    require that the driver reports the power cap: the clock follows the current within microseconds, while the driver
    updates its reasons and power about ten times per second (on an H200), after most cases have ended.
    """

    power_w: float | None
    steady: bool


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of one case in one process: kept times, their SM clocks (None: unknown), the number discarded.

    ``control_us`` is the trimmed mean of the control kernel right after them, None if it was not timed.
    ``activity_us`` is the median by the second clock, None without one; ``doubt`` how that contradicts the events.
    ``first_us`` is the median right after a flush, for the comparison with a repeated launch; None for cold cases.
    ``footprint_bytes`` is the size of a launch's visible arrays. ``power_w`` is the median power, None if it was not
    read; ``steady_below_mhz`` the GPU's highest clock if only power can have lowered the clocks, else None.
    ``pair_ratios`` are the ratios to another build's times, one per interleaved pair.
    """

    times_us: tuple[float, ...]
    sm_clocks_mhz: tuple[float | None, ...]
    discarded: int
    method: str
    control_us: float | None = None
    activity_us: float | None = None
    doubt: str | None = None
    power_w: float | None = None
    steady_below_mhz: float | None = None
    first_us: float | None = None
    footprint_bytes: int | None = None
    pair_ratios: tuple[float, ...] = ()

    @property
    def median_us(self) -> float:
        return statistics.median(self.times_us)

    @property
    def median_interval_us(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the median within this process, by order statistics; None below 6 samples."""
        ordered, count = sorted(self.times_us), len(self.times_us)
        if count < 6:
            return None
        rank = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))  # 1.96 standard deviations of a binomial count
        return ordered[rank], ordered[count - 1 - rank]

    @property
    def trimmed_mean_us(self) -> float:
        """The mean without the lowest and highest samples.

        A kernel's samples cluster at several values, by their position in the batch, and the timer has steps: the
        median jumps between these values, the mean does not.
        """
        return trimmed_mean(self.times_us)

    @property
    def median_sm_clock_mhz(self) -> float | None:
        known = [clock for clock in self.sm_clocks_mhz if clock is not None]
        return statistics.median(known) if known else None

    @property
    def power_bound(self) -> bool:
        """Whether the power cap lowered the clock."""
        clock, highest = self.median_sm_clock_mhz, self.steady_below_mhz
        return clock is not None and highest is not None and clock < AT_HIGHEST * highest

    @property
    def clock(self) -> str | None:
        """A phrase for the clock of the samples; None if it is unknown."""
        if self.median_sm_clock_mhz is None:
            return None
        if self.power_bound:
            return f"clock {self.median_sm_clock_mhz:.0f} of {self.steady_below_mhz:.0f} MHz: bound by power"
        return f"{self.median_sm_clock_mhz:.0f} MHz"

    @property
    def conclusive(self) -> bool:
        """Whether enough samples were undisturbed."""
        taken = len(self.times_us) + self.discarded
        return bool(self.times_us) and self.discarded <= MOST_DISCARDED * taken


def joined(parts: Sequence[Samples], pair_ratios: Sequence[float] = ()) -> Samples:
    """Join the parts of one case's samples."""
    last = parts[-1]
    drawn_w = [part.power_w for part in parts if part.power_w is not None]
    return replace(
        last,
        times_us=tuple(time_us for part in parts for time_us in part.times_us),
        sm_clocks_mhz=tuple(clock for part in parts for clock in part.sm_clocks_mhz),
        discarded=sum(part.discarded for part in parts),
        control_us=None,
        doubt=next((part.doubt for part in parts if part.doubt), None),
        power_w=statistics.median(drawn_w) if drawn_w else None,
        steady_below_mhz=last.steady_below_mhz if all(part.steady_below_mhz for part in parts) else None,
        pair_ratios=tuple(pair_ratios),
    )


class Sampling:
    """Collects the samples of one case: whether more are needed, and which count.

    ``owed(launch_us)`` returns how many launches must still be compared, given the time of one; sampling continues
    beyond the plan for them. ``highest_sm_clock_mhz`` is None if unknown.
    """

    def __init__(
        self,
        plan: SamplingPlan,
        highest_sm_clock_mhz: float | None,
        owed: Callable[[float], int] = lambda _launch_us: 0,
    ) -> None:
        self._plan, self._highest_sm_clock_mhz, self._owed = plan, highest_sm_clock_mhz, owed
        self._batches_us: list[list[float]] = []
        self._clocks_mhz: list[float | None] = []
        self._discarded = 0
        self._readings: list[PowerReading] = []
        self._launch_us = math.inf

    def batches(self) -> Iterator[tuple[int, int]]:
        """Yield each batch to take and add: its number, from 0, and its number of launches."""
        while (wanting := not self._plan.done(self._batches_us, self._discarded)) or self._owed(self._launch_us):
            count = self._plan.batch if wanting else min(self._plan.batch, self._owed(self._launch_us))
            yield len(self._batches_us), count

    def add(self, taken: Batch, power: PowerReading | None = None) -> bool:
        """Keep the undisturbed samples of a batch; returns False if there are none.

        ``power`` is the reading after it: if only power can have lowered the clocks, all samples are kept.
        """
        self._launch_us = min([self._launch_us, *(time_us for time_us, _ in taken)])
        self._readings += [power] if power else []
        kept = [
            (time_us, clock_mhz)
            for time_us, clock_mhz in taken
            if (power and power.steady) or undisturbed(clock_mhz, self._highest_sm_clock_mhz)
        ]
        self._batches_us.append([time_us for time_us, _ in kept])
        self._clocks_mhz += [clock_mhz for _, clock_mhz in kept]
        self._discarded += len(taken) - len(kept)
        return bool(kept)

    @property
    def control_batches(self) -> int:
        """The number of batches of the control kernel after these samples; 0 unless the kernel is short."""
        times_us = [time_us for batch_us in self._batches_us for time_us in batch_us]
        short = bool(times_us) and statistics.median(times_us) < CONTROLLED_BELOW_US
        return self._plan.control_batches if short else 0

    def samples(self, method: str, controls: Sequence[Batch] = ()) -> Samples:
        """The kept samples, with the sampling ``method`` and the time of the control kernel's batches."""
        drawn_w = [each.power_w for each in self._readings if each.power_w is not None]
        steady = bool(self._readings) and all(each.steady for each in self._readings)
        return Samples(
            tuple(time_us for batch_us in self._batches_us for time_us in batch_us),
            tuple(self._clocks_mhz),
            self._discarded,
            method,
            trimmed_mean([time_us for batch in controls for time_us, _ in batch]) if controls else None,
            power_w=statistics.median(drawn_w) if drawn_w else None,
            steady_below_mhz=self._highest_sm_clock_mhz if steady else None,
        )


def let_clock_recover() -> None:
    """Wait for the clock to recover after a preceding case lowered it.

    After a matrix product of two seconds at the power cap, an H200 had a low clock for some tens of milliseconds,
    during the next two cases, and its highest clock in the third.
    """
    time.sleep(RECOVERY_S)


def trimmed_mean(values: Sequence[float]) -> float:
    """The mean without the lowest and the highest TRIMMED of the values."""
    cut = int(TRIMMED * len(values))
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def relative_error(batches_us: Sequence[Sequence[float]]) -> float:
    """Relative standard error of the median of the batch medians; infinite with too few batches.

    Batches, not samples, differ in the placement of the arrays. The standard error of a median is
    sqrt(pi / 2) SD / sqrt(n) for roughly normal values.
    """
    medians = [statistics.median(batch) for batch in batches_us if batch]
    if len(medians) < LEAST_BATCHES:
        return math.inf
    error = math.sqrt(math.pi / 2) * statistics.stdev(medians) / math.sqrt(len(medians))
    return error / statistics.median(medians)


def undisturbed(sm_clock_mhz: float | None, highest_sm_clock_mhz: float | None) -> bool:
    """Whether a sample counts: its clock is unknown or close enough to the GPU's highest."""
    if sm_clock_mhz is None or highest_sm_clock_mhz is None:
        return True
    return sm_clock_mhz >= THROTTLED_BELOW * highest_sm_clock_mhz
