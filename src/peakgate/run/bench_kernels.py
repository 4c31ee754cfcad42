"""Every kernel: proven right, then timed, then compared with its floor; in an A/B also what came of its other build."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.run.case_benchmark import CaseBenchmark
from peakgate.run.plain_pytest import run_of
from peakgate.session.replay import ReplayTimer, replay
from peakgate.spec.case import Case
from peakgate.suite import cases


@cases()
def test_kernel(case: Case, gpu_benchmark: CaseBenchmark) -> None:
    gpu_benchmark(case)


def test_other_build(
    case_id: str, request: pytest.FixtureRequest, peakgate_timer: ReplayTimer, benchmark: BenchmarkFixture
) -> None:
    run = run_of(request.config)
    entry, times_us = run.measure_other(run.cases[case_id])
    if not times_us:
        pytest.fail(f"{case_id}: {entry['verdict']}, {entry['reason']}", pytrace=False)
    replay(benchmark, peakgate_timer, times_us, entry)
