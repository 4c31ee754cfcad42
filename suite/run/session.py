"""One run over many cases on one device: prove, sample, judge; and remember what came of each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from peakgate.build.cubin import Resources
from peakgate.case import Array, Case, Tier
from peakgate.common.errors import PeakgateError
from peakgate.device.interface import Device, DeviceLost, Launchable, Unmeasurable
from peakgate.device.preflight import Preflight, concerns
from peakgate.judge.correctness import Check, check
from peakgate.judge.floors import Floors
from peakgate.judge.gate import judge
from peakgate.judge.metrics import Metrics, metrics
from peakgate.judge.occupancy import Occupancy, occupancy
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.project import catalogue
from peakgate.roofs import measure_roofs, roof_cases
from peakgate.verdict import Judgement, Verdict


class WrongResult(Exception):
    """A kernel whose output is not what it must be; the message says where."""


def no_room(full: MemoryError) -> str:
    """What went wrong where memory, the GPU's or the machine's, is full, and where to look."""
    told = " ".join(str(full).split()) or "it did not say how much was asked for"
    return f"no room in memory ({told}); see what else holds it, of a GPU's with nvidia-smi"


@dataclass(frozen=True, slots=True)
class Proof:
    """A case found right: its largest relative error, and on how many ragged problems its build was right too."""

    error: float
    probes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that is known of one case after a run. What was not reached is None."""

    case: Case
    judgement: Judgement
    proof: Proof | None = None
    samples: Samples | None = None
    metrics: Metrics | None = None
    floor: float | None = None
    resources: Resources | None = None
    fingerprint: str | None = None
    occupancy: Occupancy | None = None


@dataclass
class Session:
    """One device, one set of floors, one run.

    ``whole`` is False when only some cases of the tier were asked for; ``wall_s`` tells where the time went.
    Without ``checks`` the run repeats one that proved its kernels, and only times them; without ``wants_roofs`` none
    are measured.
    """

    device: Device
    floors: Floors
    tier: Tier
    whole: bool = True
    checks: bool = True
    wants_roofs: bool = True
    plan: SamplingPlan = field(default_factory=SamplingPlan)
    roofs: Mapping[str, float] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    wall_s: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    preflight: Preflight | None = None
    _proven: dict[Any, int | WrongResult] = field(default_factory=dict)
    _reference: tuple[Any, Sequence[Array]] | None = None

    def look(self) -> list[str]:
        """See whether the device is fit to be measured; what gives reason for doubt is noted and given."""
        self.preflight = self.device.preflight()
        found = concerns(self.preflight) if self.preflight else []
        self.notes += [f"doubtful: {concern}" for concern in found]
        return found

    def begin(self, selected: Sequence[Case]) -> None:
        """Build everything in parallel, bring the device to speed, measure the roofs."""
        roofs = roof_cases() if self.device.peaks is not None and self.wants_roofs else []
        with self._timed("build"):
            self.device.prebuild([*selected, *roofs])
        with self._timed("warm up"):
            self.device.warm_up()
        with self._timed("roofs"):
            self.roofs = measure_roofs(self.device, roofs)

    def prepare(self, case: Case) -> Launchable:
        """Build one case and put its arguments in place."""
        with self._timed("prepare"):
            return self.device.prepare(case)

    def prove(self, launchable: Launchable) -> Proof | None:
        """Check the case's ragged probes and the case itself; WrongResult or KernelFault when one is wrong.

        Without ``checks`` nothing is proven: None.
        """
        if not self.checks:
            return None
        with self._timed("check"):
            probes = self._prove_build(launchable.case)
            result = self._check(launchable)
        if result.mismatch is not None:
            raise WrongResult(result.mismatch)
        return Proof(result.error, probes)

    def sample(self, launchable: Launchable) -> Samples:
        """Time a case that was proven right."""
        with self._timed("sample"):
            return launchable.sample(self.plan)

    def gate(self, launchable: Launchable, proof: Proof | None, samples: Samples) -> Outcome:
        """Judge what was measured and keep it."""
        case = launchable.case
        figures = metrics(case, samples, self.device.peaks, self.roofs) if samples.conclusive else None
        floor = self.floors.get(case.id)
        outcome = Outcome(
            case=case,
            judgement=judge(samples, figures, floor),
            proof=proof,
            samples=samples,
            metrics=figures,
            floor=floor,
            resources=launchable.resources,
            fingerprint=launchable.fingerprint,
            occupancy=self._occupancy(launchable),
        )
        self.outcomes.append(outcome)
        return outcome

    def failed(self, case: Case, error: Exception) -> Outcome:
        """Keep a case that gave no figures: wrong or faulted, or not run because the device was lost or is full."""
        told = " ".join(str(error).split())
        match error:
            case Unmeasurable():
                verdict, reason = Verdict.INCONCLUSIVE, told
            case DeviceLost():
                verdict, reason = Verdict.INCONCLUSIVE, f"not run: {told}"
            case MemoryError():
                self._reference = None  # the next case may need its room
                verdict, reason = Verdict.INCONCLUSIVE, f"not run: {no_room(error)}"
            case _:
                verdict, reason = Verdict.WRONG, told
        outcome = Outcome(case, Judgement(verdict, reason), floor=self.floors.get(case.id))
        self.outcomes.append(outcome)
        return outcome

    @property
    def verdicts(self) -> list[Verdict]:
        return [outcome.judgement.verdict for outcome in self.outcomes]

    def _prove_build(self, case: Case) -> int:
        """Run the probes of a build once, whichever case asks first; how many there are."""
        key = (case.stage, case.defines, case.block, case.launch.shared_bytes)
        if key not in self._proven:
            self._proven[key] = self._run_probes(case)
        known = self._proven[key]
        if isinstance(known, WrongResult):
            raise known
        return known

    def _run_probes(self, case: Case) -> int | WrongResult:
        probes = catalogue.probes(case)
        for probe in probes:
            result = self._check(self.device.prepare(probe))
            if result.mismatch is not None:
                return WrongResult(f"ragged problem {probe.size}: {result.mismatch}")
        return len(probes)

    def _check(self, launchable: Launchable) -> Check:
        launchable.run()
        case = launchable.case
        return check(self.device.xp, case, launchable.outputs, self._expected(launchable))

    def _expected(self, launchable: Launchable) -> Sequence[Array]:
        """The reference, kept while consecutive cases share problem and reference function."""
        case = launchable.case
        key = (case.reference, case.buffers)
        if self._reference is None or self._reference[0] != key:
            self._reference = None  # frees the old one before the new one is made
            self._reference = (key, case.reference(self.device.xp, launchable.inputs))
        return self._reference[1]

    def _occupancy(self, launchable: Launchable) -> Occupancy | None:
        resources, capability = launchable.resources, self.device.capability
        if resources is None or capability is None:
            return None
        launch = launchable.case.launch
        try:
            return occupancy(
                capability,
                threads_per_block=launch.threads_per_block,
                registers=resources.registers,
                static_shared=resources.static_shared_bytes,
                dynamic_shared=launch.shared_bytes,
            )
        except PeakgateError:
            return None  # an architecture newer than the table: every other figure still stands

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.wall_s[what] = self.wall_s.get(what, 0.0) + time.perf_counter() - start
