"""The benchmark test that runs in this process, to which the launches of its kernels report."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path

from peakgate.callables.settings import case_of
from peakgate.inspect.emulate import LaunchFinding
from peakgate.inspect.watched.kernels import KernelFinding, WatchedTest
from peakgate_emulator.defects import RaceStep


class RunningTest:
    """What is known of the test: ``test``, and ``last_store``, the place of the last store of a Triton kernel."""

    def __init__(self) -> None:
        self._case = self.last_store = ""
        self.test = WatchedTest()
        self._files: dict[str, str] = {}

    def begin(self, nodeid: str) -> WatchedTest:
        """Forget the test before; what is known of this one is added to the answer."""
        self._case, self.last_store, self.test = case_of(nodeid).id, "", WatchedTest()
        return self.test

    def place(self, file: str, line: int) -> str:
        """``file.py:12``; the line's text is then known."""
        place = f"{Path(file).name}:{line}"
        self._files[place] = file
        return place

    def launched(self, kernel: str) -> bool:
        """Count a launch; whether it is the kernel's first in this test."""
        self.test.launches[kernel] = self.test.launches.get(kernel, 0) + 1
        return self.test.launches[kernel] == 1

    def found(
        self,
        kernel: str,
        kind: str,
        where: str | None,
        what: str,
        order: Sequence[RaceStep] = (),
        *,
        schedule: int = 0,
    ) -> None:
        """Add a finding, once per kind and line; ``where`` is a ``place``, and the rest as in ``LaunchFinding``."""
        if all((each.finding.kind, each.finding.where) != (kind, where) for each in self.test.findings):
            finding = LaunchFinding(self._case, schedule, kind, where, what, tuple(order))
            line = int((where or "").rpartition(":")[2] or 0)
            path = self._files.get(where or "", "")
            text = linecache.getline(path, line).strip()
            self.test.findings.append(KernelFinding(kernel, finding, text, path))

    def limit(self, reason: str) -> None:
        """Note something that was not checked, once per reason."""
        if reason not in self.test.limits:
            self.test.limits.append(reason)


running = RunningTest()
