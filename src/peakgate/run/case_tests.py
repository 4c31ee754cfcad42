"""Tests of kernel cases, and the run to which a test belongs: ``gpu_benchmark(case)`` measures and judges its case.

The run is that of ``peakgate bench``, or under plain pytest one begun by the first test.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base import config as project
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import nearest, one_line, shown
from peakgate.base.verdict import Judgement, Verdict
from peakgate.callables import FIXTURE
from peakgate.run import benchmark_tests, kernel_run
from peakgate.run.benchmark_tests import TESTS_PLUGIN_NAME, BenchmarkTests
from peakgate.run.collection import CASES_MARKER, Listing, RunCase
from peakgate.run.kernel_run import PLUGIN_NAME, RunHooks, family_case
from peakgate.run.loop import BenchRun
from peakgate.run.process import KERNELS
from peakgate.run.request import OPTION_PREFIX
from peakgate.session.outcome import Entry, ReplayFixture, ReplayTimer, fails
from peakgate.spec.case import Case, Tier

if TYPE_CHECKING:
    from peakgate.callables.fixture import GpuBenchmark

CASES_PLUGIN_NAME = "peakgate-case-tests"


def run_of(config: pytest.Config) -> BenchRun:
    """The run of this process, begun if there is none yet; raises PeakgateError if it cannot begin."""
    hooks = config.pluginmanager.get_plugin(PLUGIN_NAME)
    if isinstance(hooks, RunHooks):
        return hooks.run
    run = kernel_run.begin(config, RunHooks)
    begin_tests(config, run)
    return run


def begin_tests(config: pytest.Config, run: BenchRun) -> None:
    """Register the plug-ins for benchmark tests and for tests of cases."""
    benchmark_tests.begin(config, run)
    config.pluginmanager.register(CaseTests(run), CASES_PLUGIN_NAME)


def begin(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin a run for the benchmark tests among these items, unless one has begun or tests are only listed.

    What a user has to change for it is pytest's usage error.
    """
    if _only_listed(config):
        return
    begun = config.pluginmanager.has_plugin(PLUGIN_NAME)
    try:
        run_of(config)
    except PeakgateError as error:
        raise pytest.UsageError(one_line(str(error)).replace("--device", f"{OPTION_PREFIX}device")) from None
    tests = config.pluginmanager.get_plugin(TESTS_PLUGIN_NAME)
    if not begun and isinstance(tests, BenchmarkTests):  # registered too late for pytest to call its hook
        tests.pytest_collection_modifyitems(config, items)


def parametrize(metafunc: pytest.Metafunc, families: Sequence[str]) -> None:
    """Parametrize a test with the cases of these families, without names of all; raises CollectError on a mistake.

    Without cases if tests are only listed, if the built-in test measures every case, or if no run can begin.
    """
    config, ours = metafunc.config, kernel_run.of_kernels(metafunc.definition)
    if _only_listed(config) or (not ours and config.option.peakgate and str(KERNELS) in config.args):
        metafunc.parametrize("case", [])
        return
    try:
        run = run_of(config)
        requested = run.cases.values()
    except PeakgateError:  # `begin` or the run's own hook reports it, once for all tests
        metafunc.parametrize("case", [])
        return
    named = list(metafunc.definition.iter_markers(CASES_MARKER))
    root = project.current().root
    if len(named) > 1 or not (ours or metafunc.definition.path.is_relative_to(root)):
        mistake = "has @cases twice" if len(named) > 1 else f"is outside the project {root}; run pytest in its own"
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {mistake} [{Code.BENCHMARK_TEST}]")
    known = {case.family for case in run.known.listed(Tier.FULL)}
    if unknown := [family for family in families if family not in known]:
        asked = f"{metafunc.definition.nodeid}: @cases names {unknown[0]!r}, expected a kernel family"
        raise pytest.Collector.CollectError(f"{asked}{nearest(unknown[0], known)} [{Code.BENCHMARK_TEST}]")
    gate = {case.id for case in run.known.listed(Tier.GATE)}
    chosen = [case for case in requested if not families or case.family in families]
    marked = [pytest.param(case, id=case.id, marks=pytest.mark.gate if case.id in gate else ()) for case in chosen]
    metafunc.parametrize("case", marked)


def _only_listed(config: pytest.Config) -> bool:
    return any(isinstance(plugin, Listing) for plugin in config.pluginmanager.get_plugins())


def fixture(
    request: pytest.FixtureRequest, timer: ReplayTimer, benchmark: BenchmarkFixture
) -> GpuBenchmark | CaseBenchmark:
    """The fixture ``gpu_benchmark`` of one test: for the test's kernel case if it has one, else for a callable."""
    config, node = request.config, request.node
    if benchmark.disabled and not config.getoption("benchmark_disable"):
        benchmark.skipped = True  # else pytest-benchmark warns that it was not used
        raise pytest.fail.Exception(
            f"{node.nodeid}: not measured: pytest-xdist disables benchmarks; leave out -n, or use --benchmark-disable "
            "to check results only",
            pytrace=False,
        )
    if "benchmark" in inspect.signature(node.function).parameters:
        raise PeakgateError(
            f"{node.nodeid} takes benchmark beside gpu_benchmark, which uses it; measure each in a test of its own",
            Code.BENCHMARK_TEST,
        )
    run = run_of(config)
    tests, of_cases = (config.pluginmanager.get_plugin(name) for name in (TESTS_PLUGIN_NAME, CASES_PLUGIN_NAME))
    assert isinstance(tests, BenchmarkTests)
    assert isinstance(of_cases, CaseTests)
    if (case := kernel_run.family_case(node)) is not None:
        if run.ranks.size > 1:
            run.store.skipped[case.id] = f"runs on one GPU, and {run.ranks.size} processes run it"
            pytest.skip(f"{case.id}: {run.store.skipped[case.id]}")
        return of_cases.fixture(node, case, benchmark, timer)
    return tests.fixture(node, benchmark, timer)


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
