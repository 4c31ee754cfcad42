"""Checks the kernels that benchmark tests launch, without a GPU: those of Triton, and CUDA C++ in strings for CuPy.

``process`` runs the tests, this module reports. Each kernel that a test launches is reported. Notes list what
was not checked: skipped tests, Triton launches with atomics or too many accesses, configurations of a tuned kernel.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from peakgate.base import config, records
from peakgate.base.config import Project
from peakgate.base.files import scratch_folder
from peakgate.base.formatting import counted
from peakgate.base.packages import install_command
from peakgate.base.processes import Asked, own_module
from peakgate.inspect.emulate import BuildReport, LaunchFinding
from peakgate.spec.stage import SourceLine

TESTS_LIMIT_S = 600.0
MOST_NOTES = 6
TRITON, STRINGS = (b"triton",), (b"RawKernel", b"RawModule")
"""Words of files with kernels."""


class KernelFinding(Struct):
    """One finding of a test; ``text`` is the line at ``finding.where``, in the file ``path``."""

    kernel: str
    finding: LaunchFinding
    text: str
    path: str


class WatchedTest(Struct):
    """The result of one test: its findings, its launches by kernel, and what was not checked.

    ``outcome`` is empty if it passed. ``compared``: it compared a result with something.
    """

    findings: list[KernelFinding] = []
    launches: dict[str, int] = {}
    limits: list[str] = []
    outcome: str = ""
    compared: bool = False


@dataclass
class KernelsOfTests:
    """The kernels of benchmark tests: their reports, notes on what was not checked, and source lines.

    ``lines`` are those of findings by kernel and place; without a place the file of the kernel's test.
    """

    reports: list[BuildReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lines: dict[tuple[str, str | None], SourceLine] = field(default_factory=dict)


def files_with(words: Sequence[bytes], project: Project) -> set[Path]:
    """The files of benchmark tests that have one of the words, or name a file of the project's Python that has one."""
    tests = _python_files(project.benchmarks)
    texts = {path: path.read_bytes() for path in {*tests, *_python_files(project.pythonpath)}}
    having = {path for path, text in texts.items() if any(word in text for word in words)}
    names = {(path.parent.name if path.stem == "__init__" else path.stem).encode() for path in having}
    folders = [path.parent for path in having if path.name == "conftest.py"]
    return {
        path
        for path in tests
        if path in having or any(name in texts[path] for name in names) or any(map(path.is_relative_to, folders))
    }


def _python_files(folders: Sequence[Path]) -> set[Path]:
    found = {path for each in folders for path in (each.rglob("*.py") if each.is_dir() else [each])}
    return {path for path in found if path.is_file()}


@contextmanager
def begun(text: str, orders: Sequence[int]) -> Iterator[KernelsOfTests]:
    """Run the tests that ``-k text`` selects in the background; the check is filled at the end of the block.

    ``orders`` are the orders of threads in which the emulator runs each kernel.
    """
    found, project = KernelsOfTests(), config.current()
    triton = bool(files_with(TRITON, project))
    if triton and importlib.util.find_spec("triton_viz") is None:
        triton = False
        found.notes.append(f"Triton kernels of benchmark tests are not checked: {install_command('triton')}")
    if not triton and not files_with(STRINGS, project):
        yield found
        return
    with scratch_folder("tests") as scratch:
        out = scratch / "found.json"
        command = own_module("peakgate.inspect.watched.process", str(scratch), text, *map(str, orders))
        without_gpu = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        with Asked(command, TESTS_LIMIT_S, env=os.environ | without_gpu) as asked:
            yield found
            done = asked.finish()
        if out.exists():
            filled(found, records.read(out, dict[str, WatchedTest], "run it again"))
        if done.problem or not out.exists():
            problem = done.problem or "no answer"
            found.reports.append(BuildReport("benchmark tests", 0, broken=f"not all of them were run: {problem}"))


def filled(found: KernelsOfTests, tests: Mapping[str, WatchedTest]) -> None:
    """Add each kernel of the tests, and what was not checked, to ``found``."""
    from peakgate.callables.settings import case_of  # noqa: PLC0415  (pytest is slow to import)

    project, skipped = config.current(), list[str]()
    for nodeid, test in tests.items():
        case, test_file = case_of(nodeid), project.root / nodeid.partition("::")[0]
        by_kernel: dict[str, list[LaunchFinding]] = {name: [] for name in test.launches}
        for each in test.findings:
            by_kernel.setdefault(each.kernel, []).append(each.finding)
            where, path = each.finding.where, Path(each.path)
            # The kernel of a string is compiled from a copy, which has the lines of the test's file.
            source = path if path.is_relative_to(project.root) else test_file
            line = int((where or "").rpartition(":")[2] or 1)
            found.lines[f"{case.family}.{each.kernel}", where] = SourceLine(source, line, each.text)
        for name, findings in by_kernel.items():
            kernel = f"{case.family}.{name}"
            found.lines[kernel, None] = SourceLine(test_file)
            launches, unchecked = test.launches.get(name, 0), not (test.compared or findings)
            found.reports.append(BuildReport(kernel, 1, launches, tuple(findings), unchecked=unchecked))
        if test.outcome.startswith("skipped"):
            skipped.append(f"{case.id} ({test.outcome})")
        elif test.outcome and not test.findings:
            found.lines[case.id, None] = SourceLine(test_file)
            found.reports.append(BuildReport(case.id, 1, broken=test.outcome))
        found.notes += [f"not covered, {case.id}: {limit}" for limit in test.limits]
    if len(found.notes) > MOST_NOTES:
        found.notes[MOST_NOTES:] = [
            f"not covered: {counted(len(found.notes) - MOST_NOTES, 'more limit')} in check.json"
        ]
    if skipped:
        found.notes.append(f"{counted(len(skipped), 'benchmark test')} not checked, first {skipped[0]}")
