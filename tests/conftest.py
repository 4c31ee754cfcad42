"""Fixtures of all tests: without a GPU, tests that need one are skipped with the reason.

Fixtures import what they need of the tool, so that the emulator's tests run where only the emulator is installed.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import peakgate_emulator as emulator

if TYPE_CHECKING:
    from comparing import Saved

    from peakgate.base.report import Report
    from peakgate.base.sandbox import Isolation
    from peakgate.inspect.workers import IdleWorkers

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).with_name("golden")

# Projects of their own, with benchmark tests of their own.
collect_ignore = ["data"]
if not (ROOT / "lab").exists():  # a source archive, which has no saved runs and no experiments
    collect_ignore += ["lab", "project/test_docs.py", "project/test_notebook.py"]
    collect_ignore += ["runfile/test_frame.py", "runfile/test_kept.py"]


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep lines of progress, which a command that takes some seconds writes, out of what tests read."""
    with contextlib.suppress(ImportError):  # the emulator alone is installed
        from peakgate.base import progress

        monkeypatch.setattr(progress, "FIRST_LINE_S", 1e9)
        monkeypatch.setattr(progress, "AT_ONCE_S", 1e9)


@pytest.fixture
def compiler() -> None:
    """Skip where the emulator finds no C++ compiler."""
    try:
        emulator.find_compiler()
    except emulator.EmulatorError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def bench(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimpleNamespace]:
    """``peakgate bench`` in the emulator, supervised by this process: its exit code and what it printed."""
    from peakgate.cli import main

    monkeypatch.setenv("NO_COLOR", "1")

    def run(project: Path, *arguments: str) -> SimpleNamespace:
        monkeypatch.chdir(project)
        capfd.readouterr()
        code = main(["bench", "--device", "cpu", *arguments])
        printed = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=printed.out, stderr=printed.err)

    return run


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with the file of this name in ``golden``; PEAKGATE_GOLDEN=write writes it anew."""

    def compare(name: str, text: str) -> None:
        if os.environ.get("PEAKGATE_GOLDEN") == "write":
            (GOLDEN / name).write_text(text, encoding="utf-8", newline="")
        assert text == (GOLDEN / name).read_bytes().decode("utf-8")

    return compare


@pytest.fixture
def shown(golden: Callable[[str, str], None]) -> Callable[[str, Report], None]:
    """Compare what a terminal shows of a report with the file of this name in ``golden``."""
    from rich.console import Console

    from peakgate.render import terminal

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
    os.environ.setdefault("PEAKGATE_CACHE", str(ROOT / ".cache"))
    with contextlib.suppress(ImportError):
        from peakgate.base.processes import one_blas_thread

        os.environ.update(one_blas_thread())  # others would spin for 40 ms in each process, where others need them
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
        del os.environ[name]  # a run that a test starts is no worker's: pytest-benchmark would measure nothing in it
    os.environ.pop("GITHUB_ACTIONS", None)  # commands print annotations there
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        _keep_bytecode(config)
    if config.pluginmanager.has_plugin("hypothesispytest"):  # the environments of `bench` and others do without
        _profiles()


def _keep_bytecode(config: pytest.Config) -> None:
    """Keep bytecode, though not beside the sources: else each process that a test starts would compile every module."""
    kept = ROOT / ".cache" / "bytecode"
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(kept)
    sys.dont_write_bytecode = False
    of_tests = kept / tempfile.gettempdir().lstrip("/")

    def forget() -> None:
        for folder in (*of_tests.glob("pytest-of-*"), *of_tests.glob("peakgate-*")):
            shutil.rmtree(folder, ignore_errors=True)

    config.add_cleanup(forget)


def _profiles() -> None:
    from hypothesis import Phase, settings

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
    if not marked:
        return
    from peakgate.device.driver import gpu_count

    if gpu_count() == 0:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, none answers here"))


def _uses_gpu_here(item: pytest.Item) -> bool:
    """Whether a test has pytest's own process use the GPU: what measured after it would find that process there."""
    marker = item.get_closest_marker("gpu")
    return marker is not None and bool(marker.kwargs.get("here"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """An empty project, entered: called with a name, a family file and kernels it writes them to ``kernels/NAME``."""
    (tmp_path / "peakgate.toml").write_text("")
    monkeypatch.chdir(tmp_path)

    def write(name: str, family: str | None = None, **kernels: str) -> Path:
        folder = tmp_path / "kernels" / name
        folder.mkdir(parents=True, exist_ok=True)
        files = {f"{kernel}.cu": text for kernel, text in kernels.items()}
        for file, text in (files if family is None else {"family.py": family, **files}).items():
            (folder / file).write_text(text)
        return folder

    return write


@pytest.fixture
def benchmarks(tmp_path: Path) -> Callable[[str], Path]:
    """A project of benchmark tests alone, of which this is the text."""

    def write(text: str) -> Path:
        (tmp_path / "benchmarks").mkdir()
        (tmp_path / "peakgate.toml").write_text('benchmarks = ["benchmarks"]')
        (tmp_path / "benchmarks" / "bench_ops.py").write_text(text)
        return tmp_path

    return write


@pytest.fixture
def sandboxed(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start a Python program in the sandbox, in ``folder`` beside ``scratch``; skip where it cannot be."""

    from peakgate.base import sandbox, seccomp
    from peakgate.base.sandbox import Isolation

    def start(way: Isolation, *program: str, landlock: int = 1, **options: Any) -> subprocess.Popen[bytes]:
        if way is Isolation.NAMESPACES and (why := sandbox.refusal_of_namespaces()):
            pytest.skip(why)
        if way is Isolation.LANDLOCK and sandbox._landlock_version() < landlock:
            pytest.skip(f"this machine's kernel has no Landlock of version {landlock}")
        if why := seccomp.refusal():
            pytest.skip(why)
        for name in ("folder", "scratch"):
            (tmp_path / name).mkdir(exist_ok=True)
        piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE} | options
        command = [sys.executable, "-P", "-c", *program]
        return sandbox.start(command, tmp_path / "folder", tmp_path / "scratch", way=way, **piped)

    return start


@pytest.fixture
def checked() -> Callable[..., tuple[int, dict[str, Any]]]:
    """``peakgate check`` in this process: its exit code and its verdict."""

    from peakgate.base import config
    from peakgate.cli import main

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = main(["check", "--jobs", "1", *arguments])
        return code, json.loads((config.current().out / "check.json").read_text())

    return run


@pytest.fixture(autouse=True)
def _forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forked from a process that has imported what they need, though pytest has several threads."""
    if workers := sys.modules.get("peakgate.inspect.workers"):
        import forked_workers

        monkeypatch.setattr(workers, "get_context", forked_workers.context)


@pytest.fixture(scope="module")
def idle() -> Iterator[IdleWorkers]:
    """Workers for all tests of a file, which take longer to start than to find what a kernel of three lines needs."""
    from peakgate.inspect import workers

    with workers.kept() as started, pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "kept", lambda: contextlib.nullcontext(started))
        yield started


@pytest.fixture(autouse=True, scope="session")
def _unsynced() -> Iterator[None]:
    """Files are not waited for until they are on a disk, thousands of times: no test ends with a power failure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _text_of_python() -> None:
    """Text is held as where PyArrow, which a fleet needs, is not installed: small frames take a third less time."""
    with contextlib.suppress(ImportError):
        import pandas as pd

        pd.options.mode.string_storage = "python"


@pytest.fixture(autouse=True)
def _after_every_synthetic_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthetic runs are dated November 2026, whatever this machine's clock says."""
    with contextlib.suppress(ImportError):
        from peakgate.runfile import saved

        monkeypatch.setattr(saved, "now", lambda: datetime(2027, 1, 1, tzinfo=UTC))


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    from comparing import Saved

    return Saved(tmp_path)
