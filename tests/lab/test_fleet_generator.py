"""What is known of H200s is what their kept gates show, by a generator that is independent of the rule."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lab.fleet import generator, overhead, rates, snippets
from peakgate.fleet import statistics

profiles = cache(generator.profiles)


def test_the_generator_shares_no_code_with_the_rule() -> None:
    tree = ast.parse(Path(generator.__file__).read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.startswith("peakgate.fleet")]


def test_a_hosts_gpus_have_one_level() -> None:
    by_host = profiles().level.groupby(profiles().host)
    assert (by_host.nunique() == 1).all()
    assert (by_host.size() > 1).sum() == 4


@pytest.mark.parametrize("effect", statistics.H200.spans)
def test_the_known_spread_is_that_of_the_kept_gates(effect: str) -> None:
    found = generator.effects(profiles())
    seen = (found[effect].max() - found[effect].min()) / 100
    within = float(np.sqrt(found.groupby("level")[effect].var().mean())) / 100
    assert seen < statistics.H200.spans[effect] < 1.3 * seen
    assert 0.7 * within < statistics.H200.own_sds[effect] < 1.6 * within


def test_a_fleet_that_is_drawn_again_is_the_same_and_only_its_slow_gpu_is_slow() -> None:
    one, same = (generator.draw(profiles(), generator.MEASURED, 16, np.random.default_rng(3)) for _ in range(2))
    pd.testing.assert_frame_equal(one.log_us, same.log_us)
    slow = generator.slowed(one, profiles().groups, np.array([5]), rates.EVERY, 0.03)
    changed = (slow.log_us != one.log_us).any(axis=1)
    assert list(changed.index[changed]) == [5]
    assert not (slow.log_us - one.log_us)[profiles().groups.index[profiles().groups == "link"]].to_numpy().any()


@pytest.mark.parametrize("part", [rates.HEALTHY, rates.POWER, rates.PEERS])
def test_the_rates_of_few_fleets_are_counted(part: str, tmp_path: Path) -> None:
    work = next(iter(rates.works([part], 0.001 if part == rates.PEERS else 0.0)))
    small = rates.Work(part, 8, 2, 0, slow=rates.EVERY if part == rates.POWER else "", slowdown=work.slowdown)
    found = rates._done(small)[1]
    assert {int(each["gpus"]) for each in found} == {8}
    assert all(int(value) <= 16 for each in found for value in each.values() if isinstance(value, int))


def test_a_simulated_fleet_is_reported_as_one_that_was_measured(tmp_path: Path) -> None:
    found = overhead.report(4, 1)
    assert [each["source"] for each in found] == ["run files", "Parquet"]
    assert len({each["exit_code"] for each in found}) == 1


def test_the_snippets_of_the_page_are_found() -> None:
    assert snippets.WORKERS_ON_PAGE in snippets.snippet("sh", "dask scheduler")
    assert "with SLURMCluster" in snippets.snippet("python", "SLURMCluster")
    assert "kind: DaskCluster" in snippets.snippet("yaml", "DaskCluster")
