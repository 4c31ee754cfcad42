"""Runs tasks in processes that may die: a kernel that crashes its process is a finding and does not end the command.

A worker that dies is replaced, and its task gets a ``Died`` as result; so does a task that exceeds its limit of
processor time, which, unlike wall time, does not depend on the load of the machine. (The executors of the standard
library abandon all remaining tasks.) Workers are forked while this process has a single thread, which saves their
imports, and spawned later, since threads may hold locks.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, Generic, TypeVar

from peakgate.base.formatting import counted
from peakgate.base.processes import (
    FROM_OUTSIDE,
    SAFE_PATH,
    one_blas_thread,
    processor_s,
    single_threaded,
    variables,
)
from peakgate.base.streams import say, warn
from peakgate_emulator.bounded import WALL_PER_PROCESSOR_S

Answer = TypeVar("Answer")

# Limits of what is copied from a worker's output: lines and bytes in total, bytes per line.
MOST_PRINTED_LINES, MOST_PRINTED_BYTES, _LONGEST_LINE_BYTES = 20, 1 << 20, 1 << 16
_LAST_OUTPUT_S = 1.0  # wait for a dead worker's output; another process may keep the pipe open

_CHECK_LIMITS_EVERY_S = 1.0
_SAY_EVERY_S = 30.0  # processor time between messages on a long task

_AT, _RETURNED, _RAISED = "at", "returned", "raised"  # kinds of a worker's messages

TaskProgress = Callable[[str], None]  # a task calls it with what it does next, in case it dies
Task = Callable[[TaskProgress], Answer]  # picklable, like its result: a functools.partial of a module's function


@dataclass(frozen=True, slots=True)
class Died:
    """A task whose process died: ``at`` is its last progress, ``how`` the signal, exit code or limit.

    ``ended``: killed by us at a limit, or by another program, for example for lack of memory; that says nothing about
    the task.
    """

    at: str
    how: str
    ended: bool = False


@dataclass
class _Worker(Generic[Answer]):
    """A process with the number of its task, the task's last progress, and when that came, by both clocks."""

    process: BaseProcess
    connection: Connection
    copying: Thread
    number: int = -1
    at: str = ""
    heard_s: float = 0.0
    heard_processor_s: float = 0.0
    said_s: float = 0.0

    def give(self, number: int, task: Task[Answer]) -> None:
        self.number = number
        self._heard("")
        self.connection.send(task)

    def _heard(self, at: str) -> None:
        self.at, self.said_s = at, 0.0
        self.heard_s, self.heard_processor_s = time.monotonic(), processor_s(self.process.pid or 0)

    def overdue(self, limit_s: float) -> Died | None:
        """Why the task is killed: no progress for too long; None if it may continue."""
        spent_s = processor_s(self.process.pid or 0) - self.heard_processor_s
        if spent_s > limit_s:
            return Died(self.at, f"no end in {limit_s:g} s of processor time", ended=True)
        if time.monotonic() - self.heard_s > WALL_PER_PROCESSOR_S * limit_s:
            return Died(self.at, f"no end in {WALL_PER_PROCESSOR_S * limit_s:g} s", ended=True)
        if self.at and spent_s - self.said_s > _SAY_EVERY_S:
            self.said_s = spent_s
            warn(f"{self.at}: {spent_s:.0f} s of processor time so far, ended after {limit_s:.0f}")
        return None

    def answer(self) -> Answer | Died | None:
        """The result of the task; None if it has not finished."""
        try:
            message: tuple[str, Any] = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode or 0
            if code >= 0:
                return Died(self.at, f"its process exited with {code}")
            how = f"its process ended by {signal.Signals(-code).name}"
            return Died(self.at, how, ended=-code in FROM_OUTSIDE)
        what, value = message
        if what == _RAISED:
            raise value
        if what == _RETURNED:
            return value  # type: ignore[no-any-return]
        self._heard(value)
        return None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.copying.join(_LAST_OUTPUT_S)
        self.connection.close()


IdleWorkers = list[_Worker[Any]]


@contextmanager
def kept() -> Iterator[IdleWorkers]:
    """Idle workers for several calls of ``run``, each of which would start its own; stopped at the end."""
    idle: IdleWorkers = []
    try:
        yield idle
    finally:
        for worker in idle:
            worker.stop()


