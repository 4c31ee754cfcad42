"""``gpu_benchmark`` in a test that has a case of a kernel family: ``gpu_benchmark(case)`` measures and judges it."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import shown
from peakgate.run.cases import RunCase
from peakgate.run.loop import BenchRun
from peakgate.session.replay import ReplayTimer, raise_for, replay
from peakgate.spec.case import Case


class CaseBenchmark:
    """The fixture of one test; ``case`` is what it is parametrized with."""

    def __init__(self, run: BenchRun, case: RunCase, benchmark: BenchmarkFixture, timer: ReplayTimer) -> None:
        self._run, self._case, self._benchmark, self._timer = run, case, benchmark, timer

    def __call__(self, case: RunCase) -> None:
        """Measure the case, and show it in pytest-benchmark's table; the test fails where the verdict does.

        The test is skipped where this device cannot run the case.
        """
        if case is not self._case:
            raise PeakgateError(
                f"{self._case.id}: gpu_benchmark is given {shown(case)}; expected the test's own `case`; a callable is "
                "measured by a test without @cases",
                Code.BENCHMARK_TEST,
            )
        run, benchmark = self._run, self._benchmark
        if isinstance(case, Case):
            if refusal := run.session.device.refusal(case):
                run.store.skipped[case.id] = refusal
                pytest.skip(f"{case.id}: {refusal}")
            # What --benchmark-group-by=param:block sees.
            axes = {"stage": case.stage.name, "size": case.size, "block": case.block, "variant": case.variant}
            benchmark.params = axes
        benchmark.group = benchmark.group or case.family
        benchmark.fullname = f"peakgate::test_kernel[{case.id}]"  # by which runs are compared, whatever test it was
        entry, times_us = run.measure(case)
        replay(benchmark, self._timer, times_us, entry)
        raise_for(entry, run.session)
