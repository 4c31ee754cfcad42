"""``gpu_benchmark`` in a test of kernel cases: ``gpu_benchmark(case)`` measures and judges the test's case."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import shown
from peakgate.base.verdict import Judgement, Verdict
from peakgate.callables.settings import FIXTURE
from peakgate.run.kernel_run import family_case
from peakgate.run.loop import BenchRun
from peakgate.run.selection import RunCase
from peakgate.session.outcome import Entry
from peakgate.session.replay import ReplayFixture, ReplayTimer, fails
from peakgate.spec.case import Case


class CaseBenchmark(ReplayFixture):
    """The fixture of one test; ``entry`` is the result of its case, None before the measurement."""

    entry: Entry | None = None

    def __init__(self, run: BenchRun, case: RunCase, benchmark: BenchmarkFixture, timer: ReplayTimer) -> None:
        super().__init__(run.session, benchmark, timer)
        self._run, self._case = run, case

    def __call__(self, *given: object) -> None:
        """Measure the case and show it in pytest-benchmark's table. The test fails if the verdict does.

        The test is skipped if this device cannot run the case.
        """
        case = self._case
        if len(given) != 1 or given[0] is not case or self.entry is not None:
            again = ", and is called a second time" if self.entry is not None else ""
            raise PeakgateError(
                f"{case.id}: gpu_benchmark is given {', '.join(map(shown, given)) or 'nothing'}{again}; expected the "
                "test's own `case`, once; a callable is measured by a test without @cases",
                Code.BENCHMARK_TEST,
            )
        run, benchmark = self._run, self.benchmark
        if isinstance(case, Case):
            if refusal := run.session.device.refusal(case):
                run.store.skipped[case.id] = refusal
                pytest.skip(f"{case.id}: {refusal}")
            # For --benchmark-group-by=param:block.
            axes = {"stage": case.stage.name, "size": case.size, "block": case.block, "variant": case.variant}
            benchmark.params = axes
        benchmark.group = benchmark.group or case.family
        benchmark.fullname = f"peakgate::test_kernel[{case.id}]"  # runs are compared by it, whichever test measured
        self.entry, times_us = run.measure(case)
        self.show(self.entry, times_us)


class CaseTests:
    """The plug-in that fails a test whose case has a failing verdict, even if the test catches the error."""

    def __init__(self, run: BenchRun) -> None:
        self._run = run
        self._used: dict[str, CaseBenchmark] = {}

    def fixture(
        self, node: pytest.Item, case: RunCase, benchmark: BenchmarkFixture, timer: ReplayTimer
    ) -> CaseBenchmark:
        """The fixture of one test."""
        made = self._used[node.nodeid] = CaseBenchmark(self._run, case, benchmark, timer)
        return made

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Fail a test that hides a failing verdict or measures nothing.

        A test that fails after its measurement makes its case INCONCLUSIVE. Why one was skipped is kept.
        """
        report = yield
        case, fixture = family_case(item), self._used.get(item.nodeid)
        if case is None:
            return report
        entry = fixture.entry if fixture else None
        if entry is None or fixture is None:
            if report.skipped:
                reason = str(call.excinfo.value) if call.excinfo else "skipped"
                self._run.store.skipped.setdefault(case.id, reason)
            elif call.when == "call" and report.passed:
                report.outcome, report.longrepr = "failed", f"{case.id}: the test never calls {FIXTURE}(case)"
        elif fails(entry["verdict"], entry["reason"], self._run.session):
            if call.when == "call" and not report.failed:
                report.outcome, report.longrepr = "failed", f"{entry['verdict']} {case.id}: {entry['reason']}"
                vars(report).pop("wasxfail", None)
        elif report.failed and call.excinfo is not None:
            error = " ".join(call.excinfo.exconly().split())
            judgement = Judgement(Verdict.INCONCLUSIVE, f"the test fails after its measurement: {error}")
            entries = self._run.store.entries
            entries[:] = [each for each in entries if each["case"] != case.id]
            fixture.entry, _ = self._run.store.keep(self._run.session.unmeasured(case, judgement))
            fixture.benchmark.has_error = True
        return report
