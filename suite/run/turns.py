"""Two builds of a kernel sampled in turns in one process of an A/B, where nothing but machine code differs."""

from __future__ import annotations

import math
import time
import zlib

import numpy as np
from peakgate.core.case import Case
from peakgate.core.errors import PeakgateError
from peakgate.core.verdict import Judgement, Verdict
from peakgate.device.interface import DeviceLost, KernelFault, KernelLaunchable
from peakgate.measure.refill import SEEDS
from peakgate.measure.sampling import (
    FIRST_LAUNCH,
    RoundsPlan,
    Samples,
    base_first,
    joined,
    share_of_round,
    trimmed_mean,
)
from peakgate.run.session import Outcome, Session, TimedChecks, WrongResult, compared_when_timed

SPOILT_ROUNDS = 8
"""Rounds of two builds without an undisturbed sample of either, after which the rest is left to the verdict."""

OTHER_FAILED = "not timed: the other build failed in the same process"


def in_turns(session: Session, case: Case, fingerprint: str, plan: RoundsPlan) -> tuple[Outcome, Outcome]:
    """Sample a case and another build of its kernel in turns: the outcome of either.

    Both find the same places in memory and the same contents in a round, and each is first in half of the rounds. One
    launch of either is compared. Where one fails neither has figures.
    """
    sides: list[KernelLaunchable] = []
    parts: tuple[list[Samples], list[Samples]] = ([], [])
    at = 0
    try:
        sides.append(session.prepare(case))
        at = 1
        with session.timed("prepare"):
            sides.append(session.device.prepare_other(sides[0], fingerprint))
        drawn = np.random.default_rng([session.seed, zlib.crc32(case.id.encode())])
        compared = [int(drawn.integers(plan.least_rounds)) for _ in sides]
        unseen = TimedChecks(session, case, None, None, drawn)
        at, first = 0, session.sampled(sides[0], unseen, FIRST_LAUNCH, 0.0)
        share = share_of_round(first.median_us if first.times_us else 1.0)
        begun, ratios, spoilt = time.perf_counter(), list[float](), 0
        while spoilt <= SPOILT_ROUNDS and not plan.done(ratios, time.perf_counter() - begun):
            contents = int(drawn.integers(SEEDS))
            for at in (0, 1) if base_first(len(ratios)) else (1, 0):
                compare = session.compare_timed if len(ratios) == compared[at] and compared_when_timed(case) else None
                checks = TimedChecks(session, case, None, compare, np.random.default_rng(contents))
                parts[at].append(session.sampled(sides[at], checks, share, 0.0))
            base_us, head_us = (part[-1].times_us for part in parts)
            if base_us and head_us:
                ratios.append(math.log(trimmed_mean(head_us) / trimmed_mean(base_us)))
            else:
                spoilt += 1
    except (WrongResult, KernelFault, DeviceLost, MemoryError, PeakgateError) as error:
        failed = session.failed(case, error)
        beside = session.unmeasured(case, Judgement(Verdict.INCONCLUSIVE, OTHER_FAILED))
        return (failed, beside) if at == 0 else (beside, failed)
    own, other = (
        session.gate(side, None, joined(part, first.control_us)) for side, part in zip(sides, parts, strict=True)
    )
    return own, other
