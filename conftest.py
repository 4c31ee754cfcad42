"""Fixtures of this repository's own tests: without a GPU, tests that need one are skipped with the reason."""

from __future__ import annotations

import gc
import io
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from peakgate import emulator
from peakgate.cli import main
from peakgate.core import terminal
from peakgate.core.errors import PeakgateError
from peakgate.core.processes import one_blas_thread
from peakgate.core.report import Report
from peakgate.device.driver import gpu_count
from rich.console import Console

# Projects of their own, with benchmark tests of their own.
collect_ignore = ["lab/newcomer/projects", "lab/dodges/project", "lab/traps", "lab/history_trials"]
if not Path(__file__).with_name("lab").exists():  # a source archive, which has no saved runs and no experiments
    collect_ignore += [f"reports/tests/test_{name}.py" for name in ("docs", "frame", "kept", "notebook")]


@pytest.fixture
def compiler() -> None:
    """Skip where the emulator finds no C++ compiler."""
    try:
        emulator.find_compiler()
    except PeakgateError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def bench(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimpleNamespace]:
    """``peakgate bench`` in the emulator, supervised by this process: its exit code and what it printed."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(project: Path, *arguments: str) -> SimpleNamespace:
        monkeypatch.chdir(project)
        capfd.readouterr()
        code = main(["bench", "--device", "cpu", *arguments])
        printed = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=printed.out, stderr=printed.err)

    return run


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file of this name in ``golden`` beside the test; PEAKGATE_GOLDEN=write writes it anew."""
    folder = request.path.with_name("golden")

    def compare(name: str, text: str) -> None:
        if os.environ.get("PEAKGATE_GOLDEN") == "write":
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", newline="")
        assert text == (folder / name).read_bytes().decode("utf-8")

    return compare


@pytest.fixture
def shown(golden: Callable[[str, str], None]) -> Callable[[str, Report], None]:
    """Compare what a terminal shows of a report with the file of this name in ``golden`` beside the test."""

    def compare(name: str, report: Report) -> None:
        stream = io.StringIO()
        console = Console(file=stream, width=80, highlight=False, emoji=False, markup=False)
        terminal.show(report, console)
        terminal.last_line(report, console)
        golden(name, stream.getvalue())

    return compare


@pytest.hookimpl(tryfirst=True)  # before hypothesis looks for the profile it is asked for
def pytest_configure(config: pytest.Config) -> None:
    """Take interrupts: a shell's background job ignores them, and so would every process that a test interrupts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(20_000)  # a sixth of what tests take that build frames and trees
    # Projects that tests write share what is built, the emulator's runtime above all.
    os.environ.setdefault("PEAKGATE_CACHE", str(Path(__file__).with_name(".cache")))
    os.environ.update(one_blas_thread())  # others would spin for 40 ms in each process, where other tests need them
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
        del os.environ[name]  # a run that a test starts is no worker's: pytest-benchmark would measure nothing in it
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        _keep_bytecode(config)
    if config.pluginmanager.has_plugin("hypothesispytest"):  # the environments of `bench` and others do without
        _profiles()


def _keep_bytecode(config: pytest.Config) -> None:
    """Keep bytecode, though not beside the sources: else each process that a test starts would compile every module."""
    kept = Path(__file__).with_name(".cache") / "bytecode"
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(kept)
    sys.dont_write_bytecode = False
    of_tests = kept / tempfile.gettempdir().lstrip("/")

    def forget() -> None:
        for folder in (*of_tests.glob("pytest-of-*"), *of_tests.glob("peakgate-*")):
            shutil.rmtree(folder, ignore_errors=True)

    config.add_cleanup(forget)


def _profiles() -> None:
    from hypothesis import Phase, settings  # noqa: PLC0415

    settings.register_profile("tests", max_examples=25, deadline=None)
    settings.register_profile(
        "mutation",
        max_examples=5,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        database=None,
        derandomize=True,
    )
    settings.load_profile("tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gc.freeze()  # what was imported and collected stays
    items.sort(key=_uses_gpu_here)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and gpu_count() == 0:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, none answers here"))


def _uses_gpu_here(item: pytest.Item) -> bool:
    """Whether a test has pytest's own process use the GPU: what measured after it would find that process there."""
    marker = item.get_closest_marker("gpu")
    return marker is not None and bool(marker.kwargs.get("here"))


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector:
    """Collect every folder as a plain one: suite/ is the package peakgate and must not be imported as ``suite`` too."""
    collected: pytest.Collector = pytest.Dir.from_parent(parent, path=path)
    return collected
