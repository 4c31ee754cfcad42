"""The run of a pytest process: that of ``peakgate bench``, or under plain pytest one begun by the first test."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base import config as project
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import nearest, one_line
from peakgate.run import benchmark_tests, kernel_run
from peakgate.run.benchmark_tests import CASES_PLUGIN_NAME, TESTS_PLUGIN_NAME, BenchmarkTests
from peakgate.run.case_benchmark import CaseBenchmark, CaseTests
from peakgate.run.collection import CASES_MARKER, Listing
from peakgate.run.kernel_run import PLUGIN_NAME, RunHooks
from peakgate.run.loop import BenchRun
from peakgate.run.process import KERNELS
from peakgate.run.request import OPTION_PREFIX
from peakgate.session.replay import ReplayTimer
from peakgate.spec.case import Tier

if TYPE_CHECKING:
    from peakgate.callables.fixture import GpuBenchmark


def run_of(config: pytest.Config) -> BenchRun:
    """The run of this process, begun if there is none yet; raises PeakgateError if it cannot begin."""
    hooks = config.pluginmanager.get_plugin(PLUGIN_NAME)
    if isinstance(hooks, RunHooks):
        return hooks.run
    run = kernel_run.begin(config, RunHooks)
    benchmark_tests.begin(config, run)
    return run


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
