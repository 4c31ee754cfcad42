"""The run of a process of pytest: that of ``peakgate bench``, or one that the first test of a GPU begins by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import nearest
from peakgate.base.safe_text import one_line
from peakgate.run import benchmark_tests, kernel_run
from peakgate.run.benchmark_tests import TESTS_PLUGIN_NAME, BenchmarkTests
from peakgate.run.case_benchmark import CaseBenchmark
from peakgate.run.collection import Listing
from peakgate.run.kernel_run import PLUGIN_NAME, RunHooks
from peakgate.run.loop import BenchRun
from peakgate.session.replay import ReplayTimer
from peakgate.spec.case import Tier

if TYPE_CHECKING:
    from peakgate.callables.fixture import GpuBenchmark

GATE_LINE = "gate: a case that `peakgate bench` and `peakgate gate` measure; the others are of the full tier"


def run_of(config: pytest.Config) -> BenchRun:
    """The run of this process, begun where there is none yet; PeakgateError where it cannot begin."""
    hooks = config.pluginmanager.get_plugin(PLUGIN_NAME)
    if isinstance(hooks, RunHooks):
        return hooks.run
    run = kernel_run.begin(config, RunHooks)
    benchmark_tests.begin(config, run)
    return run


def begin(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin a run for the benchmark tests among these items, unless one has begun, or they are only listed."""
    if _only_listed(config):
        return
    begun = config.pluginmanager.has_plugin(PLUGIN_NAME)
    try:
        run_of(config)
    except PeakgateError as error:
        raise pytest.UsageError(one_line(str(error))) from None
    tests = config.pluginmanager.get_plugin(TESTS_PLUGIN_NAME)
    if not begun and isinstance(tests, BenchmarkTests):  # its hook is called in this round no more
        tests.pytest_collection_modifyitems(config, items)


def parametrize(metafunc: pytest.Metafunc, families: Sequence[str]) -> None:
    """Give a test the cases of these families, of all without a name; what prevents it is an error of its file."""
    if _only_listed(metafunc.config):
        metafunc.parametrize("case", [])
        return
    try:
        run = run_of(metafunc.config)
    except PeakgateError as error:
        raise pytest.Collector.CollectError(one_line(str(error))) from None
    known = {case.family for case in run.known.listed(Tier.FULL)}
    if unknown := [family for family in families if family not in known]:
        asked = f"{metafunc.definition.nodeid}: @cases names {unknown[0]!r}, expected a kernel family"
        raise pytest.Collector.CollectError(
            str(PeakgateError(f"{asked}{nearest(unknown[0], known)}", Code.BENCHMARK_TEST))
        )
    metafunc.config.addinivalue_line("markers", GATE_LINE)
    gate = {case.id for case in run.known.listed(Tier.GATE)}
    chosen = [case for case in run.cases.values() if not families or case.family in families]
    marked = [pytest.param(case, id=case.id, marks=pytest.mark.gate if case.id in gate else ()) for case in chosen]
    metafunc.parametrize("case", marked)


def _only_listed(config: pytest.Config) -> bool:
    return any(isinstance(plugin, Listing) for plugin in config.pluginmanager.get_plugins())


def fixture(
    request: pytest.FixtureRequest, timer: ReplayTimer, benchmark: BenchmarkFixture
) -> GpuBenchmark | CaseBenchmark:
    """The fixture of one test: of a family's case where it has one, else of a callable."""
    config, node = request.config, request.node
    if benchmark.disabled and not config.getoption("benchmark_disable"):
        raise pytest.fail.Exception(
            f"{node.nodeid}: not measured: pytest-xdist disables benchmarks; leave out -n, or give --benchmark-disable "
            "to prove it alone",
            pytrace=False,
        )
    run = run_of(config)
    if (case := kernel_run.family_case(node)) is not None:
        return CaseBenchmark(run, case, benchmark, timer)
    tests = config.pluginmanager.get_plugin(TESTS_PLUGIN_NAME)
    assert isinstance(tests, BenchmarkTests)
    return tests.fixture(node, benchmark, timer)
