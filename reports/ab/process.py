"""The processes that measure a side, one at a time, the next ones already warming up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from peakgate.build.cubin import cache_folder
from peakgate.common.processes import end_group
from peakgate.project import config
from peakgate.run.lock import inherited

WARM = Path(__file__).with_name("warm.py")
HARNESS = "peakgate"
"""The package that measures both sides: this one, whatever a side holds."""

PRELOAD = (
    *("pytest", "pytest_benchmark.plugin", "cupy", "cuda.bindings.nvrtc"),
    *("peakgate.device.gpu", "peakgate.run.kernel_run"),
)
"""What takes a run longest to import; none of it calls the driver."""

AHEAD = 2
"""Processes a side keeps warm: in turns that alternate, a side runs twice in a row."""

LONGEST_RUN_S = 900.0
"""A run that takes longer hangs."""

LONGEST_WORDS = 300


class SideBroken(Exception):
    """A side that cannot be measured; ``which`` side, and why in one line."""

    def __init__(self, which: str, reason: str) -> None:
        super().__init__(f"{which}: {reason}")
        self.which, self.reason = which, reason


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that ended: its exit code, negative for a signal, and its wall time."""

    exit_code: int
    seconds: float


class SideProcesses:
    """The processes of one side, for the length of a ``with`` block; all are ended with it."""

    def __init__(self, which: str, folder: Path, environment: Mapping[str, str], log: Path) -> None:
        """Warm the first ones up in ``folder``; what they say before their run goes to ``log``."""
        self.which = which
        self._folder, self._environment, self._log = folder, dict(environment), log
        self._log.write_text("", encoding="utf-8")
        self._waiting: deque[subprocess.Popen[bytes]] = deque()
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SideProcesses:
        self._warm_up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self._waiting, *([self._running] if self._running else [])):
            _end(process)

    def run(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Finished:
        """Run ``peakgate bench`` with these arguments in a process of its own; its output goes to ``log``."""
        request = {"harness": HARNESS, "arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        log.write_text("", encoding="utf-8")
        self._running = process = self._waiting.popleft()
        self._warm_up()
        start = time.monotonic()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            said = last_words(self._log.read_text(encoding="utf-8", errors="replace"))
            raise SideBroken(self.which, f"its process ended while it warmed up: {said}") from None
        try:
            code = process.wait(LONGEST_RUN_S)
        except subprocess.TimeoutExpired:
            reason = f"a run did not end within {LONGEST_RUN_S:.0f} s; its output is in {log}"
            raise SideBroken(self.which, reason) from None
        _end(process)
        self._running = None
        return Finished(code, time.monotonic() - start)

    def _warm_up(self) -> None:
        """Have as many processes waiting as are needed next."""
        while len(self._waiting) < AHEAD:
            with self._log.open("a", encoding="utf-8") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-P", str(WARM), *PRELOAD],
                    cwd=self._folder,
                    env=self._environment,
                    stdin=subprocess.PIPE,
                    stdout=errors,
                    stderr=errors,
                    bufsize=0,
                    pass_fds=inherited(),  # a run that outlives us keeps the GPU locked
                    start_new_session=True,  # Ctrl-C is for us; we end what we started
                )
            self._waiting.append(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    end_group(process)
    if process.stdin is not None:
        process.stdin.close()


def side_environment(folder: Path) -> dict[str, str]:
    """Our environment for a side's processes; both sides share our cache of built kernels.

    No other plug-ins of pytest take part. The driver's compile cache is off: NVRTC 13.0 answers from it without the
    compiler's log, and the resources in it would be missing. A side's own modules come first: its ``pythonpath``.
    """
    project = config.find(folder)
    search = [str(path) for path in (project.pythonpath if project else ())]
    if inherited := os.environ.get("PYTHONPATH"):
        search.append(inherited)
    ours = {"PEAKGATE_CACHE": str(cache_folder()), "CUDA_CACHE_DISABLE": "1", "NO_COLOR": "1"}
    return os.environ | ours | ({"PYTHONPATH": os.pathsep.join(search)} if search else {})


def last_words(text: str) -> str:
    """The last line that says something, cut to fit a line."""
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return said[-1][:LONGEST_WORDS] if said else "it said nothing"
