"""Proves builds right on their edge-size problems in several processes on one GPU, before anything is timed there.

One process spends most of that time in Python, between launches of microseconds, and a GPU runs the launches of several
side by side. This changes the duration only: a build that no process finds right is proven by the measuring process,
which reports what is wrong.
"""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

from peakgate.base import config
from peakgate.base.errors import PeakgateError
from peakgate.base.processes import end_with_parent

if TYPE_CHECKING:  # slow to import before the processes start
    from peakgate.run.collection import Cases
    from peakgate.session.session import Session
    from peakgate.spec.case import Case

    Opened = Callable[[], tuple[Session, Cases]]
    """Opens a session on the GPU of the measuring process, with the cases of its project; it can be pickled."""

LEAST_FILES = 20
"""The fewest kernel files whose builds are worth two seconds of several processors, in which the processes start."""

MOST_PROVERS = 6

BUILD_PATIENCE_S = 10.0
"""Time for one build; when no process has answered in it, none is waited for any longer."""

_begun: list[Provers] = []


def begin(kernels: Path) -> None:
    """Start processes early, if the folder of the project's kernels has many files and there are enough processors."""
    count = min(MOST_PROVERS, (os.cpu_count() or 1) // 2 - 1)
    if count > 1 and len(list(kernels.rglob("*.cu"))) >= LEAST_FILES:
        _begun.append(Provers(count))


def begun() -> Provers | None:
    """The processes that ``begin`` started, for whom to ``open`` or to ``end``; None if it started none."""
    return _begun.pop() if _begun else None


class Provers:
    """``count`` processes that prove builds, each with a session of its own."""

    def __init__(self, count: int) -> None:
        context = get_context("spawn")
        self._processes: dict[Connection, BaseProcess] = {}
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_prove, args=(os.getpid(), theirs), daemon=True)
            process.start()
            theirs.close()  # so that our end closes when theirs is gone
            self._processes[ours] = process

    def open(self, opened: Opened) -> None:
        """Let each open its session: once this process has a CUDA context, which may be the only one allowed."""
        for process in self._processes:
            with suppress(BrokenPipeError):
                process.send(opened)

    def right(self, cases: Sequence[Case], meanwhile: Callable[[Case], None]) -> Iterator[tuple[Case, int]]:
        """The cases, one of each build, whose builds are right, with their number of problems; then ``end``.

        Until the first process answers, ``meanwhile`` is called with others of the cases.
        """
        left = list(cases)
        asked: dict[Connection, Case] = {}

        def ask(process: Connection) -> None:
            if left:
                with suppress(BrokenPipeError):
                    process.send(left[-1].id)
                    asked[process] = left.pop()

        for process in self._processes:
            ask(process)
        while left and asked and not wait(asked, 0):  # they take two seconds to start
            meanwhile(left.pop(0))
        while asked and (answering := wait(asked, BUILD_PATIENCE_S)):
            for answered in answering:
                assert isinstance(answered, Connection)
                case = asked.pop(answered)
                with suppress(EOFError, ConnectionResetError):
                    problems: int | None = answered.recv()
                    ask(answered)
                    if problems is not None:
                        yield case, problems
        self.end()

    def end(self) -> None:
        """End the processes, and with them their contexts."""
        for process in self._processes.values():
            process.kill()
        while self._processes:
            ours, process = self._processes.popitem()
            process.join()
            ours.close()


def _prove(parent: int, asking: Connection) -> None:
    if not end_with_parent(parent):
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too and ends, and this process with it
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  (a device)
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    with suppress(ImportError, PeakgateError):  # what a session needs, without a context; the run reports errors
        importlib.import_module("peakgate.run.loop")
        importlib.import_module("peakgate.device.gpu")
        if config.BASE_VARIABLE not in os.environ:  # with a base only its families are imported
            importlib.import_module("peakgate.spec.catalogue").families()
    from peakgate.spec.case import Case, Tier  # noqa: PLC0415  (as above)

    session, known = asking.recv()()
    cases = {case.id: case for case in known.listed(Tier.FULL) if isinstance(case, Case)}
    while session.device.lost is None:
        asked = asking.recv()
        problems = None
        with suppress(Exception):  # the measuring process meets it too, and reports it
            problems = session.prover.prove_build(cases[asked])
        asking.send(problems)
