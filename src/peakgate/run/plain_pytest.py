"""``gpu_benchmark`` in any run of pytest: in one of ``peakgate bench`` it measures for the run, else by itself."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base import config
from peakgate.callables.frameworks import of_framework
from peakgate.callables.naming import FIXTURE
from peakgate.device.driver import gpu_count
from peakgate.judge.floors import load_floors
from peakgate.run.benchmark_tests import TESTS_PLUGIN_NAME, BenchmarkTests
from peakgate.session.replay import ReplayTimer
from peakgate.session.session import Session
from peakgate.spec.case import Tier

if TYPE_CHECKING:
    from peakgate.callables.fixture import GpuBenchmark

SKIPS = "peakgate-skips"


class SkippedWithoutGpu:
    """Without a GPU, skip a test that a GPU framework stops, with that framework's message."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        try:
            return (yield)
        except Exception as error:
            if FIXTURE in pyfuncitem.fixturenames and of_framework(error):
                pytest.skip(f"no GPU answers: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
            raise


def fixture(request: pytest.FixtureRequest, timer: ReplayTimer, benchmark: BenchmarkFixture) -> GpuBenchmark:
    """The fixture of one test, in a run of ``peakgate bench`` and in any other of pytest."""
    from peakgate.callables.fixture import GpuBenchmark  # noqa: PLC0415  (as above)

    plugins = request.config.pluginmanager
    tests = plugins.get_plugin(TESTS_PLUGIN_NAME)
    if not gpu_count() and not plugins.has_plugin(SKIPS):
        plugins.register(SkippedWithoutGpu(), SKIPS)
    if not isinstance(tests, BenchmarkTests):
        own = None if benchmark.disabled or not gpu_count() else _own_session(request.config)
        return GpuBenchmark(request.node, own, benchmark, timer)
    return tests.fixture(request.node, benchmark, timer)


_OWN_SESSION = pytest.StashKey[Session]()


def _own_session(pytest_config: pytest.Config) -> Session:
    """The session of a pytest run that is not ours: the first GPU, the floors of the project at hand."""
    if _OWN_SESSION not in pytest_config.stash:
        from peakgate.device.choose import open_device  # noqa: PLC0415  (a run without a GPU needs no device)

        project = config.current()
        device, _ = open_device("gpu")
        floors = load_floors(project.baselines / device.slug / "floors.toml")
        session = Session(device, floors, Tier.GATE, wants_roofs=False)
        session.begin([])
        pytest_config.stash[_OWN_SESSION] = session
    return pytest_config.stash[_OWN_SESSION]
