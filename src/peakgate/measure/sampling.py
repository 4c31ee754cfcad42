"""How many samples a case gets, and which of them count.

Few samples per process: the process, not the sample, is the replicate of a comparison, so a sample past the point
where the median of this process is known well enough buys nothing.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

# A sample is throttled when the SM clock fell under this fraction of the GPU's highest clock.
#
# A GPU at its power cap runs steadily at 95 % and more of it (an H200 under a large SGEMM: 1905 of 1980 MHz), which is
# how that kernel runs on that GPU; thermal slow-down and other people's load go well below. Tensor cores draw more:
# their samples count at any clock to which the power cap alone lowers it. Samples of other cases do not, for the cap
# that they meet is what a case before them left.
THROTTLED_BELOW = 0.90

# A clock from this fraction of the highest up is the highest: stamps read it to a percent.
AT_HIGHEST = 0.98

# Waited after a batch of which no sample is kept: a quarter of a second before a case is given up.
RECOVERY_S = 0.06

# With more than this share of its samples discarded a case is inconclusive.
MOST_DISCARDED = 0.5


# Share of the samples that the trimmed mean leaves out at either end.
TRIMMED = 0.05

# Shorter kernels are compared less the control kernel's time: what it corrects is 0.08 % of this.
CONTROLLED_BELOW_US = 100.0

# The fewest batches whose scatter can be estimated.
LEAST_BATCHES = 4


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """When a case has been sampled enough.

    Samples are taken in batches, each with the arrays at new random offsets, until ``min_samples`` are there and
    either the relative standard error of the batch medians' median is at most ``target_relative_error``, or
    ``budget_us`` of device time or ``max_samples`` are used up. After ``fair_us`` or ``fair_samples`` an error of
    ``fair_error`` is enough. ``control_batches`` of the control kernel follow the samples of a short kernel.

    A fair error lets one run resolve 3.5 % against another, four standard errors of their difference. More samples
    lower the scatter between processes little (docs/results/starts.md): a kernel of 1.3 ms, which scatters by 0.1 %,
    gets one batch.
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
        """Whether these samples are enough, or so many were discarded that more would not help."""
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


# For one of the many processes of an A/B. The control's batches take 4 ms and have a standard error of some 15 ns on an
# H200 (lab/injected/README.md).
REPEATED = SamplingPlan(budget_us=8_000.0, fair_samples=240, control_batches=10)

# Where only whether a case can be timed matters.
ONE_BATCH = SamplingPlan(min_samples=1, max_samples=1, batch=1, warmup=1)


# The first sample of a case whose builds are sampled in turns.
FIRST_LAUNCH = SamplingPlan(min_samples=1, max_samples=1, batch=1)


def base_first(count: int) -> bool:
    """Whether base is first in a round, by how many were before it: in the order of Thue and Morse.

    A short launch takes up to 0.5 µs more in every second or fourth batch of a process (an H200; what is queued for it
    is read in pieces). Over four rounds each side has every second and every fourth batch as often as the other; were
    A B, B A repeated, one side would have the same two of any four for as long as the process lives.
    """
    return count.bit_count() % 2 == 0


