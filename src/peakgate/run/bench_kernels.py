"""Every kernel: proven right, then timed, then compared with its floor; in an A/B also what came of its other build."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.run.kernel_run import PLUGIN_NAME, RunHooks
from peakgate.run.loop import BenchRun
from peakgate.session.replay import ReplayTimer, raise_for, replay
from peakgate.spec.case import Case


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> BenchRun:
    found = request.config.pluginmanager.get_plugin(PLUGIN_NAME)
    assert isinstance(found, RunHooks)
    return found.run


def test_kernel(case_id: str, run: BenchRun, peakgate_timer: ReplayTimer, benchmark: BenchmarkFixture) -> None:
    case = run.cases[case_id]
    if isinstance(case, Case) and (refusal := run.session.device.refusal(case)):
        run.store.skipped[case_id] = refusal
        pytest.skip(f"{case_id}: {refusal}")
    benchmark.group = case.family
    entry, times_us = run.measure(case)
    replay(benchmark, peakgate_timer, times_us, entry)
    raise_for(entry, run.session)


def test_other_build(case_id: str, run: BenchRun, peakgate_timer: ReplayTimer, benchmark: BenchmarkFixture) -> None:
    entry, times_us = run.measure_other(run.cases[case_id])
    if not times_us:
        pytest.fail(f"{case_id}: {entry['verdict']}, {entry['reason']}", pytrace=False)
    replay(benchmark, peakgate_timer, times_us, entry)
