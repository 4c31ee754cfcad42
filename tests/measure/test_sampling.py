"""When a case has been sampled enough, and which samples count."""

import math
import re
from dataclasses import replace

import pytest

from peakgate.measure.sampling import (
    FIRST_LAUNCH,
    ONE_BATCH,
    REPEATED,
    PairPlan,
    PowerReading,
    Samples,
    Sampling,
    SamplingPlan,
    base_first,
    joined,
    let_clock_recover,
    pair_plan,
    relative_error,
    trimmed_mean,
    undisturbed,
)


def sampled(plan, highest_mhz, batch, power=lambda: None):
    """The sampling by a plan, whose batches are given."""
    sampling = Sampling(plan, highest_mhz)
    for index, count in sampling.batches():
        sampling.add(batch(index, count), power())
    return sampling


def test_scatter_within_a_batch_alone_asks_for_no_more_batches():
    assert SamplingPlan(min_samples=8, budget_us=1e9).done([[8.0, 10.0, 12.0]] * 4)


def test_three_batches_are_too_few_to_estimate_an_error_from():
    assert relative_error([[5.0]] * 3 + [[]]) == math.inf


def test_the_error_is_that_of_the_median_of_batch_medians():
    batches_us = [[9.0, 10.0, 50.0], [12.0], [11.0, 11.0], [13.0], []]
    deviation = math.sqrt(sum((median - 11.5) ** 2 for median in (10, 12, 11, 13)) / 3)
    assert relative_error(batches_us) == pytest.approx(math.sqrt(math.pi / 2) * deviation / 2 / 11.5)


def test_each_limit_of_sampling_is_reached_exactly_at_its_value():
    plan = SamplingPlan(min_samples=4, max_samples=8, target_relative_error=0.0, budget_us=100.0)
    noisy = [[9.0], [11.0]]
    assert not plan.done(noisy * 3 + [[9.0]])
    assert plan.done(noisy * 4)  # as many samples as allowed
    assert not plan.done([[24.0], [26.0], [24.0], [25.9]])
    assert plan.done([[24.0], [26.0], [24.0], [26.0]])  # the budget of device time
    assert plan.done([[10.0]] * 4)  # an error of exactly the target
    assert not plan.done([[200.0]] * 3)  # too few, whatever they cost
    assert not SamplingPlan(min_samples=1, max_samples=1).done([])  # nothing discarded
    assert not plan.done([], discarded=7)
    assert plan.done([], discarded=8)


def test_sampling_gives_up_where_more_are_discarded_than_kept():
    plan = SamplingPlan(min_samples=4, max_samples=100, target_relative_error=0.0)
    scattered = [[9.0, 11.0], [10.0, 12.0]]
    assert not plan.done(scattered * 4, discarded=16)
    assert plan.done(scattered * 3, discarded=16)
    assert not plan.done(scattered * 3, discarded=15)


def test_batches_are_taken_until_the_plan_is_satisfied():
    readings = [[(10.0, 1980.0), (99.0, 900.0)], [(11.0, None), (12.0, 1800.0)], [(13.0, 1980.0), (14.0, 1980.0)]]
    asked = []

    def batch(index, count):
        asked.append(index)
        return readings[index]

    samples = sampled(SamplingPlan(min_samples=5, budget_us=1.0), 1980.0, batch).samples("events")

    assert asked == [0, 1, 2]
    assert samples == Samples((10.0, 11.0, 12.0, 13.0, 14.0), (1980.0, None, 1800.0, 1980.0, 1980.0), 1, "events")


def test_batches_go_on_while_launches_are_owed_a_comparison():
    owed, times_us = {10.0: 3, 9.0: 1, 8.0: 0}, (10.0, 9.0, 8.0)
    sampling = Sampling(SamplingPlan(min_samples=2, max_samples=2, batch=2), None, owed.__getitem__)
    counts = []
    for index, count in sampling.batches():
        counts.append(count)
        sampling.add([(times_us[index], None), (20.0, None)][:count])
    assert counts == [2, 2, 1]
    assert sampling.samples("events").times_us == (10.0, 20.0, 9.0, 20.0, 8.0)


def tensor_batches(*readings, clock_mhz=1590.0):
    """Samples of three batches at a clock that is too low, with what the power meter reads after each."""
    left = iter(readings)
    plan = SamplingPlan(min_samples=6, max_samples=6)
    return sampled(plan, 1980.0, lambda *_: [(10.0, clock_mhz)] * 2, lambda: next(left)).samples("events")


def test_samples_that_power_slowed_are_kept_and_said_to_be_so():
    samples = tensor_batches(PowerReading(690.0, True), PowerReading(700.0, True), PowerReading(None, True))
    assert (len(samples.times_us), samples.discarded, samples.power_w) == (6, 0, 695.0)
    assert samples.power_bound
    assert samples.clock is not None
    assert re.findall(r"\d+", samples.clock) == ["1590", "1980"]