def run(
    tasks: Sequence[Task[Answer]], jobs: int, *, limit_s: float = 300, idle: IdleWorkers | None = None
) -> Iterator[tuple[int, Answer | Died]]:
    """Run tasks in up to ``jobs`` processes; yield each task's number and result, in order of completion.

    A task without progress for ``limit_s`` of processor time, or for WALL_PER_PROCESSOR_S times that in wall time, is
    killed and gives Died. Exceptions of tasks are raised here. Forked processes start at the call, tasks at the first
    iteration. Workers that are ``idle`` are taken first, and all that live are there again at the end.
    """
    with_own = nullcontext(idle) if idle is not None else kept()
    lacking = min(jobs, len(tasks)) - len(idle or ())
    forked: IdleWorkers = _started(lacking, get_context("fork")) if single_threaded() else []
    return _answers(tasks, jobs, limit_s, with_own, forked)


def _answers(
    tasks: Sequence[Task[Answer]],
    jobs: int,
    limit_s: float,
    kept: AbstractContextManager[IdleWorkers],
    forked: IdleWorkers,
) -> Iterator[tuple[int, Answer | Died]]:
    waiting = list(enumerate(tasks))[::-1]
    busy: dict[Connection, _Worker[Answer]] = {}
    with kept as idle:
        idle.extend(forked)
        try:
            while waiting or busy:
                while waiting and len(busy) < jobs:
                    worker: _Worker[Answer] = idle.pop() if idle else _started(1, get_context("spawn"))[0]
                    worker.give(*waiting.pop())
                    busy[worker.connection] = worker
                ready = wait(list(busy), min(_CHECK_LIMITS_EVERY_S, limit_s))
                for worker in list(busy.values()):
                    answer = worker.answer() if worker.connection in ready else worker.overdue(limit_s)
                    if answer is None:
                        continue
                    del busy[worker.connection]
                    if isinstance(answer, Died):
                        worker.stop()
                    else:
                        idle.append(worker)
                    yield worker.number, answer
        finally:
            for worker in busy.values():
                worker.stop()


def _started(count: int, context: ForkContext | SpawnContext) -> list[_Worker[Answer]]:
    made, ends = [], list[Connection]()
    for _ in range(count):
        ours, theirs = context.Pipe()
        printed, output = context.Pipe(duplex=False)
        ends += [ours, printed]
        inherited = ends if isinstance(context, ForkContext) else []
        process = context.Process(target=_serve, args=(theirs, output, inherited), daemon=True)
        # Python would import its own modules from the working directory, which may be the tree of a change.
        with variables(**one_blas_thread(), **{SAFE_PATH: os.environ.get(SAFE_PATH) or "1"}):
            process.start()
        theirs.close()  # so that our end closes when theirs is gone
        output.close()
        made.append((process, ours, printed))
    workers = []
    for process, ours, printed in made:
        copying = Thread(target=_copy, args=(printed,), daemon=True)
        copying.start()
        workers.append(_Worker[Answer](process, ours, copying))
    return workers


def _copy(printed: Connection) -> None:
    """Print the output of a worker and its kernels, without control characters and up to a limit."""
    with printed, open(printed.fileno(), "rb", closefd=False) as lines:
        left_lines, left_bytes, more = MOST_PRINTED_LINES, MOST_PRINTED_BYTES, 0
        while line := lines.readline(_LONGEST_LINE_BYTES):
            if left_lines <= 0 or left_bytes <= 0:
                more += line.endswith(b"\n")
                continue
            with suppress(OSError):  # the command that prints the verdict reports it
                say(line.decode(errors="replace"))
            left_lines, left_bytes = left_lines - 1, left_bytes - len(line)
    if more:
        warn(f"kernels printed {counted(more, 'more line')}, left out here")


def _serve(connection: Connection, output: Connection, inherited: Sequence[Connection]) -> None:
    for end in inherited:  # the parent's ends: an open copy would keep the pipe open
        end.close()
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    output.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too and kills this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    room = room if most == resource.RLIM_INFINITY else min(room, most)
    # The task gets a MemoryError before the machine runs out of memory.
    resource.setrlimit(resource.RLIMIT_AS, (room, most))

    def report(at: str) -> None:
        connection.send((_AT, at))

    with suppress(EOFError):  # the parent has ended
        while True:
            task = connection.recv()
            try:
                message: tuple[str, object] = _RETURNED, task(report)
            except Exception as error:  # raised again by the parent
                message = _RAISED, error
            connection.send(message)