@dataclass(frozen=True, slots=True)
class PairPlan:
    """When a pair of two builds, sampled in turns by one process, has been sampled enough.

    A round is one batch of ``share`` for each build, and gives one log ratio of their times; a pair gives the mean of
    them. There are ``least_rounds`` at least, and more until the standard error of the mean is at most
    ``target_error``, or there are ``most_rounds``; always a multiple of ``least_rounds``, within which both sides are
    first equally often.
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


# About so long one build's share of a round runs, and so many samples it has at most.
ROUND_US, MOST_OF_ROUND = 800.0, 6

# Of more cases none gets more than eight rounds: a fifth of them, which scatter most, would take half of the time.
MANY_CASES = 64

# Launches up to this long depend on their batch's number: four rounds at least are a pair, else two.
UNEVEN_BELOW_US = 100.0


# Before launches from this length on none goes untimed: what they take longer where no cache has the code and the
# addresses yet is little of them, and the same for both builds.
COLD_FROM_US = 400.0


def pair_plan(launch_us: float, cases: int) -> PairPlan:
    """The plan of a kernel whose launch takes so long, one of so many cases of a process."""
    count = min(MOST_OF_ROUND, max(1, int(ROUND_US / launch_us)))
    warmup = int(launch_us < COLD_FROM_US)
    share = SamplingPlan(min_samples=count, max_samples=count, batch=count, warmup=warmup)
    most_rounds = 16 if cases <= MANY_CASES else 8
    return PairPlan(share, least_rounds=4 if launch_us <= UNEVEN_BELOW_US else 2, most_rounds=most_rounds)


# Microseconds, and SM clock in MHz or None, of each sample.
Batch = Sequence[tuple[float, float | None]]


def slowest(of_each: Sequence[Batch]) -> Batch:
    """A batch that several GPUs took together as one: of each sample the longest time, and the lowest clock known."""
    if len(of_each) == 1:
        return of_each[0]
    return [
        (max(time_us for time_us, _ in parts), min((clock for _, clock in parts if clock is not None), default=None))
        for parts in zip(*of_each, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class PowerReading:
    """A GPU's power in W, None where the driver does not report it, and whether nothing but power lowers its clocks.

    ``steady`` is False where heat, the hardware or a setting lowers them, or where the driver gives no reasons. It does
    not ask for the power cap to be named: the clock falls with the current within microseconds, and the driver counts
    and reads power about ten times a second (seen on an H200), when most cases are over.
    """

    power_w: float | None
    steady: bool


@dataclass(frozen=True, slots=True)
class Samples:
    """One process's samples of one case: kept times, their SM clocks (None: unknown), the number discarded.

    ``control_us`` is the trimmed mean of the control kernel right after them; None where it was not timed.
    ``activity_us`` is what the second clock measured of some of them, None without one; ``doubt`` why it contradicts.
    ``first_us`` is the median of samples right after a flush, taken to compare with those of a repeated launch; None of
    cold ones. ``footprint_bytes`` is what one launch can be seen to use of memory.
    ``power_w`` is the median power drawn, None where it was not read; ``steady_below_mhz`` the GPU's highest clock
    where nothing but power can have lowered that of the samples, None elsewhere.
    ``pair_ratios`` are those to another build's times, one for each pair that was sampled in turns with it.
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
        """A 95 % interval of the median by order statistics, within this process; None of fewer than 6 samples."""
        ordered, count = sorted(self.times_us), len(self.times_us)
        if count < 6:
            return None
        rank = max(0, math.floor(count / 2 - 0.98 * math.sqrt(count)))  # 1.96 standard deviations of a binomial count
        return ordered[rank], ordered[count - 1 - rank]

    @property
    def trimmed_mean_us(self) -> float:
        """The mean of the samples but for the lowest and the highest.

        A kernel's samples have several values, by their place in the batch, and the timer has steps: the median jumps
        between them, the mean does not.
        """
        return trimmed_mean(self.times_us)

    @property
    def median_sm_clock_mhz(self) -> float | None:
        known = [clock for clock in self.sm_clocks_mhz if clock is not None]
        return statistics.median(known) if known else None

    @property
    def power_bound(self) -> bool:
        """Whether the power cap kept the clock under the GPU's highest."""
        clock, highest = self.median_sm_clock_mhz, self.steady_below_mhz
        return clock is not None and highest is not None and clock < AT_HIGHEST * highest

    @property
    def clock(self) -> str | None:
        """The clock of the samples in words; None where it is not known."""
        if self.median_sm_clock_mhz is None:
            return None
        if self.power_bound:
            return f"clock {self.median_sm_clock_mhz:.0f} of {self.steady_below_mhz:.0f} MHz: bound by power"
        return f"{self.median_sm_clock_mhz:.0f} MHz"

    @property
    def conclusive(self) -> bool:
        """Whether enough samples ran undisturbed."""
        taken = len(self.times_us) + self.discarded
        return bool(self.times_us) and self.discarded <= MOST_DISCARDED * taken


def joined(parts: Sequence[Samples], pair_ratios: Sequence[float] = ()) -> Samples:
    """Samples of one case that were taken in several parts, as one."""
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
    """The samples of one case while they are taken: whether more are wanted, and which of them count.

    ``owed(launch_us)`` says how many launches are still to be compared, given how long one takes: they are taken beyond
    what the plan asks for. The highest SM clock is the GPU's, None where it is not known.
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
        """Each batch that is to be taken and then added: its number, from 0 up, and how many launches it has."""
        while (wanting := not self._plan.done(self._batches_us, self._discarded)) or self._owed(self._launch_us):
            count = self._plan.batch if wanting else min(self._plan.batch, self._owed(self._launch_us))
            yield len(self._batches_us), count

    def add(self, taken: Batch, power: PowerReading | None = None) -> bool:
        """Keep the undisturbed samples of a batch; False where there are none.

        ``power`` is the reading after it: where nothing but power can have lowered clocks all samples are kept.
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
        """How many batches of the control kernel the plan asks for behind these samples: none but of a short kernel."""
        times_us = [time_us for batch_us in self._batches_us for time_us in batch_us]
        short = bool(times_us) and statistics.median(times_us) < CONTROLLED_BELOW_US
        return self._plan.control_batches if short else 0

    def samples(self, method: str, controls: Sequence[Batch] = ()) -> Samples:
        """The samples that were kept, how they were taken, and the time of the control kernel's batches."""
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
    """Wait while a clock that a case before lowered rises again.

    After two seconds of a matrix product at its power cap an H200 was too slow for the samples of the next two cases,
    some tens of milliseconds, and at its highest clock in the third.
    """
    time.sleep(RECOVERY_S)


def trimmed_mean(values: Sequence[float]) -> float:
    """The mean without the lowest and the highest TRIMMED of the values."""
    cut = int(TRIMMED * len(values))
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def relative_error(batches_us: Sequence[Sequence[float]]) -> float:
    """Relative standard error of the median of the batch medians; infinite with too few batches.

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