def test_batches_that_something_else_slowed_are_dropped():
    slowed, steady = PowerReading(700.0, False), PowerReading(700.0, True)
    samples = tensor_batches(steady, slowed, steady, steady)
    assert (len(samples.times_us), samples.discarded) == (6, 2)
    assert not samples.power_bound


def test_power_that_does_not_lower_the_clock_binds_nothing():
    samples = tensor_batches(*[PowerReading(700.0, True)] * 3, clock_mhz=1975.0)
    assert not samples.power_bound
    assert samples.clock == "1975 MHz"


def test_a_batch_without_a_sample_to_keep_is_known():
    sampling = Sampling(SamplingPlan(), 1980.0)
    assert not sampling.add([(10.0, 100.0)] * 2)
    assert sampling.add([(10.0, 100.0), (10.0, 1980.0)])
    assert sampling.add([(10.0, 100.0)], PowerReading(None, True))
    samples = sampling.samples("events")
    assert (len(samples.times_us), samples.discarded) == (2, 3)


def test_a_case_of_throttled_samples_is_not_conclusive():
    samples = sampled(SamplingPlan(max_samples=6), 1980.0, lambda *_: [(10.0, 100.0)] * 2).samples("events")
    assert samples == Samples((), (), 6, "events")
    assert not samples.conclusive


def test_a_clock_of_exactly_nine_tenths_counts():
    assert undisturbed(1782.0, 1980.0)
    assert not undisturbed(1781.9, 1980.0)
    assert undisturbed(1.0, None)


def test_the_control_follows_the_samples_of_a_short_kernel_alone():
    def asked(time_us, **more):
        return sampled(SamplingPlan(min_samples=1, max_samples=1, **more), None, lambda *_: [(time_us, None)])

    assert asked(99.0, control_batches=2).control_batches == 2
    assert asked(100.0, control_batches=2).control_batches == 0
    assert asked(99.0).control_batches == 0
    controls = [[(3.0, None), (3.2, None)], [(3.4, None), (3.6, None)]]
    assert asked(99.0).samples("events", controls).control_us == pytest.approx(3.3)
    assert asked(99.0).samples("events").control_us is None


def test_rounds_go_on_until_ratios_agree_or_there_are_enough():
    plan = PairPlan(ONE_BATCH, least_rounds=4, most_rounds=12, target_error=0.001)
    assert [plan.done([0.0] * count) for count in range(9)] == [False] * 4 + [True] + [False] * 3 + [True]
    assert not plan.done([-0.01, 0.01] * 4)
    assert plan.done([-0.01, 0.01] * 6)
    assert plan.done([-0.0015, 0.0015] * 2)
    assert not plan.done([-0.0018, 0.0018] * 2)
    exactly = PairPlan(ONE_BATCH, least_rounds=2, target_error=1.0)
    assert exactly.done([-1.0, 1.0])


@pytest.mark.parametrize("period", [2, 4])
def test_what_returns_regularly_meets_both_sides_alike(period):
    sides = [side for count in range(4) for side in ("base", "head")[:: 1 if base_first(count) else -1]]
    for phase in range(period):
        assert sides[phase::period].count("base") == sides[phase::period].count("head")


def test_kernels_of_a_process_of_many_cases_have_fewer_rounds():
    assert [pair_plan(50.0, cases).most_rounds for cases in (3, 64, 65, 200)] == [16, 16, 8, 8]


def test_a_long_kernel_has_fewer_samples_and_rounds():
    plans = [pair_plan(launch_us, 3) for launch_us in (5.0, 100.0, 101.0, 160.0, 400.0, 5000.0)]
    assert [plan.share.max_samples for plan in plans] == [6, 6, 6, 5, 2, 1]
    assert [plan.least_rounds for plan in plans] == [4, 4, 2, 2, 2, 2]
    assert [plan.share.warmup for plan in plans] == [1, 1, 1, 1, 0, 0]
    assert all(plan.share.min_samples == plan.share.max_samples == plan.share.batch for plan in plans)


def test_samples_that_were_taken_in_parts_count_as_one():
    parts = [
        Samples((1.0, 2.0), (1980.0, None), 1, "m", control_us=3.0, power_w=100.0, steady_below_mhz=1980.0),
        Samples((4.0,), (1970.0,), 2, "m", doubt="another stream", power_w=300.0),
    ]
    whole = joined(parts, [1.5])
    assert (whole.times_us, whole.sm_clocks_mhz, whole.discarded) == ((1.0, 2.0, 4.0), (1980.0, None, 1970.0), 3)
    assert (whole.control_us, whole.power_w, whole.doubt) == (None, 200.0, "another stream")
    assert whole.pair_ratios == (1.5,)
    assert whole.steady_below_mhz is None
    steady = [replace(parts[0], steady_below_mhz=mhz) for mhz in (3.0, 4.0, 5.0)]
    assert joined(steady).steady_below_mhz == 5.0


