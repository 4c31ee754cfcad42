"""The tests of a run: each kernel case is proven, timed and compared with its floor.

In an A/B a second test reports the result of the case's other build.
"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.run.case_tests import CaseBenchmark, run_of
from peakgate.session.outcome import ReplayTimer, replay
from peakgate.spec.case import Case
from peakgate.suite import cases


@cases()
def test_kernel(case: Case, gpu_benchmark: CaseBenchmark) -> None:
    gpu_benchmark(case)


def test_other_build(
    case_id: str, request: pytest.FixtureRequest, peakgate_timer: ReplayTimer, benchmark: BenchmarkFixture
) -> None:
    from peakgate.run.ab_run import AbRun  # noqa: PLC0415  (in an A/B only)

    run = run_of(request.config)
    assert isinstance(run, AbRun)
    entry, times_us = run.measure_other(run.cases[case_id])
    if not times_us:
        pytest.fail(f"{case_id}: {entry['verdict']}, {entry['reason']}", pytrace=False)
    replay(benchmark, peakgate_timer, times_us, entry)
