"""Which GPUs a fleet names: pure functions on frames."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peakgate.fleet import statistics

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


def test_a_gpu_that_is_slow_in_memory_bound_cases_is_named():
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
    log_us = times(8, seed=3, sd=0.0005)
    log_us.iloc[:slow, :30] += np.log(1.08)
    found = judged(log_us)["gpu"]
    assert list(found.index[found["named"]]) == list(log_us.index[:slow])
    assert set(found.loc[found["named"], "group"]) <= {statistics.ALL, "memory"}


LEVELS = (-0.011, -0.005, 0.0, 0.004)


@pytest.mark.parametrize("per_node", [1, 2, 8])
def test_hosts_of_every_level_are_healthy(per_node):
    log_us = times(64, sd=0.0005)
    log_us += np.resize(np.repeat(LEVELS, per_node), 64)[:, None]
    healthy = judged(log_us, per_node)
    assert not any(found["named"].any() for found in healthy.values())
    for at in range(0, 4 * per_node, per_node):
        slow = log_us.copy()
        slow.iloc[at] += np.log(1.03)
        found = judged(slow, per_node)
        assert list(found["gpu"].index[found["gpu"]["named"]]) == [log_us.index[at]]
        assert not found["node"]["named"].any()


def test_a_slow_host_among_the_fastest_is_healthy():
    log_us = times(64, sd=0.0005)
    log_us.iloc[:8] += LEVELS[-1] - LEVELS[0]
    assert not any(found["named"].any() for found in judged(log_us).values())


@pytest.mark.parametrize("count", [16, 32, 64])
@pytest.mark.parametrize("faster", [0.007, 0.01])
def test_one_host_that_is_faster_makes_no_other_slow(count, faster):
    log_us = times(count, sd=0.0005)
    log_us += np.repeat(np.resize(LEVELS[::-1], count // 8), 8)[:, None]
    log_us.iloc[-8:] -= log_us.iloc[-8:].median().median() - log_us.median().median() - LEVELS[0] + faster
    assert not any(found["named"].any() for found in judged(log_us).values())


def test_of_two_hosts_the_unhealthy_slower_one_is_named():
    log_us = times(16, sd=0.0005)
    log_us.iloc[8:] += np.log(1.05)
    assert list(judged(log_us)["node"].query("named").index) == ["node1"]


def test_a_slow_gpu_of_two_does_not_make_its_node_slow():
    log_us = times(64, sd=0.0005)
    log_us.iloc[0] += np.log(1.10)
    found = judged(log_us, per_node=2)
    assert list(found["gpu"].index[found["gpu"]["named"]]) == ["GPU-000"]
    assert not found["node"]["named"].any()


def test_gpus_that_differ_within_their_hosts_raise_what_is_named():
    alike, apart = (judged(times(64, sd=sd))["gpu"]["threshold_percent"].max() for sd in (0.0003, 0.01))
    assert apart > 1.5 * alike


def test_a_model_without_a_known_fleet_needs_a_larger_effect():
    log_us = times(64, sd=0.0005)
    log_us.iloc[3] += np.log(1.03)
    effects, nodes = statistics.effects(log_us, GROUPS), pd.Series("n", index=log_us.index)
    named = [
        statistics.fleet(effects, nodes, nodes, statistics.spread_of(slug))["gpu"]["named"].any()
        for slug in ("nvidia-h200", "nvidia-h100")
    ]
    assert named == [True, False]


def test_a_wide_fleet_names_none_of_its_faster_half():
    log_us = times(64, sd=0.05)
    assert not judged(log_us)["gpu"]["named"].iloc[log_us.median(axis=1).argsort()[:32]].any()


@settings(max_examples=20, deadline=None)
@given(st.floats(-3, 3), st.integers(0, 100))
def test_effects_do_not_depend_on_the_unit_of_time(shift, seed):
    log_us = times(8, seed)
    pd.testing.assert_frame_equal(
        statistics.effects(log_us, GROUPS), statistics.effects(log_us + shift, GROUPS), atol=1e-9, rtol=0
    )