def test_a_case_without_a_sample_is_not_conclusive():
    nothing = Samples((), (), 0, "")
    assert not nothing.conclusive
    unknown = Samples((1.0,), (None,), 0, "", steady_below_mhz=1000.0)
    assert not unknown.power_bound
    assert [
        Samples((1.0,), (clock,), 0, "", steady_below_mhz=1000.0).power_bound for clock in (979.0, 980.0, 1000.0)
    ] == [True, False, False]
    assert [Samples((1.0,) * 4, (None,) * 4, discarded, "").conclusive for discarded in (4, 5)] == [True, False]


def test_a_control_is_not_timed_for_a_case_without_samples():
    plan = SamplingPlan(min_samples=2, max_samples=4, control_batches=1)
    gone = sampled(plan, 1000.0, lambda *_: [(1.0, 1.0)] * 2)
    assert (gone.samples("").times_us, gone.control_batches) == ((), 0)
    assert sampled(REPEATED, None, lambda *_: [(90.0, None)] * 6).control_batches == 10


@pytest.mark.parametrize("plan", [SamplingPlan(), REPEATED])
def test_a_kernel_gets_6_samples_or_240_where_it_scatters(plan):
    assert not plan.done([[1600.0] * 5])
    assert not plan.done([[1300.0] * 6])
    assert plan.done([[1334.0] * 6])
    scattered = [[9.0] * 6, [11.0] * 6] * 20
    assert not plan.done(scattered[1:])
    assert plan.done(scattered)


def scattered_by(share, batches, time_us):
    """Batches whose medians alternate so that the median's relative standard error is that share."""
    off = share * math.sqrt(2 * (batches - 1) / math.pi) * time_us
    return [[time_us - off] * 6, [time_us + off] * 6] * (batches // 2)


def test_a_fair_error_is_enough_after_96_samples_or_8_ms():
    plan = SamplingPlan()
    assert not plan.done(scattered_by(0.0059, 14, 10.0))
    assert plan.done(scattered_by(0.0059, 16, 10.0))
    assert not plan.done(scattered_by(0.0061, 16, 10.0))
    assert not plan.done(scattered_by(0.0059, 4, 330.0))
    assert plan.done(scattered_by(0.0059, 4, 334.0))
    assert plan.done([[1000.0]] * 8)
    assert not REPEATED.done(scattered_by(0.0059, 38, 10.0))
    assert REPEATED.done(scattered_by(0.0059, 40, 10.0))
    assert not plan.done(scattered_by(0.0061, 4, 334.0))
    assert plan.done(scattered_by(0.0061, 4, 834.0))


def test_the_error_of_too_few_batches_is_that_of_their_samples():
    steady, odd = [1400.0, 1410.0] * 3, [1400.0, 1500.0] * 3
    assert SamplingPlan().done([steady])
    assert not SamplingPlan().done([odd])
    assert not SamplingPlan().done([odd, odd])
    assert SamplingPlan().done([odd, odd, odd])


def test_a_probe_of_an_ab_takes_one_sample():
    assert (ONE_BATCH.batch, ONE_BATCH.warmup, FIRST_LAUNCH.batch) == (1, 1, 1)
    assert all(plan.min_samples == plan.max_samples == 1 for plan in (ONE_BATCH, FIRST_LAUNCH))
    assert not ONE_BATCH.done([])
    assert ONE_BATCH.done([[1.0]])


def test_the_trimmed_mean_leaves_out_a_twentieth_at_either_end():
    assert trimmed_mean([-1e9, -1e9, *[2.0] * 36, 1e9, 1e9]) == 2
    assert trimmed_mean([*[0.0] * 3, *[2.0] * 36, 41.0]) == pytest.approx(70 / 36)


def test_a_clock_has_sixty_milliseconds_to_recover(monkeypatch):
    waited_s = []
    monkeypatch.setattr("peakgate.measure.sampling.time.sleep", waited_s.append)
    let_clock_recover()
    assert waited_s == [0.06]


@pytest.mark.parametrize(
    ("count", "first"), [(6, 0), (7, 0), (8, 1), (16, 4), (25, 7), (100, 40), (101, 40), (400, 180), (10_000, 4902)]
)
def test_the_interval_of_a_median_is_that_of_binomial_ranks(count, first):
    values = [float(each) for each in range(count)]
    assert Samples((*values[::-1],), (None,) * count, 0, "").median_interval_us == (first, count - 1 - first)


def test_five_samples_have_no_interval_of_their_median():
    assert Samples((1.0,) * 5, (None,) * 5, 0, "").median_interval_us is None


def test_one_part_that_something_else_slowed_is_enough():
    steady = Samples((1.0,), (None,), 0, "", steady_below_mhz=1000.0)
    assert joined([replace(steady, steady_below_mhz=None), steady]).steady_below_mhz is None
    assert joined([steady, replace(steady, steady_below_mhz=None)]).steady_below_mhz is None
