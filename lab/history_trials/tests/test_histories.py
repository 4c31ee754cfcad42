"""The generators follow their plans."""

from __future__ import annotations

from dataclasses import replace

import histories
import noise
import numpy as np
import pytest
from histories import Plan, Step
from trials import GATES, binomial_limits


@pytest.fixture(scope="module")
def records() -> noise.Records:
    return noise.read(GATES)


def _logs(plan: Plan, records: noise.Records, seed: int = 1) -> tuple[noise.Floats, histories.History]:
    history = histories.draw(plan, records, seed)
    return np.log(history.time_us / records.duration_us[history.donors]), history


def test_a_seed_is_a_history(records: noise.Records) -> None:
    plan = Plan(60, 40, 8, noisy=True, heavy=True, ar_share=0.1, level_share=0.1, hosts="in turn", driver="six")
    first, second, other = (histories.draw(plan, records, seed).time_us for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_the_noise_has_the_spread_of_the_records(records: noise.Records) -> None:
    logs, history = _logs(Plan(186, 4000), records)
    shared = records.shared[:, records.shared_class(records.duration_us[history.donors])].std(axis=0)
    ratio = logs.std(axis=0) / np.hypot(records.spread[history.donors], shared)
    assert 0.95 < np.median(ratio) < 1.05
    assert 0.03 < records.spread[records.cases.index("sgemm.cublas-256")] < 0.045
    logs, _ = _logs(Plan(60, 4000, noisy=True), records)
    assert np.sort(logs.std(axis=0))[-1] == pytest.approx(histories.NOISY_SPREAD, rel=0.15)


def test_steps_are_where_the_truth_says(records: noise.Records) -> None:
    plan = Plan(60, 80, steps=(Step(0.05, 1), Step(0.02, 10, 3)))
    plain, _ = _logs(replace(plan, steps=()), records)
    stepped, history = _logs(plan, records)
    assert sorted(history.ages.values()) == [1, 10, 10, 10]
    for case, (commit, size) in history.guilty.items():
        change = (stepped - plain)[:, case]
        assert np.allclose(change[:commit], 0)
        assert np.allclose(change[commit:], np.log1p(size))
        assert commit == 80 - history.ages[case]
    others = [case for case in range(60) if case not in history.guilty]
    assert np.allclose(stepped[:, others], plain[:, others])
    _, suite = _logs(Plan(60, 80, steps=(Step(0.02, 5, 0),)), records)
    assert len(suite.guilty) == 60


def test_a_host_adds_the_same_microseconds(records: noise.Records) -> None:
    plan = Plan(60, 80)
    rng = np.random.default_rng(3)
    added = histories._hosts(replace(plan, hosts="one change"), rng)
    assert np.ptp(added, axis=1).max() == 0
    assert len(np.unique(added)) == 2
    assert 0 < added.max() <= histories.HOST_LARGEST_US
    assert not histories._hosts(plan, rng).any()


def test_drift_and_wave_have_their_size(records: noise.Records) -> None:
    rng = np.random.default_rng(4)
    suite, _ = histories._slow(Plan(5, 51, drift="suite"), np.empty(0, dtype=np.int64), rng)
    assert np.allclose(suite[-1], 0.03)
    three, own = histories._slow(Plan(60, 51, drift="three"), np.empty(0, dtype=np.int64), rng)
    assert len(own) == 3
    assert np.count_nonzero(three[-1]) == 3
    wave, _ = histories._slow(Plan(5, 200, wave=True), np.empty(0, dtype=np.int64), rng)
    assert wave.max() == pytest.approx(0.004, rel=0.01)


def test_slow_processes(records: noise.Records) -> None:
    rng = np.random.default_rng(5)
    values = histories._ar(rng, 20000, 2)
    assert np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1] == pytest.approx(0.8, abs=0.03)
    assert values.std() == pytest.approx(1, abs=0.05)
    levels = histories._levels(rng, 20000)
    assert 20000 / np.count_nonzero(np.diff(levels)) == pytest.approx(histories.LEVELS_DWELL, rel=0.1)


def test_the_pool(records: noise.Records) -> None:
    history = histories.draw(Plan(60, 120, 8), records, 6)
    assert set(history.gpu) == set(range(8))
    assert 0.04 < np.abs(history.offsets).max() <= histories.GPU_LARGEST
    other = history.run_last_on((int(history.gpu[-1]) + 1) % 8)
    assert np.array_equal(other.time_us[:-1], history.time_us[:-1])
    assert not np.array_equal(other.time_us[-1], history.time_us[-1])
    assert np.allclose(other.run_last_on(int(history.gpu[-1])).time_us, history.time_us)


@pytest.mark.parametrize(("driver", "moved"), [("nothing", 0), ("six", 6), ("all", 60)])
def test_the_driver(records: noise.Records, driver: histories.Driver, moved: int) -> None:
    plan = Plan(60, 60, driver=driver, driver_age=5)
    plain, _ = _logs(replace(plan, driver=""), records, 7)
    logs, history = _logs(plan, records, 7)
    assert history.driver.sum() == 5
    assert np.count_nonzero(~np.isclose(logs[-1], plain[-1])) == moved
    assert np.allclose(logs[:-5], plain[:-5])


def test_exact_intervals() -> None:
    assert binomial_limits(0, 50) == (0.0, pytest.approx(0.0711, abs=1e-4))
    assert binomial_limits(3, 500) == (pytest.approx(0.00124, abs=1e-5), pytest.approx(0.01744, abs=1e-5))
    assert binomial_limits(40, 40)[0] == pytest.approx(0.9119, abs=1e-4)
