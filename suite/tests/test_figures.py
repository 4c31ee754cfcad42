"""Peaks, sampling, metrics and the gate: pure figures."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peakgate.case import Buffer, Role, Work
from peakgate.judge.gate import judge
from peakgate.judge.metrics import matching_roof, metrics
from peakgate.judge.peaks import Peaks, pcie_gbs, theoretical_peaks
from peakgate.measure.sampling import SamplingPlan, relative_error, undisturbed
from peakgate.verdict import ExitCode, Verdict, exit_code
from synthetic_cases import make_case, make_samples

PEAKS = Peaks(memory_gbs=4000, fp32_tflops=60, derivation="synthetic", link_gbs=64)


def test_an_h200_has_the_peaks_its_attributes_give():
    peaks = theoretical_peaks(
        memory_clock_mhz=3201, bus_width_bits=6016, sm_count=132, sm_clock_mhz=1980, capability=(9, 0)
    )
    assert peaks is not None
    assert peaks.memory_gbs == pytest.approx(4814, abs=1)
    assert peaks.fp32_tflops == pytest.approx(66.9, abs=0.1)
    assert "6016 bit" in peaks.derivation


def test_an_unknown_architecture_has_no_peaks():
    unknown = theoretical_peaks(memory_clock_mhz=1, bus_width_bits=1, sm_count=1, sm_clock_mhz=1, capability=(42, 0))
    assert unknown is None


def test_a_generation_5_link_of_16_lanes_carries_63_gbs():
    assert pcie_gbs(5, 16) == pytest.approx(63.0, abs=0.1)
    assert pcie_gbs(99, 16) is None


def test_the_slower_of_memory_and_arithmetic_binds():
    assert PEAKS.least_time_us(Work(4_000_000, 60_000_000), "copy") == (pytest.approx(1.0), "memory")
    assert PEAKS.least_time_us(Work(4_000, 600_000_000), "fma") == (pytest.approx(10.0), "compute")
    assert PEAKS.least_time_us(Work(64_000), "link") == (pytest.approx(1.0), "link")


def test_a_link_case_claims_nothing_where_the_link_is_unknown():
    assert Peaks(4000, 60, "synthetic").least_time_us(Work(64_000), "link") is None


def test_figures_come_from_the_median_sample():
    figures = metrics(make_case(), make_samples(2.0, 1.0, 100.0), PEAKS, {"copy_1MiB": 1000.0})
    assert figures.time_us == 2.0
    assert figures.gbs == pytest.approx(500)
    assert figures.peak_fraction == pytest.approx(0.125)
    assert figures.bound == "memory"
    assert figures.roof_fraction == pytest.approx(0.5)


def test_no_fraction_of_peak_is_claimed_without_peaks():
    figures = metrics(make_case(), make_samples(2.0), None, {})
    assert figures.peak_fraction is None
    assert figures.roof_fraction is None


def test_the_roof_of_the_nearest_size_is_the_one_compared_with():
    roofs = {"copy_64MiB": 1.0, "copy_256MiB": 2.0, "copy_1GiB": 3.0, "read_256MiB": 4.0, "fma": 5.0}
    case = make_case(arguments=(Buffer(Role.OUT, (8192, 8192)), Buffer(Role.IN, (8192, 8192))))
    assert matching_roof(case, roofs) == "copy_256MiB"
    assert matching_roof(make_case(roof="fma"), roofs) == "fma"
    assert matching_roof(make_case(roof="link"), roofs) is None


def test_sampling_goes_on_until_the_batches_agree_well_enough():
    plan = SamplingPlan(min_samples=8, max_samples=200, target_relative_error=0.001, budget_us=1e9)
    assert not plan.done([[10.0] * 4] * 1)
    assert not plan.done([[10.0] * 4] * 3)
    assert plan.done([[10.0] * 4] * 4)
    assert not plan.done([[9.0] * 4, [11.0] * 4] * 8)
    assert plan.done([[9.0] * 4, [11.0] * 4] * 25)


def test_samples_that_scatter_within_a_batch_alone_do_not_ask_for_more_batches():
    assert SamplingPlan(min_samples=8, budget_us=1e9).done([[8.0, 10.0, 12.0]] * 4)


def test_sampling_stops_when_the_budget_of_device_time_is_used_up():
    assert SamplingPlan(min_samples=4, budget_us=100).done([[20.0, 30.0]] * 3)


def test_sampling_gives_up_when_most_samples_are_discarded():
    assert SamplingPlan(min_samples=8, max_samples=100).done([[10.0], []], discarded=32)


@given(st.lists(st.lists(st.floats(1, 1e6), min_size=1, max_size=6), min_size=4, max_size=20), st.floats(0.01, 100))
def test_the_relative_error_does_not_depend_on_the_unit(batches_us, factor):
    scaled = relative_error([[time_us * factor for time_us in batch] for batch in batches_us])
    assert scaled == pytest.approx(relative_error(batches_us), rel=1e-6, abs=1e-9)


def test_three_batches_tell_nothing_of_their_error():
    assert relative_error([[5.0]] * 3 + [[]]) == math.inf


def test_a_sample_under_nine_tenths_of_the_highest_clock_does_not_count():
    assert undisturbed(1905, 1980)
    assert not undisturbed(1700, 1980)
    assert undisturbed(None, 1980)


def judged(times_us=(500.0,), floor=None, peaks=PEAKS, discarded=0, disturbance=None):
    samples = make_samples(*times_us, discarded=discarded)
    figures = metrics(make_case(), samples, peaks, {}) if samples.conclusive else None
    return judge(samples, figures, floor, disturbance)


def test_a_case_at_its_floor_passes_and_under_it_is_below_floor():
    assert judged(floor=0.0005).verdict is Verdict.PASS
    below = judged(floor=0.7)
    assert below.verdict is Verdict.BELOW_FLOOR
    assert "floor 0.7 (" in below.reason
    assert "1980 MHz" in below.reason


def test_a_case_without_a_floor_is_said_not_passed():
    assert judged().verdict is Verdict.NO_FLOOR
    assert judged(peaks=None, floor=0.7).verdict is Verdict.NO_FLOOR


def test_mostly_discarded_samples_are_inconclusive_not_slow():
    verdict = judged(times_us=(500.0, 501.0), discarded=9, floor=0.9)
    assert verdict.verdict is Verdict.INCONCLUSIVE
    assert "9 of 11" in verdict.reason


@pytest.mark.parametrize("floor", [None, 0.5])
def test_a_reading_above_the_peak_is_impossible_and_never_a_pass(floor):
    least_us = 1_000_000 / PEAKS.memory_gbs / 1e3
    assert judged((least_us / 1.01,), floor).verdict in (Verdict.PASS, Verdict.NO_FLOOR)
    above = judged((least_us / 1.03,), floor, disturbance="foreign process 7 was on this GPU")
    assert above.verdict is Verdict.IMPOSSIBLE
    assert above.reason.startswith("1.03 of peak, and nothing exceeds the peak")
    assert exit_code([above.verdict]) is ExitCode.REGRESSION


@pytest.mark.parametrize("floor", [None, 0.0001, 0.9])
def test_what_disturbed_the_samples_leaves_the_case_open_on_either_side_of_its_floor(floor):
    open_case = judged(floor=floor, disturbance="foreign process 7 was on this GPU")
    assert open_case.verdict is Verdict.INCONCLUSIVE
    assert "foreign process 7" in open_case.reason


def test_a_regression_outranks_an_open_question_and_that_a_pass():
    assert exit_code([Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.BELOW_FLOOR]) is ExitCode.REGRESSION
    assert exit_code([Verdict.PASS, Verdict.INCONCLUSIVE]) is ExitCode.UNDECIDED
    assert exit_code([Verdict.PASS, Verdict.NO_FLOOR]) is ExitCode.OK
    assert exit_code([Verdict.PASS, Verdict.NO_FLOOR], strict=True) is ExitCode.UNDECIDED
