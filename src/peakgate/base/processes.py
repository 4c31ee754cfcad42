"""Starts and ends child processes with their descendants, and ends a process together with its parent.

``python -P -m peakgate.base.processes PARENT MODULE ARGUMENT...`` runs a module of Peakgate that does not outlive its
parent: the operating system kills it when the thread of PARENT that started it ends, even by kill -9.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode

FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP})
"""Signals sent from outside, such as the OOM killer's; a crash sends others."""


def end_group(process: subprocess.Popen[bytes], grace_s: float = 0.0) -> int:
    """Kill a process unless it ends within ``grace_s``, and its descendants; its exit code, negative for a signal.

    The process must have been started with ``start_new_session=True``.
    """
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    with suppress(ProcessLookupError):  # the group is empty
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def run_in_group(command: Sequence[str], limit_s: float, **options: Any) -> int | None:
    """Run a command and its descendants as a group; its exit code, None if it was killed after ``limit_s``.

    ``options`` are those of subprocess.Popen.
    """
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end_group(process)


def print_output(process: subprocess.Popen[bytes], limit_s: float, *, shown: Callable[[str], str | None] = str) -> int:
    """Print the output of a process as plain text, line by line, and return its exit code.

    ``shown`` converts a line; None drops it. The process, started with ``start_new_session=True``, and its descendants
    are killed after ``limit_s`` or MOST_OUTPUT_BYTES.
    """
    assert process.stdout is not None
    limit = threading.Timer(limit_s, end_group, (process,))
    limit.start()
    left_bytes = MOST_OUTPUT_BYTES
    try:
        while line := process.stdout.readline(1 << 16):
            left_bytes -= len(line)
            if left_bytes < 0:
                say(f"ended: it printed more than {MOST_OUTPUT_BYTES >> 20} MiB")
                end_group(process)
                break
            if (text := shown(line.decode(errors="replace").rstrip())) is not None:
                say(text)
        return process.wait()
    finally:
        limit.cancel()
        end_group(process)
        process.stdout.close()


MOST_OUTPUT_BYTES = 64 << 20
_LOOK_EVERY_S, _GRACE_S = 0.05, 5.0


