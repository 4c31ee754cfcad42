"""The pytest plug-in: fixtures ``gpu_benchmark`` and ``load_kernel``, and the run of ``peakgate bench``.

It loads fast and does nothing for other tests. Plain pytest also collects ``bench_*`` functions of ``bench_*.py`` files
in the folders of the project's benchmark tests. All option and marker names contain ``peakgate``.
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
    from peakgate.run.case_tests import CaseBenchmark
    from peakgate.session.outcome import ReplayTimer

MARKER_LINE = (
    "peakgate(bytes=, flops=, peak_tflops=, math=, reference=, tolerance=, atol=, rtol=, outputs=, stream=, fresh=, "
    "state=, metric=, tuned=, parts=, gpus=): the work of gpu_benchmark's callable and what must come out of it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that ``peakgate bench`` passes on."""
    group = parser.getgroup("peakgate")
    group.addoption("--peakgate", action="store_true", help=argparse.SUPPRESS)  # a process of `peakgate bench`
    add_options(group.addoption, OPTION_PREFIX)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; begin the run of ``peakgate bench``."""
    config.addinivalue_line("markers", MARKER_LINE)
    config.addinivalue_line("markers", CASES_LINE)
    if config.option.peakgate:
        from peakgate.run import case_tests, kernel_run  # noqa: PLC0415  (slow to import for other test suites)

        case_tests.begin_tests(config, kernel_run.begin_bench(config))


CASES_LINE = "peakgate_cases(*families): the cases of kernel families, given by peakgate.suite.cases"

OWN_FUNCTIONS = pytest.StashKey[list[str]]()
"""Names of functions that the user's settings collect, noted before ``bench_`` is added to them."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect a file of the project's benchmark tests, unless the user's settings collect it anyway."""
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
    """Do not collect functions ``bench_*`` of other files, unless the user's settings do."""
    if not name.startswith("bench_") or OWN_FUNCTIONS not in collector.config.stash or _of_benchmarks(collector.path):
        return None
    own = collector.config.stash[OWN_FUNCTIONS]
    return None if any(name.startswith(pattern) or fnmatch(name, pattern) for pattern in own) else []


def _of_benchmarks(path: Path) -> bool:
    from peakgate.base import config, errors  # noqa: PLC0415  (as above)

    try:
        project = config.find(path.parent)
    except errors.PeakgateError as error:
        raise pytest.UsageError(str(error)) from None
    return project is not None and any(path.is_relative_to(folder) for folder in project.benchmarks)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with the cases of its families, or with its several states or numbers of GPUs."""
    if (families := metafunc.definition.get_closest_marker("peakgate_cases")) is not None:
        from peakgate.run.case_tests import parametrize  # noqa: PLC0415  (as above)

        parametrize(metafunc, families.args)
    if metafunc.definition.get_closest_marker("peakgate") is not None:
        from peakgate.callables.settings import in_variants  # noqa: PLC0415  (as above)

        in_variants(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin a run if there are tests of cases, or with the fixtures of this plug-in, and none has begun."""
    if any(
        {"gpu_benchmark", "load_kernel"} & {*getattr(item, "fixturenames", ())}
        or item.get_closest_marker("peakgate_cases")
        for item in items
    ):
        from peakgate.run.case_tests import begin  # noqa: PLC0415  (as above)

        begin(config, items)


@pytest.hookimpl(tryfirst=True, optionalhook=True)  # before pytest-benchmark's, where that plug-in is not disabled
def pytest_benchmark_compare_machine_info(
    benchmarksession: Any, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
) -> None:
    """Name the GPU of a compared run instead of printing two descriptions, which differ in each run."""
    if (gpu := compared_benchmark["machine_info"].get("gpu")) is not None:
        benchmarksession.logger.info(f"compared with a run on {gpu.get('name')}, driver {gpu.get('driver')}")
        compared_benchmark["machine_info"] = machine_info


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_benchmark_group_stats(benchmarks: list[dict[str, Any]], group_by: str) -> None:
    """Put tests of ``gpu_benchmark`` without the parameter of ``param:NAME`` into a group of their own.

    pytest-benchmark would end with a KeyError after the run.
    """
    names = [each.removeprefix("param:") for each in group_by.split(",") if each.startswith("param:")]
    for benchmark in benchmarks:
        if benchmark["fullname"].startswith("peakgate::"):
            benchmark["params"] = dict.fromkeys(names, "-") | (benchmark["params"] or {})


@pytest.fixture
def peakgate_timer(request: pytest.FixtureRequest) -> ReplayTimer:
    """The timer of ``gpu_benchmark``, requested before ``benchmark``: it plays back the times of CUDA events.

    Other settings of the test's ``benchmark`` marker, such as its group, apply.
    """
    from peakgate.session.outcome import ReplayTimer  # noqa: PLC0415  (as above)

    timer = ReplayTimer()
    marker = request.node.get_closest_marker("benchmark")
    settings = {**(marker.kwargs if marker else {}), "timer": timer}
    request.node.add_marker(pytest.mark.benchmark(**settings), append=False)
    return timer


@pytest.fixture
def gpu_benchmark(
    request: pytest.FixtureRequest, peakgate_timer: ReplayTimer, benchmark: BenchmarkFixture
) -> GpuBenchmark | CaseBenchmark:
    """Prove, time and judge a callable on the GPU: ``gpu_benchmark(function, *args, **kwargs)`` returns its result.

    ``pytest.mark.peakgate`` or the methods ``work`` and ``expect`` declare its work and its expected result. In a test
    of ``peakgate.suite.cases`` it measures that test's case: ``gpu_benchmark(case)``.
    """
    from peakgate.run.case_tests import fixture  # noqa: PLC0415  (as above)

    return fixture(request, peakgate_timer, benchmark)


@pytest.fixture
def load_kernel(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Load a kernel of a .cu file: ``load_kernel(path, entry, **macros)`` returns a kernel like ``cupy.RawKernel``.

    ``kernel(grid, block, arguments, shared_mem=0)`` launches it: on a GPU by CuPy, without one in the emulator on NumPy
    arrays. The path is relative to the project's root.
    """
    from peakgate.base import config, errors  # noqa: PLC0415  (as above)
    from peakgate.callables.loaded import load_kernel  # noqa: PLC0415  (as above)
    from peakgate.run.case_tests import run_of  # noqa: PLC0415  (as above)

    own, root = config.find(request.path.parent), config.current().root
    if own is not None and own.root != root:  # a file of the same name in this project would be measured
        raise errors.PeakgateError(
            f"{request.node.nodeid}: is of the project {own.root}, not of {root}; run pytest in its own",
            errors.Code.BENCHMARK_TEST,
        )
    device = run_of(request.config).session.device

    def load(path: str | Path, entry: str, **macros: object) -> Any:
        return load_kernel(device, path, entry, macros)

    return load
