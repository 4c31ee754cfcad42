"""The pytest plug-in: the fixture ``gpu_benchmark``, and what ``peakgate bench`` runs. Inert otherwise, cheap to load.

Plain pytest collects ``bench_*`` functions of ``bench_*.py`` in the folders of the project's benchmark tests too. Every
other name carries ``peakgate``; ``peakgate bench`` translates its own short options.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from peakgate.run.request import OPTION_PREFIX, add_options

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from peakgate.callables.fixture import GpuBenchmark
    from peakgate.session.replay import ReplayTimer

MARKER_LINE = (
    "peakgate(bytes=, flops=, peak_tflops=, math=, reference=, tolerance=, atol=, rtol=, outputs=, stream=, fresh=, "
    "state=, tuned=, gpus=): the work of gpu_benchmark's callable and what must come out of it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that ``peakgate bench`` passes on."""
    group = parser.getgroup("peakgate")
    group.addoption("--peakgate", action="store_true", help="measure the project's kernels; see `peakgate bench`")
    add_options(group.addoption, OPTION_PREFIX)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take part in the run where ``peakgate bench`` asks for it."""
    config.addinivalue_line("markers", MARKER_LINE)
    if config.option.peakgate:
        from peakgate.run import benchmark_tests, kernel_run  # noqa: PLC0415  (a stranger's tests must not pay for it)

        benchmark_tests.begin(config, kernel_run.begin(config))


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
    """Make a benchmark test of several states, or numbers of GPUs, one for each."""
    if metafunc.definition.get_closest_marker("peakgate") is not None:
        from peakgate.callables.settings import in_variants  # noqa: PLC0415  (as above)

        in_variants(metafunc)


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
) -> GpuBenchmark:
    """Prove, time and judge a callable on the GPU: ``gpu_benchmark(function, *args, **kwargs)`` gives its result.

    ``pytest.mark.peakgate`` or its methods ``work`` and ``expect`` say what it must do and what must come out.
    """
    from peakgate.run.plain_pytest import fixture  # noqa: PLC0415  (as above)

    return fixture(request, peakgate_timer, benchmark)
