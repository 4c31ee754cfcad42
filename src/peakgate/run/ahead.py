"""The emulator on every processor: processes forked from the one that reports measure shares of its cases beside it.

They are a matter of speed alone. What a share's process does not hand over, because a kernel took it down or does not
end, the process that reports measures itself, under the supervisor's eyes.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection

from peakgate.base.processes import end_with_parent, single_threaded
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.session.outcome import Outcome
from peakgate.session.session import Session
from peakgate.session.steps import unwatched
from peakgate.spec.case import Case

LEAST_SHARE = 16
"""Cases: for fewer no process is started."""
PATIENCE_S = HOST_LIMIT_S / 2
"""How long a share's process may be at one case before it is given up."""

HandedOver = tuple[str, Outcome, str]
"""A case's id, what came of it, and what was printed meanwhile."""


class CaseShares:
    """Cases in a share for each processor, the first of which is this process's own.

    To be made while this process has a single thread; work begins with ``begin``, when kernels are built.
    """

    def __init__(self, session: Session, cases: Sequence[Case]) -> None:
        count = min(os.cpu_count() or 1, len(cases) // LEAST_SHARE) if single_threaded() else 1
        self._session = session
        self._own, *others = _divided(cases, count)
        self._done: dict[str, Outcome | HandedOver] = {}
        self._from: dict[str, Connection] = {}
        for share in others:
            self._from |= dict.fromkeys((case.id for case in share), _started(session, share))

    def begin(self) -> None:
        """Have the other processes begin."""
        for results in set(self._from.values()):
            with suppress(BrokenPipeError):
                results.send(None)

    def outcome(self, case: Case) -> Outcome:
        """What came of a case. While another process is at it, this one goes on with its own share."""
        results = self._from.get(case.id)
        while results is not None and case.id not in self._done and not results.closed:
            if self._own and not results.poll():
                own = self._own.popleft()
                self._done[own.id] = self._session.measured(own)
                continue
            self._session.steps.expect("its measurement in another process", HOST_LIMIT_S, case.id)
            self._receive(results)
        done = self._done.pop(case.id, None)
        if isinstance(done, tuple):
            _, outcome, printed = done
            sys.stdout.write(printed)
            return replace(outcome, case=case)
        if case in self._own:
            self._own.remove(case)
        return done or self._session.measured(case)

    def _receive(self, results: Connection) -> None:
        """Take the next answer of a share's process, which is given up where it has none."""
        try:
            answer: HandedOver | None = results.recv() if results.poll(PATIENCE_S) else None
        except (EOFError, ConnectionResetError):
            answer = None
        if answer is None:
            results.close()
        else:
            self._done[answer[0]] = answer


def _divided(cases: Sequence[Case], count: int) -> list[deque[Case]]:
    """Cases in shares, those of one build in one: who measures what, and so what is drawn for it, is no chance."""
    shares: list[deque[Case]] = [deque() for _ in range(max(count, 1))]
    turns: dict[object, deque[Case]] = {}
    for case in cases:
        turns.setdefault(case.build, shares[len(turns) % len(shares)]).append(case)
    return shares


def _started(session: Session, share: Sequence[Case]) -> Connection:
    context = get_context("fork")
    ours, theirs = context.Pipe()
    context.Process(target=_measure, args=(os.getpid(), session, share, theirs), daemon=True).start()
    theirs.close()  # so that our end closes when theirs is gone
    return ours


def _measure(parent: int, session: Session, share: Sequence[Case], results: Connection) -> None:
    if not end_with_parent(parent):
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too and ends, and we with it
    session.steps.expect = unwatched
    results.recv()
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        for case in share:
            outcome = session.measured(case)
            sys.stdout.flush()
            printed.seek(0)
            said = printed.read().decode(errors="replace")
            printed.seek(0)
            printed.truncate()
            # A family's functions cannot be sent; the case is known at the other end.
            results.send((case.id, replace(outcome, case=None), said))  # type: ignore[arg-type]
