"""Processes that this one starts: ending one with all it started, and being ended oneself."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from peakgate.common.text import one_line


def end_group(process: subprocess.Popen[bytes], grace_s: float = 0.0) -> int:
    """Kill a process and all it started unless it ends within ``grace_s``; its exit code, negative for a signal.

    The process must have been started with ``start_new_session=True``.
    """
    try:
        return process.wait(grace_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def run_in_group(command: Sequence[str], limit_s: float, **options: Any) -> int | None:
    """Run a command with all it starts as a group; its exit code, None where it was ended after ``limit_s``.

    ``options`` are those of subprocess.Popen.
    """
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end_group(process)


def print_output(process: subprocess.Popen[bytes], limit_s: float, *, but: str | None = None) -> int:
    """Print what a process writes, as plain text line by line, but for lines that begin so; its exit code.

    It is ended, with all it started, after ``limit_s``. It must have been started with ``start_new_session=True``.
    """
    assert process.stdout is not None
    limit = threading.Timer(limit_s, end_group, (process,))
    limit.start()
    try:
        while line := process.stdout.readline(1 << 16):
            text = one_line(line.decode(errors="replace").rstrip())
            if but is None or not text.startswith(but):
                sys.stdout.write(f"{text}\n")
        return process.wait()
    finally:
        limit.cancel()
        end_group(process)
        process.stdout.close()


def seconds_since_start_of(process: int) -> float:
    """Wall time since a process was started, imports included (field 22 of /proc/PID/stat, in clock ticks)."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that this process gets when its parent is gone."""


def end_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when its parent, by process id, is gone; False where it is gone already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """SIGTERM, which a CI runner sends to cancel a job, raises KeyboardInterrupt within the block, as Ctrl-C does."""

    def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
