"""``python -m peakgate.inspect.watched.process FOLDER TEXT ORDER...``: run benchmark tests and check their kernels.

Launches of ``triton.jit`` functions are checked by ``triton_kernels``. CuPy is ``cupy_stand_in``, whose kernels run in
the emulator: the first launch of each kernel in a test in every order of threads, further ones in the first. Tests run
without timing. After each test everything that was found is written to ``found.json`` in the folder.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pytest
from msgspec.json import encode

from peakgate.base import config
from peakgate.base.emulated import LaunchNotEnded
from peakgate.base.errors import PeakgateError, raised_at
from peakgate.base.options import selector
from peakgate.base.verdict import ExitCode
from peakgate.callables.fixture import GpuBenchmark
from peakgate.callables.loaded import EmulatedRawKernel
from peakgate.callables.settings import case_of
from peakgate.inspect.emulate import WRONG_RESULT
from peakgate.inspect.watched import cupy_stand_in
from peakgate.inspect.watched.kernels import STRINGS, TRITON, WatchedTest, files_with
from peakgate.inspect.watched.running import running
from peakgate.run.collection import pytest_arguments
from peakgate_emulator import KernelDefect

_JUDGED_WRONG = re.compile(r"WRONG \S+ on \S+: ")
"""The beginning of what ``gpu_benchmark`` says of a wrong result, before its reason."""


class Launches:
    """The watch of the emulated kernels."""

    def __init__(self, orders: Sequence[int]) -> None:
        self._orders = orders
        self._unended: set[Path | None] = set()

    def orders(self, kernel: EmulatedRawKernel) -> Sequence[int]:
        """Every order for the first launch in a test; LaunchNotEnded if the kernel took too long in another test."""
        if kernel.stage.source in self._unended:
            raise LaunchNotEnded(
                f"{kernel.name} did not end in another test, and is not launched again; -k selects tests"
            )
        return self._orders if running.launched(kernel.name) else self._orders[:1]

    def found(self, kernel: EmulatedRawKernel, order: int, error: KernelDefect | PeakgateError) -> None:
        """Add each defect to the running test."""
        if isinstance(error, LaunchNotEnded):
            self._unended.add(kernel.stage.source)
        for each in error.defects if isinstance(error, KernelDefect) else ():
            line = (each.location or "").rpartition(":")[2]
            if line.isdigit():
                running.place(str(kernel.stage.source), int(line))
            running.found(kernel.name, each.kind.words, each.location, str(each), each.order, schedule=order)


class Plugin:  # its methods are pytest's hooks
    """Selects the tests that ``-k text`` selects in these files, and records the outcome of each in a file."""

    def __init__(self, text: str, files: set[Path], out: Path) -> None:
        self._selects, self._files, self._out = selector(text), files, out
        self._tests: dict[str, WatchedTest] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.path in self._files and self._selects(case_of(item.nodeid).id)]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._tests[item.nodeid] = running.begin(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note a wrong result, by the fixture's reference or the test's own assertion, and why a test did not pass."""
        report = yield
        if call.when == "call":
            assert isinstance(item, pytest.Function)
            fixture = item.funcargs.get("gpu_benchmark")
            given = isinstance(fixture, GpuBenchmark) and fixture.compares  # a reference
            running.test.compared |= given or asserts(item.function)
        if report.outcome == "passed":
            return report
        test, error = running.test, call.excinfo.value if call.excinfo else None
        said = str(error or report.longreprtext)
        judged = _JUDGED_WRONG.match(said)
        wrong = _short(_JUDGED_WRONG.sub("", said)) if judged else ""
        if not wrong and isinstance(error, AssertionError):
            wrong = f"{Path(raised_at(error, item.path.parent) or item.path).name}: {_short(said)}"
        if report.outcome == "skipped" or _needs_gpu(error):
            if test.launches:
                running.limit(f"what follows its launches: {_short(said)}")
            else:
                test.outcome = f"skipped: {_short(said)}"
            return report
        if wrong and not test.findings and (test.launches or judged):
            # Of the last kernel that was launched, or the test if it launched none of those watched.
            kernel, where = [case_of(item.nodeid).stage.name, *test.launches][-1], running.last_store
            if where and " is nan" in wrong:
                kind = "uninitialised result"
                text = f"{where}: {kind}: a result has uninitialised elements ({wrong}); this is the last store"
                running.found(kernel, kind, where, text)
            else:
                running.found(kernel, WRONG_RESULT, None, f"{WRONG_RESULT}: {wrong}")
        name = "" if error is None or isinstance(error, PeakgateError) else f"{type(error).__name__}: "
        test.outcome = test.outcome or f"failed: {name}{_short(said)}"
        return report

    def pytest_runtest_logfinish(self) -> None:
        self._out.write_bytes(encode(self._tests))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        call: pytest.CallInfo[object] | None = vars(report).get("call")
        error = call.excinfo.value if call is not None and call.excinfo is not None else None
        if report.outcome != "passed":
            outcome = "skipped" if report.outcome == "skipped" or _needs_gpu(error and error.__cause__) else "failed"
            said = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext)
            self._tests[report.nodeid] = WatchedTest(outcome=f"{outcome}: {said.strip().splitlines()[-1]}")
            self._out.write_bytes(encode(self._tests))
        return report


def asserts(function: Callable[..., object]) -> bool:
    """Whether a function's own code has an ``assert`` or calls what is named so, as ``torch.testing.assert_close`` is.

    Not assertions of functions that it calls by other names: a result that only these compare counts as not compared.
    """
    try:
        lines = inspect.getsource(function)
    except OSError:  # made by exec
        return False
    tree = ast.parse(f"if True:\n{lines}" if lines[0].isspace() else lines)  # a method's lines are indented
    called = (ast.unparse(node.func).rpartition(".")[2] for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree)) or any(
        name.lower().lstrip("_").startswith("assert") for name in called
    )


def _short(said: str) -> str:
    """The first two lines of a message, without those that explain a comparison."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.lstrip().startswith("+")]
    return "; ".join(lines[:2])


def _needs_gpu(error: BaseException | None) -> bool:
    """Whether a test needs something of CuPy that its stand-in lacks, or a time."""
    if isinstance(error, ImportError):
        return (error.name or "").partition(".")[0] in ("cupy", "cupyx")
    timeless = isinstance(error, AttributeError | TypeError) and "'NoneType' object" in str(error)  # benchmark.stats
    return isinstance(error, cupy_stand_in.NeedsCuPy) or timeless


def main(arguments: Sequence[str]) -> int:
    """Run the tests and write what was found."""
    folder, text, *orders = arguments
    project = config.required()
    project.extend_import_path()
    files = files_with(STRINGS, project)
    if files:
        cupy_stand_in.RawModule.folder = Path(folder)
        sys.modules.update(cupy_stand_in.modules())
        EmulatedRawKernel.watch = Launches(list(map(int, orders)))
    if importlib.util.find_spec("triton_viz") and (triton := files_with(TRITON, project)):
        from peakgate.inspect.watched import triton_kernels  # noqa: PLC0415  (needs the extra)

        files |= triton
        triton_kernels.watch()
    options = [*pytest_arguments(project), f"--rootdir={project.root}", "-q", "-p", "no:cacheprovider"]
    options += ["--benchmark-disable", "--peakgate-device=cpu"]
    ended = pytest.main(options, plugins=[Plugin(text, files, Path(folder) / "found.json")])
    done = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    return ExitCode.OK if ended in done else ExitCode.DEFECT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
