"""The replay timer inside real pytest-benchmark runs, through its public interface."""

import json
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TEST = """
import pytest
from peakgate.session.outcome import replay

@pytest.mark.benchmark(group="kept")
def test_played_back(peakgate_timer, benchmark):
    replay(benchmark, peakgate_timer, [1.23456789, 1.3, 1.7])
"""


@pytest.fixture
def project(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makepyfile(TEST)
    return pytester


def test_durations_arrive_to_the_bit_and_the_group_of_a_marker_is_kept(project):
    project.runpytest_subprocess("--benchmark-json=out.json").assert_outcomes(passed=1)
    benchmark = json.loads((project.path / "out.json").read_text())["benchmarks"][0]
    assert benchmark["stats"]["data"] == [time_us / 1e6 for time_us in (1.23456789, 1.3, 1.7)]
    assert benchmark["group"] == "kept"
    assert benchmark["options"]["timer"] == "cuda_events"


def test_what_is_disabled_is_played_back_all_the_same(project):
    project.runpytest_subprocess("--benchmark-disable").assert_outcomes(passed=1)
