"""Compilers under limits of time and memory: compiling a source may not end.

They run in processes of their own; a legitimate kernel takes seconds and some hundred MB.
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
"""Processor time of one compilation, where the caller knows no better."""

WALL_PER_PROCESSOR_S = 20.0
"""Far more than a busy machine takes from a process: only one that waits comes to so many times its processor time."""

WALL_BASE_S = 100.0
"""Of the limit of a compilation's wall time: a compiler may wait, for example on an included pipe."""

MEMORY_BYTES = 8 << 30

FILE_BYTES = 1 << 30

_EXHAUSTED = re.compile(
    r"memory exhausted|out of memory|Cannot allocate memory|bad_alloc|(?:time|size) limit|[Kk]illed|terminated program"
)

_SHELL = 'ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; ulimit -c 0; shift 3; exec "$@"'
"""Limits that are lower already stay: then ulimit fails, and the compiler starts all the same."""


def wall_limit_s(processor_s: float) -> float:
    """The far limit of its wall time."""
    return WALL_BASE_S + WALL_PER_PROCESSOR_S * processor_s


def run(
    command: Sequence[str], environment: Mapping[str, str], limit_s: float, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler in a folder, with ``limit_s`` of processor time; past its wall time it ends with all it started.

    The exit code is 124 then.
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
    """Kill a process and all its descendants; those are read from /proc while it is stopped."""
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
