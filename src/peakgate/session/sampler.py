"""Times cases and has some of the timed launches compared with the reference for their buffer contents."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from peakgate.device.interface import Launchable, SampleChecker, TimedLaunch
from peakgate.judge.correctness import Deviation
from peakgate.measure.limits import HOST_LIMIT_S, sampling_limit_s
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.session.outcome import Proof, WrongResult
from peakgate.spec.case import Case

if TYPE_CHECKING:  # it imports this module
    from peakgate.session.session import Steps

LEAST_COMPARED, LEAST_LONG_COMPARED, LONG_LAUNCH_US = 8, 2, 10_000.0
"""The number of timed launches that are compared, and that for launches longer than LONG_LAUNCH_US. A kernel that is
wrong in half of its launches passes eight comparisons in one of 256 runs, one that is wrong in a third in one of 26."""

LIKELY_BATCHES, BATCHES_US = 4, 8_000.0
"""The least number of batches of a short kernel, and the total time of the batches of a longer one: so many have the
launches that are compared if there are no more."""

Compare = Callable[[TimedLaunch], Deviation]
"""Compares a timed launch with its reference."""


class TimedChecks(SampleChecker):
    """The checks of one case's timed launches: ``proof`` so far, ``spent_s`` comparing, ``launch_s`` of a launch.

    With ``once`` one launch is compared, since another run proves the kernel. Without ``compare`` none is.
    """

    def __init__(
        self,
        steps: Steps,
        case: Case,
        proof: Proof | None,
        compare: Compare | None,
        rng: np.random.Generator,
        *,
        once: bool,
        second_clock: bool = True,
    ) -> None:
        super().__init__(lambda end: int(rng.integers(end)), second_clock=second_clock)
        self._steps, self._case, self._compare, self._once = steps, case, compare, once
        self.proof, self.spent_s, self.limit_s, self.launch_s = proof, 0.0, 0.0, 0.0

    def least(self, launch_us: float) -> int:
        return max(0, self._in_all(launch_us) - (self.proof.timed if self.proof else 0))

    def candidates(self, count: int, launch_us: float | None) -> int:
        if launch_us is None:
            launch_us = 1e6 * self.launch_s
        batches = min(max(1.0, BATCHES_US / (count * max(launch_us, 1.0))), LIKELY_BATCHES)
        return min(count, math.ceil(self._in_all(launch_us) / batches))

    def _in_all(self, launch_us: float) -> int:
        if self._compare is None:
            return 0
        return 1 if self._once else LEAST_COMPARED if launch_us <= LONG_LAUNCH_US else LEAST_LONG_COMPARED

    def check(self, launch: TimedLaunch) -> None:
        assert self._compare is not None
        start = time.perf_counter()
        self._steps.expect("its reference and the comparison", HOST_LIMIT_S, self._case.id)
        found = self._compare(launch)
        if found.mismatch is not None:
            before = "; it is right on its edge-size problems" if self.proof and self.proof.probes else ""
            raise WrongResult(f"{launch.where}: {found.mismatch}{before}")
        known = self.proof or Proof(0.0, 0, 0.0)
        error, ratio = max(known.error, found.error), max(known.ratio or 0.0, found.ratio)
        self.proof = replace(known, error=error, ratio=ratio, timed=known.timed + 1)
        self.spent_s += time.perf_counter() - start
        self._steps.expect("sampling", self.limit_s, self._case.id)


class Sampler:
    """Times the cases of a run by a plan.

    Buffer contents and offsets are seeded by ``seed`` and by ``attempts``: how often earlier processes of the run
    measured each case. With ``once`` one timed launch of each case is compared.
    """

    def __init__(
        self, steps: Steps, plan: SamplingPlan, seed: int, attempts: Mapping[str, int], *, once: bool = False
    ) -> None:
        self._steps, self._plan, self._seed, self._attempts, self._once = steps, plan, seed, attempts, once

    def sample(
        self, launchable: Launchable, proof: Proof | None, launch_s: float, compare: Compare | None
    ) -> tuple[Samples, Proof | None]:
        """Time a case and compare some of the timed launches; its samples, and its proof with these included.

        ``launch_s`` is the duration of an earlier launch. Raises WrongResult or KernelFault if a timed launch is wrong.
        """
        case = launchable.case
        rng = np.random.default_rng([self._seed, zlib.crc32(case.id.encode()), self._attempts.get(case.id, 0)])
        checks = TimedChecks(self._steps, case, proof, compare, rng, once=self._once)
        return self.sample_by(self._plan, launchable, checks, launch_s), checks.proof

    def sample_by(self, plan: SamplingPlan, launchable: Launchable, checks: TimedChecks, launch_s: float) -> Samples:
        """Time a case by another plan and with given checks."""
        with self._steps.timed("sample"):
            limit_s = self._steps.launch_limit_s(launchable.case)
            checks.limit_s = sampling_limit_s(limit_s, launch_s, plan, launchable.case.state)
            checks.launch_s = launch_s
            self._steps.expect("sampling", checks.limit_s, launchable.case.id)
            samples = launchable.sample(plan, checks)
        self._steps.add("sample", -checks.spent_s)
        self._steps.add("check", checks.spent_s)
        return samples
