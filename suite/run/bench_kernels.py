"""Every kernel: proven right, then timed, then compared with its floor; in an A/B also what came of its other build."""

from __future__ import annotations

import pytest
from peakgate.core.verdict import REGRESSIONS, UNDECIDED
from peakgate.run.kernel_run import PLUGIN_NAME, KernelRun
from peakgate.run.replay import ReplayTimer, replay
from peakgate.run.results import Results
from pytest_benchmark.fixture import BenchmarkFixture


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> Results:
    found = request.config.pluginmanager.get_plugin(PLUGIN_NAME)
    assert isinstance(found, KernelRun)
    return found.results


def test_kernel(case_id: str, run: Results, peakgate_timer: ReplayTimer, benchmark: BenchmarkFixture) -> None:
    case, session = run.cases[case_id], run.session
    if refusal := session.device.refusal(case):
        run.skip(case, refusal)
    benchmark.group = case.family
    entry, times_us = run.measure(case)
    if times_us:
        benchmark.extra_info.update(entry)
        replay(benchmark, peakgate_timer, times_us)
    if entry["verdict"] in REGRESSIONS | UNDECIDED:
        where = f"; {session.floors.path}" if entry["floor"] is not None else ""
        reported = f"{case_id} on {session.device.slug}: {entry['verdict']}, {entry['reason']}{where}"
        pytest.fail(reported, pytrace=False)


def test_other_build(case_id: str, run: Results, peakgate_timer: ReplayTimer, benchmark: BenchmarkFixture) -> None:
    entry, times_us = run.other(run.cases[case_id])
    if not times_us:
        pytest.fail(f"{case_id}: {entry['verdict']}, {entry['reason']}", pytrace=False)
    benchmark.extra_info.update(entry)
    replay(benchmark, peakgate_timer, times_us)
