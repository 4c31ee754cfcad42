"""Samples two builds of a kernel interleaved in one process of an A/B whose sides differ in machine code only."""

from __future__ import annotations

import math
import statistics
import zlib

import numpy as np

from peakgate.base.verdict import Judgement, Verdict
from peakgate.device.interface import KernelLaunchable
from peakgate.measure.refill import SEEDS
from peakgate.measure.sampling import FIRST_LAUNCH, Samples, SamplingPlan, base_first, joined, pair_plan, trimmed_mean
from peakgate.session.outcome import FAILURES, Outcome
from peakgate.session.prover import TimedChecks, compared_when_timed
from peakgate.session.session import Session
from peakgate.spec.case import Case

SPOILT_ROUNDS = 8
"""Sampling stops after more rounds than this in which one build had no undisturbed sample."""

OTHER_FAILED = "not timed: the other build failed in the same process"


def interleaved(
    session: Session,
    case: Case,
    fingerprint: str,
    *,
    pairs: int,
    cases: int,
    before: tuple[Outcome, Outcome] | None = None,
) -> tuple[Outcome, Outcome]:
    """Sample a case interleaved with another build of its kernel, found by ``fingerprint``; the outcomes of both.

    Both use the same addresses for arrays and code, the same buffer contents in a round, and are first equally often.
    One launch of each is compared. The other build's samples have the time ratio of each of the ``pairs``; ``cases`` is
    the number of cases that the process samples like this. If one side fails, neither has figures. ``before`` are the
    outcomes of earlier pairs in this process: their samples are included in the new outcomes.
    """
    known = [outcome.samples for outcome in before or () if outcome.samples]
    if before and len(known) < len(before):
        return before
    earlier = known[1].pair_ratios if known else ()
    sides: list[KernelLaunchable] = []
    parts: tuple[list[Samples], list[Samples]] = ([], [])
    at = loaded = 0

    def sampled(plan: SamplingPlan, rng: np.random.Generator, *, compared: bool = False) -> Samples:
        nonlocal loaded
        session.device.exchange(sides[loaded], sides[at])
        loaded = at
        compare = session.prover.compare_timed if compared and compared_when_timed(case) else None
        checks = TimedChecks(session.steps, case, None, compare, rng, once=True, second_clock=False)
        return session.sample_by(plan, sides[at], checks, 0.0)

    try:
        sides.append(session.prepare(case))
        at = loaded = 1
        with session.steps.timed("prepare"):
            sides.append(session.device.prepare_other(sides[0], fingerprint))
        drawn = np.random.default_rng([session.seed, zlib.crc32(case.id.encode()), len(earlier)])
        at = 0
        first = known[0] if known else sampled(FIRST_LAUNCH, drawn)
        plan = pair_plan(first.median_us if first.times_us else 1.0, cases)
        compared = [int(drawn.integers(pairs * plan.least_rounds)) for _ in sides]
        found, spoilt = [list[float]() for _ in range(pairs)], 0
        for ratios in found:
            while spoilt <= SPOILT_ROUNDS and not plan.done(ratios):
                contents, taken = int(drawn.integers(SEEDS)), len(parts[0])
                for at in (0, 1) if base_first(taken) else (1, 0):
                    rng = np.random.default_rng(contents)
                    parts[at].append(sampled(plan.share, rng, compared=taken == compared[at]))
                base_us, head_us = (part[-1].times_us for part in parts)
                if base_us and head_us:
                    ratios.append(math.log(trimmed_mean(head_us) / trimmed_mean(base_us)))
                else:
                    spoilt += 1
    except FAILURES as error:
        failed = session.failed(case, error)
        beside = session.unmeasured(case, Judgement(Verdict.INCONCLUSIVE, OTHER_FAILED))
        return (failed, beside) if at == 0 else (beside, failed)
    pair_ratios = [*earlier, *(math.exp(statistics.fmean(ratios)) for ratios in found if plan.done(ratios))]
    own, other = ([*known[at : at + 1], *part] for at, part in enumerate(parts))
    return session.judged(sides[0], None, joined(own)), session.judged(sides[1], None, joined(other, pair_ratios))
