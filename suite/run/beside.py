"""Cases that are measured beside others: in the emulator on every processor, in an A/B in turns with another build.

In the emulator processes forked from the one that reports measure shares of its cases beside it. They are a matter of
speed alone. What a share's process does not hand over, because a kernel took it down or does not end, the process that
reports measures itself, under the supervisor's eyes.

In turns two builds of a kernel are sampled in one process, where nothing but machine code differs.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np
from peakgate.core.case import Case
from peakgate.core.errors import PeakgateError
from peakgate.core.processes import end_with_parent, single_threaded
from peakgate.core.verdict import Judgement, Verdict
from peakgate.device.interface import DeviceLost, KernelFault, KernelLaunchable
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.measure.refill import SEEDS
from peakgate.measure.sampling import FIRST_ROUND, ROUND, RoundsPlan, Samples, joined, trimmed_mean
from peakgate.run.session import Outcome, Session, TimedChecks, WrongResult, compared_when_timed

LEAST_SHARE = 16
"""Cases: for fewer no process is started."""
PATIENCE_S = HOST_LIMIT_S / 2
"""How long a share's process may be at one case before it is given up."""

HandedOver = tuple[str, Outcome, str]
"""A case's id, what came of it, and what was printed meanwhile."""


SPOILT_ROUNDS = 8
"""Rounds of two builds without an undisturbed sample of either, after which the rest is left to the verdict."""

OTHER_FAILED = "not timed: the other build failed in the same process"


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
            self._session.expect("its measurement in another process", HOST_LIMIT_S, case.id)
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
    session.expect = lambda _step, _limit_s, _case: None
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


def in_turns(session: Session, case: Case, fingerprint: str, least_s: float) -> tuple[Outcome, Outcome]:
    """Sample a case and another build of its kernel in turns: the outcome of either.

    Both find the same places in memory and the same contents in a round, and which of them is first alternates. One
    launch of either is compared. Where one fails neither has figures. At least ``least_s`` seconds are spent.
    """
    sides: list[KernelLaunchable] = []
    parts: tuple[list[Samples], list[Samples]] = ([], [])
    plan, at = RoundsPlan(least_s=least_s), 0
    try:
        sides.append(session.prepare(case))
        at = 1
        with session.timed("prepare"):
            sides.append(session.device.prepare_other(sides[0], fingerprint))
        drawn = np.random.default_rng([session.seed, zlib.crc32(case.id.encode())])
        compared = [int(drawn.integers(plan.least_rounds)) for _ in sides]
        begun, ratios, spoilt = time.perf_counter(), list[float](), 0
        while spoilt <= SPOILT_ROUNDS and not plan.done(ratios, time.perf_counter() - begun):
            contents = int(drawn.integers(SEEDS))
            for at in (0, 1) if len(ratios) % 2 == 0 else (1, 0):
                compare = session.compare_timed if len(ratios) == compared[at] and compared_when_timed(case) else None
                checks = TimedChecks(session, case, None, compare, np.random.default_rng(contents))
                parts[at].append(session.sampled(sides[at], checks, ROUND if ratios else FIRST_ROUND, 0.0))
            own, other = (part[-1].times_us for part in parts)
            if own and other:
                ratios.append(math.log(trimmed_mean(other) / trimmed_mean(own)))
            else:
                spoilt += 1
    except (WrongResult, KernelFault, DeviceLost, MemoryError, PeakgateError) as error:
        failed = session.failed(case, error)
        beside = session.unmeasured(case, Judgement(Verdict.INCONCLUSIVE, OTHER_FAILED))
        return (failed, beside) if at == 0 else (beside, failed)
    control_us = parts[0][0].control_us
    first, second = (
        session.gate(side, None, joined(part, control_us)) for side, part in zip(sides, parts, strict=True)
    )
    return first, second
