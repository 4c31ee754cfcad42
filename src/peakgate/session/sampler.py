"""Times cases, and has launches that were timed compared with the reference of what each was given."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from peakgate.device.interface import Launchable, SampleChecker, TimedLaunch
from peakgate.judge.correctness import Deviation
from peakgate.measure.limits import HOST_LIMIT_S, sampling_limit_s
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.session.outcome import Proof, WrongResult
from peakgate.session.steps import Steps
from peakgate.spec.case import Case

LEAST_COMPARED, LEAST_LONG_COMPARED, LONG_LAUNCH_US = 8, 2, 10_000.0
"""So many timed launches of a case are compared, and so many of one whose launch takes longer than LONG_LAUNCH_US. A
kernel that is wrong in half of its launches passes eight in one of 256 runs, one that is wrong in a third in one of
26."""

LIKELY_BATCHES, BATCHES_US = 4, 8_000.0
"""Batches that a short kernel has at least, and the time of all those of a longer one: what is to be compared is spread
over them."""

Compare = Callable[[TimedLaunch], Deviation]
"""Compares a launch that was timed."""


class TimedChecks(SampleChecker):
    """The checks of one case's timed launches: ``proof`` so far, ``spent_s`` for comparing, a launch's ``launch_s``.

    With ``once`` one launch is enough: another run proves its kernels. Without ``compare`` none is compared.
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

    def wanted(self, count: int, launch_us: float | None) -> int:
        if self._compare is None:
            return 0
        if launch_us is None:
            launch_us = 1e6 * self.launch_s
        batches = min(max(1.0, BATCHES_US / (count * max(launch_us, 1.0))), LIKELY_BATCHES)
        return min(count, math.ceil(self.owed(launch_us) / batches))

    def owed(self, launch_us: float) -> int:
        if self._compare is None:
            return 0
        least = 1 if self._once else LEAST_COMPARED if launch_us <= LONG_LAUNCH_US else LEAST_LONG_COMPARED
        return max(0, least - (self.proof.timed if self.proof else 0))

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

    Contents of buffers, and places in memory, follow from ``seed`` and from how often earlier processes of the run
    measured a case: ``attempts``. With ``once`` one timed launch of each case is compared.
    """

    def __init__(
        self, steps: Steps, plan: SamplingPlan, seed: int, attempts: Mapping[str, int], *, once: bool = False
    ) -> None:
        self._steps, self._plan, self._seed, self._attempts, self._once = steps, plan, seed, attempts, once

    def sample(
        self, launchable: Launchable, proof: Proof | None, launch_s: float, compare: Compare | None
    ) -> tuple[Samples, Proof | None]:
        """Time a case, some of whose timed launches are compared; its samples, and its proof over all launches.

        ``launch_s`` is how long a launch took. WrongResult or KernelFault where a timed launch is wrong.
        """
        case = launchable.case
        rng = np.random.default_rng([self._seed, zlib.crc32(case.id.encode()), self._attempts.get(case.id, 0)])
        checks = TimedChecks(self._steps, case, proof, compare, rng, once=self._once)
        return self.sample_by(self._plan, launchable, checks, launch_s), checks.proof

    def sample_by(self, plan: SamplingPlan, launchable: Launchable, checks: TimedChecks, launch_s: float) -> Samples:
        """Time a case by another plan; the checks are given the launches that they want."""
        with self._steps.timed("sample"):
            limit_s = self._steps.launch_limit_s(launchable.case)
            checks.limit_s = sampling_limit_s(limit_s, launch_s, plan, launchable.case.state)
            checks.launch_s = launch_s
            self._steps.expect("sampling", checks.limit_s, launchable.case.id)
            samples = launchable.sample(plan, checks)
        self._steps.add("sample", -checks.spent_s)
        self._steps.add("check", checks.spent_s)
        return samples
