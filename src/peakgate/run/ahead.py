"""Emulates cases on every processor: the reporting process forks others, each of which measures a share of the cases.

This changes the speed only. A case that a share's process does not deliver, because a kernel crashed it or does not
end, is measured by the reporting process itself, under the supervisor.
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

from peakgate.base.processes import end_with_parent
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.session.outcome import Outcome
from peakgate.session.session import Session, unwatched
from peakgate.spec.case import Case

PATIENCE_S = HOST_LIMIT_S / 2
"""Time that a share's process may take for one case before its share is taken back."""

HandedOver = tuple[str, Outcome, str]
"""A case's id, its outcome, and what was printed meanwhile."""


class CaseShares:
    """The cases in ``count`` shares, 2 or more; the first share is this process's own.

    Create it while this process has a single thread, since it forks. Work begins with ``begin``, once kernels are
    built.
    """

    def __init__(self, session: Session, cases: Sequence[Case], count: int) -> None:
        self._session = session
        # Cases of one build stay together, in a fixed order: the same process measures them with the same seeds.
        shares: list[deque[Case]] = [deque() for _ in range(count)]
        share_of: dict[object, deque[Case]] = {}
        for case in cases:
            share_of.setdefault(case.build, shares[len(share_of) % len(shares)]).append(case)
        self._own, *others = shares
        self._done: dict[str, Outcome | HandedOver] = {}
        self._from: dict[str, Connection] = {}
        context = get_context("fork")
        for share in others:
            ours, theirs = context.Pipe()
            context.Process(target=_measure, args=(os.getpid(), session, share, theirs), daemon=True).start()
            theirs.close()  # so that our end closes when theirs is gone
            self._from |= dict.fromkeys((case.id for case in share), ours)

    def begin(self) -> None:
        """Let the other processes begin."""
        for results in set(self._from.values()):
            with suppress(BrokenPipeError):
                results.send(None)

    def outcome(self, case: Case) -> Outcome:
        """The outcome of a case. While another process measures it, this one continues with its own share."""
        results = self._from.get(case.id)
        while results is not None and case.id not in self._done and not results.closed:
            if self._own and not results.poll():
                own = self._own.popleft()
                self._done[own.id] = self._session.measured(own)
                continue
            self._session.steps.expect("its measurement in another process", HOST_LIMIT_S, case.id)
            try:
                answer: HandedOver | None = results.recv() if results.poll(PATIENCE_S) else None
            except (EOFError, ConnectionResetError):
                answer = None
            if answer is None:  # expect nothing further of that process
                results.close()
            else:
                self._done[answer[0]] = answer
        done = self._done.pop(case.id, None)
        if isinstance(done, tuple):
            _, outcome, printed = done
            sys.stdout.write(printed)
            return replace(outcome, case=case)
        if case in self._own:
            self._own.remove(case)
        return done or self._session.measured(case)


def _measure(parent: int, session: Session, share: Sequence[Case], results: Connection) -> None:
    if not end_with_parent(parent):
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too and ends, and this process with it
    session.steps.expect = unwatched
    results.recv()
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        for case in share:
            outcome = session.measured(case)
            sys.stdout.flush()
            printed.seek(0)
            text = printed.read().decode(errors="replace")
            printed.seek(0)
            printed.truncate()
            # Without the case, whose functions cannot be pickled; the other end has it.
            results.send((case.id, replace(outcome, case=None), text))  # type: ignore[arg-type]
