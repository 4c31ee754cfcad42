import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.measure.limits import (
    build_limit_s,
    expected_launch_s,
    launch_limit_s,
    processor_limit_s,
    sampling_limit_s,
)
from peakgate.measure.sampling import SamplingPlan
from peakgate.spec.case import Launch, Work

WORK = Work(bytes=1 << 30, flops=0)
LEAST_US = 223.0


def test_a_case_is_expected_at_its_floor_or_at_1_percent_of_peak():
    assert expected_launch_s(WORK, LEAST_US, 0.5) == pytest.approx(446e-6)
    assert expected_launch_s(WORK, LEAST_US, None) == pytest.approx(22.3e-3)


def test_without_a_known_peak_a_small_gpu_is_expected():
    assert expected_launch_s(WORK, None, 0.5) == pytest.approx(10.7e-3, rel=0.01)
    assert expected_launch_s(Work(0, 10**12), None, None) == pytest.approx(1.0)


def test_limits_are_seconds_for_a_large_copy():
    limit_s = launch_limit_s(expected_launch_s(WORK, LEAST_US, None))
    assert limit_s == pytest.approx(5.2, abs=0.1)
    assert sampling_limit_s(limit_s, 1e-3, SamplingPlan()) == pytest.approx(5.7, abs=0.1)


@given(st.floats(0.001, 1.0), st.floats(1.0, 1e6))
def test_a_launch_that_reaches_its_floor_is_never_too_slow(floor, least_us):
    assert launch_limit_s(expected_launch_s(WORK, least_us, floor)) > 10 * least_us / 1e6 / floor


@given(st.floats(1e-6, 60))
def test_a_plans_samples_fit_the_limit_at_the_checked_speed(launch_s):
    plan = SamplingPlan()
    batches_us = [[launch_s * 1e6] * plan.batch]
    launches = plan.warmup + plan.batch
    while not plan.done(batches_us) and len(batches_us) < 4:
        batches_us.append([launch_s * 1e6] * plan.batch)
        launches += 1 + plan.batch
    if plan.done(batches_us):
        assert sampling_limit_s(5.0, launch_s, plan) > launches * launch_s


def test_the_emulator_is_granted_time_by_threads():
    assert [processor_limit_s(Launch((n, 1, 1), (256, 1, 1)), 60) for n in (1, 256, 1024)] == [60, 60, 240]
    assert build_limit_s(100) > build_limit_s(1) > 100
