"""The pytest plug-in: the fixture ``gpu_benchmark``, and what ``peakgate bench`` runs. Inert otherwise, cheap to load.

Plain pytest collects ``bench_*`` functions of ``bench_*.py`` in the folders of the project's benchmark tests too. Every
other name carries ``peakgate``; ``peakgate bench`` translates its own short options.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peakgate.run.request import OPTION_PREFIX, add_options

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from peakgate.callables.fixture import GpuBenchmark
    from peakgate.run.case_benchmark import CaseBenchmark
    from peakgate.session.replay import ReplayTimer

MARKER_LINE = (
    "peakgate(bytes=, flops=, peak_tflops=, math=, reference=, tolerance=, atol=, rtol=, outputs=, stream=, fresh=, "
    "state=, tuned=, gpus=): the work of gpu_benchmark's callable and what must come out of it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that ``peakgate bench`` passes on."""
    group = parser.getgroup("peakgate")
    group.addoption("--peakgate", action="store_true", help=argparse.SUPPRESS)  # a process of `peakgate bench`
    add_options(group.addoption, OPTION_PREFIX)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin the run where ``peakgate bench`` asks for it."""
    config.addinivalue_line("markers", MARKER_LINE)
    config.addinivalue_line("markers", CASES_LINE)
    if config.option.peakgate:
        from peakgate.run import benchmark_tests, kernel_run  # noqa: PLC0415  (a stranger's tests must not pay for it)

        benchmark_tests.begin(config, kernel_run.begin_bench(config))


CASES_LINE = "peakgate_cases(*families): the cases of kernel families, given by peakgate.suite.cases"

OWN_FUNCTIONS = pytest.StashKey[list[str]]()
"""Names of functions that the user's settings collect, noted before ``bench_`` is added to them."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect a file of the project's benchmark tests, where the user's own settings do not collect it anyhow."""
    if not (fnmatch(file_path.name, "bench_*.py") and _of_benchmarks(file_path)):
        return None
    config = parent.config
    if OWN_FUNCTIONS not in config.stash:
        config.stash[OWN_FUNCTIONS] = list(config.getini("python_functions"))
        config.addinivalue_line("python_functions", "bench_")
    by_itself = any(fnmatch(file_path.name, pattern) for pattern in config.getini("python_files"))
    if by_itself or parent.session.isinitpath(file_path):
        return None
    return pytest.Module.from_parent(parent, path=file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str) -> list[Any] | None:
    """Leave functions ``bench_*`` of other files alone, unless the user's settings collect them."""
    if not name.startswith("bench_") or OWN_FUNCTIONS not in collector.config.stash or _of_benchmarks(collector.path):
        return None
    own = collector.config.stash[OWN_FUNCTIONS]
    return None if any(name.startswith(pattern) or fnmatch(name, pattern) for pattern in own) else []


def _of_benchmarks(path: Path) -> bool:
    from peakgate.base import config, errors  # noqa: PLC0415  (a stranger's tests must not pay for it)

    try:
        project = config.find(path.parent)
    except errors.PeakgateError as error:
        raise pytest.UsageError(str(error)) from None
    return project is not None and any(path.is_relative_to(folder) for folder in project.benchmarks)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test the cases of its families; make one of several states, or numbers of GPUs, one for each."""
    if (families := metafunc.definition.get_closest_marker("peakgate_cases")) is not None:
        from peakgate.run.plain_pytest import parametrize  # noqa: PLC0415  (as above)

        parametrize(metafunc, families.args)
    if metafunc.definition.get_closest_marker("peakgate") is not None:
        from peakgate.callables.settings import in_variants  # noqa: PLC0415  (as above)

        in_variants(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin a run where there are tests of our fixtures and none has begun."""
    if any({"gpu_benchmark", "load_kernel"} & {*getattr(item, "fixturenames", ())} for item in items):
        from peakgate.run.plain_pytest import begin  # noqa: PLC0415  (as above)

        begin(config, items)


@pytest.fixture
def peakgate_timer(request: pytest.FixtureRequest) -> ReplayTimer:
    """The clock of ``gpu_benchmark``, requested before ``benchmark``: it plays back what the GPU's events measured.

    A benchmark marker of the test keeps its other settings (its group, say): only the timer is ours.
    """
    from peakgate.session.replay import ReplayTimer  # noqa: PLC0415  (as above)

    timer = ReplayTimer()
    marker = request.node.get_closest_marker("benchmark")
    settings = {**(marker.kwargs if marker else {}), "timer": timer}
    request.node.add_marker(pytest.mark.benchmark(**settings), append=False)
    return timer


@pytest.fixture
def gpu_benchmark(
    request: pytest.FixtureRequest, peakgate_timer: ReplayTimer, benchmark: BenchmarkFixture
) -> GpuBenchmark | CaseBenchmark:
    """Prove, time and judge a callable on the GPU: ``gpu_benchmark(function, *args, **kwargs)`` gives its result.

    ``pytest.mark.peakgate`` or its methods ``work`` and ``expect`` say what it must do and what must come out. In a
    test of ``peakgate.suite.cases`` it measures that test's case: ``gpu_benchmark(case)``.
    """
    from peakgate.run.plain_pytest import fixture  # noqa: PLC0415  (as above)

    return fixture(request, peakgate_timer, benchmark)


@pytest.fixture
def load_kernel(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Load a kernel of a .cu file: ``load_kernel(path, entry, **macros)`` gives what ``cupy.RawKernel`` is.

    ``kernel(grid, block, arguments, shared_mem=0)`` launches it: on a GPU by CuPy, without one in the emulator, on
    NumPy's arrays. The path is relative to the project's root.
    """
    from peakgate.callables.loaded import load_kernel  # noqa: PLC0415  (as above)
    from peakgate.run.plain_pytest import run_of  # noqa: PLC0415  (as above)

    device = run_of(request.config).session.device

    def load(path: str | Path, entry: str, **macros: object) -> Any:
        return load_kernel(device, path, entry, macros)

    return load
