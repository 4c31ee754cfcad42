"""Every kernel: proven right, then timed, then held to its floor."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from suite.case import Case
from suite.device.interface import DeviceLost, KernelFault
from suite.errors import PeakgateError
from suite.record import extra_info
from suite.replay import ReplayTimer, replay
from suite.session import Session, WrongResult
from suite.verdict import REGRESSIONS, UNDECIDED


def test_kernel(
    case_id: str, case: Case, session: Session, replay_timer: ReplayTimer, benchmark: BenchmarkFixture
) -> None:
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
        replay(benchmark, replay_timer, samples.times_us)
    verdict, reason = outcome.judgement.verdict, outcome.judgement.reason
    if verdict in REGRESSIONS | UNDECIDED:
        where = f"; {session.floors.path}" if outcome.floor is not None else ""
        pytest.fail(f"{case_id} on {session.device.slug}: {verdict}, {reason}{where}", pytrace=False)
