"""Runs compilers with limits of time and memory, since compiling a source may not end.

A legitimate kernel takes seconds and some hundred MB.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PROCESSOR_LIMIT_S = 120.0
"""Default limit of one compilation's processor time."""

WALL_PER_PROCESSOR_S = 20.0
"""Wall time per processor time, far more than on a busy machine: only a process that waits exceeds it."""

WALL_BASE_S = 100.0
"""Constant part of the wall time limit, which ends a compiler that waits, for example on an included pipe."""

MEMORY_BYTES = 8 << 30

FILE_BYTES = 1 << 30

_EXHAUSTED = re.compile(
    r"memory exhausted|out of memory|Cannot allocate memory|bad_alloc|(?:time|size) limit|[Kk]illed|terminated program"
)

_SHELL = 'ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; ulimit -c 0; shift 3; exec "$@"'
"""If a limit is lower already, ulimit fails, the lower limit stays, and the compiler starts."""


def wall_limit_s(processor_s: float) -> float:
    """Limit of a compilation's wall time."""
    return WALL_BASE_S + WALL_PER_PROCESSOR_S * processor_s


def run(
    command: Sequence[str], environment: Mapping[str, str], limit_s: float, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler in a folder with ``limit_s`` of processor time.

    At the limit of wall time it is killed with all its descendants, and the exit code is 124.
    """
    limits = (str(math.ceil(limit_s)), str(MEMORY_BYTES >> 10), str(FILE_BYTES >> 9))
    process = subprocess.Popen(
        ["/bin/sh", "-c", _SHELL, "sh", *limits, *command],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    with process:
        try:
            output, errors = process.communicate(timeout=wall_limit_s(limit_s))
        except BaseException as ended:
            end_tree(process.pid)
            if not isinstance(ended, subprocess.TimeoutExpired):
                raise
            return subprocess.CompletedProcess(command, 124, "", "wall time limit exceeded")
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def exceeded(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a compiler ended because of a limit."""
    last = "\n".join(done.stderr.splitlines()[-5:])
    return done.returncode < 0 or (done.returncode != 0 and _EXHAUSTED.search(last) is not None)


def why(limit_s: float) -> str:
    """The message for a compilation that exceeded a limit."""
    return (
        f"the compiler was ended: more than {limit_s:g} s of processor time, {wall_limit_s(limit_s):g} s or "
        f"{MEMORY_BYTES >> 30} GiB; look for templates or constant expressions that grow without end, and at what it "
        "includes, or allow more: compile_timeout_s of [tool.peakgate]"
    )


def end_tree(process: int) -> None:
    """Kill a process and all its descendants, which are read from /proc while it is stopped."""
    for each in (process, *_descendants(process)):
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _descendants(process: int) -> list[int]:
    os.kill(process, signal.SIGSTOP)
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found = list(parents.get(process, ()))
    for each in found:
        found += parents.get(each, ())
    return found
