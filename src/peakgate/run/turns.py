"""Two builds of a kernel sampled in turns in one process of an A/B, where nothing but machine code differs."""

from __future__ import annotations

import math
import statistics
import zlib

import numpy as np

from peakgate.base.errors import PeakgateError
from peakgate.base.verdict import Judgement, Verdict
from peakgate.device.interface import DeviceLost, KernelFault, KernelLaunchable
from peakgate.measure.refill import SEEDS
from peakgate.measure.sampling import FIRST_LAUNCH, Samples, SamplingPlan, base_first, joined, pair_plan, trimmed_mean
from peakgate.run.ab_process import OtherBuilds
from peakgate.run.session import Outcome, Session, TimedChecks, WrongResult, compared_when_timed
from peakgate.spec.case import Case

SPOILT_ROUNDS = 8
"""Rounds of two builds without an undisturbed sample of one, after which the rest is left to the verdict."""

OTHER_FAILED = "not timed: the other build failed in the same process"


def in_turns(
    session: Session, case: Case, asked: OtherBuilds, before: tuple[Outcome, Outcome] | None = None
) -> tuple[Outcome, Outcome]:
    """Sample a case and another build of its kernel in turns, as an A/B asks for it: the outcome of either.

    Both run from the same places in memory, arrays and code, find the same contents in a round, and are first equally
    often. One launch of either is compared. The other's samples have the ratio of each pair. Where one fails
    neither has figures. What comes ``before`` are the outcomes of earlier pairs in this process: these have them too,
    unless a side failed.
    """
    known = [outcome.samples for outcome in before or () if outcome.samples]
    if before and len(known) < len(before):
        return before
    earlier = known[1].pair_ratios if known else ()
    sides: list[KernelLaunchable] = []
    parts: tuple[list[Samples], list[Samples]] = ([], [])
    at = loaded = 0

    def sampled(checks: TimedChecks, plan: SamplingPlan) -> Samples:
        nonlocal loaded
        session.device.exchange(sides[loaded], sides[at])
        loaded = at
        return session.sampled(sides[at], checks, plan, 0.0)

    try:
        sides.append(session.prepare(case))
        at = loaded = 1
        with session.timed("prepare"):
            sides.append(session.device.prepare_other(sides[0], asked.fingerprints[case.id]))
        drawn = np.random.default_rng([session.seed, zlib.crc32(case.id.encode()), len(earlier)])
        at = 0
        first = known[0] if known else sampled(TimedChecks(session, case, None, None, drawn), FIRST_LAUNCH)
        plan = pair_plan(first.median_us if first.times_us else 1.0, len(asked.fingerprints))
        compared = [int(drawn.integers(asked.pairs * plan.least_rounds)) for _ in sides]
        found, spoilt = [list[float]() for _ in range(asked.pairs)], 0
        for ratios in found:
            while spoilt <= SPOILT_ROUNDS and not plan.done(ratios):
                contents, taken = int(drawn.integers(SEEDS)), len(parts[0])
                for at in (0, 1) if base_first(taken) else (1, 0):
                    compare = session.compare_timed if taken == compared[at] and compared_when_timed(case) else None
                    checks = TimedChecks(session, case, None, compare, np.random.default_rng(contents))
                    parts[at].append(sampled(checks, plan.share))
                base_us, head_us = (part[-1].times_us for part in parts)
                if base_us and head_us:
                    ratios.append(math.log(trimmed_mean(head_us) / trimmed_mean(base_us)))
                else:
                    spoilt += 1
    except (WrongResult, KernelFault, DeviceLost, MemoryError, PeakgateError) as error:
        failed = session.failed(case, error)
        beside = session.unmeasured(case, Judgement(Verdict.INCONCLUSIVE, OTHER_FAILED))
        return (failed, beside) if at == 0 else (beside, failed)
    pair_ratios = [*earlier, *(math.exp(statistics.fmean(ratios)) for ratios in found if plan.done(ratios))]
    own, other = ([*known[at : at + 1], *part] for at, part in enumerate(parts))
    return session.gate(sides[0], None, joined(own)), session.gate(sides[1], None, joined(other, pair_ratios))
