"""Which GPUs a fleet names: pure functions on frames."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peakgate.reports.fleet import statistics

CASES = [f"transpose.case{at}" for at in range(30)] + [f"sgemm.case{at}" for at in range(10)]
GROUPS = pd.Series(["memory"] * 30 + ["compute"] * 10, index=CASES)


def times(count, seed=1, sd=0.005):
    """Log times of healthy GPUs."""
    rng = np.random.default_rng(seed)
    main = rng.normal(0, sd, count)
    values = rng.uniform(2, 7, len(CASES)) + main[:, None] + rng.normal(0, 0.003, (count, len(CASES)))
    return pd.DataFrame(values, index=[f"GPU-{at:03d}" for at in range(count)], columns=CASES)


def judged(log_us, per_node=8):
    at = np.arange(len(log_us))
    nodes = pd.Series([f"node{each // per_node}" for each in at], index=log_us.index)
    racks = pd.Series(None, index=log_us.index, dtype=object)
    return statistics.fleet(statistics.effects(log_us, GROUPS), nodes, racks)


def test_the_fit_separates_what_a_gpu_and_a_case_cost():
    rows, columns = statistics.polish(np.add.outer([0.0, 0.01, 0.02], [1.0, 2.0, 5.0]))
    assert rows == pytest.approx([-0.01, 0.0, 0.01])
    assert columns == pytest.approx([1.01, 2.01, 5.01])


def test_a_case_that_a_gpu_lacks_does_not_move_its_effect():
    whole = np.add.outer([0.0, 0.01, 0.02, 0.03], [1.0, 2.0, 5.0, 6.0, 7.0])
    part = whole.copy()
    part[0, 4] = np.nan
    assert statistics.polish(part)[0] == pytest.approx(statistics.polish(whole)[0])


def test_a_gpu_that_is_slow_in_the_memory_bound_cases_is_named_and_no_other():
    log_us = times(64)
    log_us.loc["GPU-010", GROUPS.index[GROUPS == "memory"]] += np.log(1.05)
    found = judged(log_us)
    assert list(found["gpu"].index[found["gpu"]["named"]]) == ["GPU-010"]
    assert "memory" in found["gpu"].loc["GPU-010", "group"]
    assert not found["node"]["named"].any()


def test_a_slow_node_is_named_as_a_node_and_its_gpus_are_not():
    log_us = times(64)
    log_us.iloc[8:16] += np.log(1.04)
    found = judged(log_us)
    assert list(found["node"].index[found["node"]["named"]]) == ["node1"]
    assert not found["gpu"]["named"].any()


def test_a_fast_gpu_is_not_named():
    log_us = times(64)
    log_us.loc["GPU-010"] -= np.log(1.10)
    assert not judged(log_us)["gpu"]["named"].any()


def test_too_few_gpus_name_none():
    log_us = times(3)
    log_us.loc["GPU-001"] += np.log(1.5)
    assert judged(log_us)["gpu"].empty


@pytest.mark.parametrize("slow", [1, 2])
def test_of_eight_gpus_up_to_two_that_are_slow_are_named(slow):
    log_us = times(8, seed=3)
    log_us.iloc[:slow, :30] += np.log(1.08)
    found = judged(log_us)["gpu"]
    assert list(found.index[found["named"]]) == list(log_us.index[:slow])
    assert set(found.loc[found["named"], "group"]) <= {statistics.ALL, "memory"}


def test_the_spread_of_the_gpus_below_is_scaled_to_that_of_the_whole_fleet():
    rng = np.random.default_rng(4)
    own = statistics.KnownSpread(small_df=1e-6)
    first, second = (
        [statistics.small_fleet(rng.normal(0, 0.005, 8), own)[at].scale ** 2 for _ in range(400)] for at in (0, 1)
    )
    assert np.sqrt(np.mean(first)) == pytest.approx(0.005, rel=0.1)
    assert np.sqrt(np.mean(second)) == pytest.approx(0.005, rel=0.1)


def test_a_model_whose_spread_is_not_known_needs_a_larger_effect():
    values = np.linspace(-0.02, 0.02, 8)
    known, other = (
        statistics.small_fleet(values, statistics.known_of(slug))[0] for slug in ("nvidia-h200", "nvidia-h100")
    )
    assert other.threshold(1e-4) > known.threshold(1e-4)


def test_a_heavy_tail_raises_what_is_named():
    rng = np.random.default_rng(2)
    normal, heavy = rng.normal(0, 0.005, 2000), rng.standard_t(3, 2000) * 0.003
    thresholds = [statistics.reference(values, statistics.KnownSpread()).threshold(1e-6) for values in (normal, heavy)]
    assert thresholds[1] > 1.5 * thresholds[0]


@settings(max_examples=20, deadline=None)
@given(st.floats(-3, 3), st.integers(0, 100))
def test_effects_do_not_depend_on_the_unit_of_time(shift, seed):
    log_us = times(8, seed)
    pd.testing.assert_frame_equal(
        statistics.effects(log_us, GROUPS), statistics.effects(log_us + shift, GROUPS), atol=1e-9, rtol=0
    )