def own_module(module: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """The command line that runs a module of this package in a process that ends with the thread that starts it.

    It imports nothing from its working directory, which may be the tree of a change. ``python`` is the interpreter of
    an environment with this package.
    """
    return [python, "-P", "-m", "peakgate.base.processes", str(os.getpid()), module, *arguments]


@dataclass(frozen=True, slots=True)
class Answered:
    """How a process ended: its exit code, negative for a signal, and its output.

    ``problem`` is a phrase why it was killed or failed; empty if it exited with 0.
    """

    code: int
    output: bytes
    problem: str


class Asked:
    """A process that prints an answer, within limits of time and size."""

    def __init__(self, command: Sequence[str], limit_s: float, **options: Any) -> None:
        """Start it in its own process group; ``options`` are those of subprocess.Popen."""
        self._limit_s, self._until = limit_s, time.monotonic() + limit_s
        with ExitStack() as files:
            self._output = files.enter_context(tempfile.TemporaryFile())
            self._errors = files.enter_context(tempfile.TemporaryFile())
            options |= {"stdin": subprocess.DEVNULL, "stdout": self._output, "stderr": self._errors}
            self._process = subprocess.Popen(command, start_new_session=True, **options)
            self._files = files.pop_all()

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._files.close()

    def _end(self) -> int:
        """Terminate it if it is still running, with time to remove its temporary files; its exit code."""
        self._process.terminate()
        return end_group(self._process, _GRACE_S)

    def finish(self) -> Answered:
        """Wait for its end, and terminate it if it exceeds a limit."""
        problem = ""
        while not problem:
            try:
                code = self._process.wait(_LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > self._until:
                    problem = f"did not end within {self._limit_s:.0f} s"
                elif max(os.fstat(each.fileno()).st_size for each in (self._output, self._errors)) > MOST_OUTPUT_BYTES:
                    problem = f"it printed more than {MOST_OUTPUT_BYTES >> 20} MiB"
        code = self._end()
        if not problem and code:
            problem = f"{last_words(_end(self._errors))} (exit {code})"
        self._output.seek(0)
        return Answered(code, self._output.read(MOST_OUTPUT_BYTES), problem)


_LAST_BYTES, _LONGEST_WORDS = 10_000, 300


def last_words(text: str) -> str:
    """The last non-blank line of a text, truncated."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_WORDS] if lines else "it printed nothing"


def last_words_in(log: Path) -> str:
    """As ``last_words``, for a file of any size."""
    return last_words(end_of(log))


def end_of(log: Path) -> str:
    """The last 10 kB of a log."""
    with log.open("rb") as file:
        return _end(file)


def _end(file: IO[bytes]) -> str:
    file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
    return file.read(_LAST_BYTES).decode(errors="replace")


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """Set environment variables within the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ |= values
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            os.environ |= {} if value is None else {name: value}


def one_blas_thread(*, of_numpy: bool = False) -> dict[str, str]:
    """Environment variables that limit BLAS to one thread; values that are already set are kept.

    With several processes, threads per core in each would busy-wait. ``of_numpy``: only the library that NumPy brings.
    """
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    return {name: os.environ.get(name) or "1" for name in names[: 1 if of_numpy else None]}


def single_threaded() -> bool:
    """Whether this process has a single thread, also counting those of libraries such as NumPy's BLAS."""
    return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208  (the names alone)


def collect_rarely() -> None:
    """Run the garbage collector rarely, and not at exit: it would take a fifth of a short command."""
    gc.set_threshold(20_000)
    atexit.register(gc.freeze)


def collect_as_usual() -> None:
    """Restore Python's default thresholds of the garbage collector, since cycles may contain arrays."""
    gc.set_threshold(*_USUAL_THRESHOLDS)


_USUAL_THRESHOLDS = gc.get_threshold()


def processor_s(process: int) -> float:
    """Processor time of a process, without its children (fields 14 and 15 of /proc/PID/stat); 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_since_start_of(process: int) -> float:
    """Wall time since a process was started, imports included (field 22 of /proc/PID/stat, in clock ticks)."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


BYTECODE = "PYTHONPYCACHEPREFIX"
"""The folder of bytecode that Python uses instead of every ``__pycache__``: a tree may contain any bytecode."""


def own_bytecode(folder: Path) -> dict[str, str]:
    """The environment variable that makes a judging process use bytecode in ``folder`` only, unless it is set."""
    return {BYTECODE: os.environ.get(BYTECODE) or str(folder / "bytecode")}


SAFE_PATH = "PYTHONSAFEPATH"
"""If set, Python imports nothing from the working directory: the option ``-P`` for processes that others start."""


def limit_to(kind: int, most: int) -> None:
    """Permanently limit a resource of this process, one of ``resource.RLIMIT_*``; a lower limit is kept."""
    limits = [limit for limit in (most, resource.getrlimit(kind)[1]) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(kind, (min(limits), min(limits)))


PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that this process gets when its parent ends."""


def end_with_parent(parent: int) -> bool:
    """Let the operating system kill this process when its parent, by process id, ends; False if it has ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Make SIGTERM, which a CI runner sends to cancel a job, raise KeyboardInterrupt within the block."""

    def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def exit_raises() -> Iterator[None]:
    """Make ``os._exit`` raise SystemExit within the block: a project's Python could end the command with a pass.

    A process that is forked in the block exits as usual. An exit by native code is not covered.
    """
    ours, end = os.getpid(), os._exit

    def exit_or_raise(status: int) -> NoReturn:
        if os.getpid() != ours:
            end(status)
        raise SystemExit(status)

    os._exit = exit_or_raise
    try:
        yield
    finally:
        os._exit = end


if __name__ == "__main__":
    collect_rarely()
    _, parent, module, *arguments = sys.argv
    if not end_with_parent(int(parent)):
        os._exit(ExitCode.INTERRUPTED)
    sys.argv = [module, *arguments]
    try:
        with sigterm_interrupts():
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
