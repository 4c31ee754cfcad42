"""Every kernel: proven right, then timed, then held to its floor."""

from __future__ import annotations

import pytest
from peakgate.common.errors import PeakgateError
from peakgate.device.interface import DeviceLost, KernelFault
from peakgate.run.kernel_run import NAME, KernelRun
from peakgate.run.record import extra_info
from peakgate.run.replay import ReplayTimer, install_timer, replay
from peakgate.run.session import Session, WrongResult
from peakgate.verdict import REGRESSIONS, UNDECIDED
from pytest_benchmark.fixture import BenchmarkFixture


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> KernelRun:
    found = request.config.pluginmanager.get_plugin(NAME)
    assert isinstance(found, KernelRun)
    return found


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest, run: KernelRun) -> Session:
    return run.start(request.session)


@pytest.fixture
def timer(request: pytest.FixtureRequest) -> ReplayTimer:
    return install_timer(request)


def test_kernel(
    case_id: str, run: KernelRun, session: Session, timer: ReplayTimer, benchmark: BenchmarkFixture
) -> None:
    case = run.cases[case_id]
    if refusal := session.device.refusal(case):
        pytest.skip(f"{case_id}: {refusal}")
    benchmark.group = case.family
    try:
        launchable = session.prepare(case)
        proof = session.prove(launchable)
        samples = session.sample(launchable)
    except (WrongResult, KernelFault, DeviceLost, MemoryError, PeakgateError) as error:
        outcome = session.failed(case, error)
    else:
        outcome = session.gate(launchable, proof, samples)
        benchmark.extra_info.update(extra_info(outcome))
        replay(benchmark, timer, samples.times_us)
    verdict, reason = outcome.judgement.verdict, outcome.judgement.reason
    if verdict in REGRESSIONS | UNDECIDED:
        where = f"; {session.floors.path}" if outcome.floor is not None else ""
        pytest.fail(f"{case_id} on {session.device.slug}: {verdict}, {reason}{where}", pytrace=False)
