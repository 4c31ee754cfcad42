"""One run over many cases on one device: prove, sample, judge; and remember what came of each."""

from __future__ import annotations

import math
import secrets
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from peakgate.base import config
from peakgate.base.errors import BuildError, Code, PeakgateError
from peakgate.base.text import counted
from peakgate.base.verdict import Judgement, Verdict
from peakgate.compile.cubin import Resources
from peakgate.device.expected import ReferenceFault, computed, expected
from peakgate.device.interface import (
    Device,
    DeviceLost,
    KernelCrash,
    KernelFault,
    KernelLaunchable,
    KernelTimeout,
    Launchable,
    Preflight,
    TimedLaunch,
    Unmeasurable,
    Witness,
    concerns,
)
from peakgate.device.roofs import measure_roofs, roof_cases, tensor_roofs
from peakgate.judge.correctness import Check, ExpectedOutputs, NothingCompared, check
from peakgate.judge.floors import Floors
from peakgate.judge.gate import judge
from peakgate.judge.metrics import Metrics, metrics
from peakgate.judge.occupancy import Occupancy
from peakgate.measure.limits import (
    HOST_LIMIT_S,
    build_limit_s,
    expected_launch_s,
    launch_limit_s,
    processor_limit_s,
    sampling_limit_s,
)
from peakgate.measure.patterns import PATTERNS, varied
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.spec import catalogue
from peakgate.spec.case import Array, Case, RefusedCase, Tier, TunedChoice
from peakgate.spec.work import TENSOR_MATH
from peakgate_emulator.bounded import WALL_PER_PROCESSOR_S

if TYPE_CHECKING:  # few runs measure it
    from peakgate.measure.energy import Energy


class WrongResult(Exception):
    """A kernel with a wrong output; the message says where."""


class LostEarly(Exception):
    """A case whose kernel took the GPU's context with it before the first case was measured, and how."""

    def __init__(self, case: Case, error: Exception) -> None:
        super().__init__(f"{case.id}: {error}")
        self.case, self.error = case, error


LEAST_COMPARED, LEAST_LONG_COMPARED, LONG_LAUNCH_US = 8, 2, 10_000.0
"""So many timed launches of a case are compared, and so many of one whose launch takes longer than LONG_LAUNCH_US. A
kernel that is wrong in half of its launches passes eight in one of 256 runs, one that is wrong in a third in one of
26."""

LIKELY_BATCHES, BATCHES_US = 4, 8_000.0
"""Batches that a short kernel has at least, and the time of all those of a longer one: what is to be compared is spread
over them."""

WARM_UP_LIMIT_S = 60.0

OTHER_ORDER = 1
"""The emulator's descending order of threads, for a second launch; a GPU has its own."""


def no_room(full: MemoryError, device: Device, case: Case | None = None) -> str:
    """The message for full memory, of the GPU or the machine, with sizes, and where to look."""
    said = " ".join(str(full).split()) or "it did not say how much was asked for"
    room = device.memory_bytes()
    sizes = [said]
    if case is not None:
        sizes.append(f"the case's buffers take {case.buffer_bytes / 1e9:.2f} GB")
    if room is not None:
        sizes.append(f"{room[0] / 1e9:.2f} GB of {room[1] / 1e9:.2f} GB are free")
    return f"no room in memory ({'; '.join(sizes)}); see what else uses it, of a GPU's with nvidia-smi"


def _nonfinite(xp: Any, values: Array) -> int:
    return int((~xp.isfinite(values)).sum()) if values.dtype.kind in "fc" else 0


def _bits(array: Array) -> Array:
    """The bytes of each element along a last axis."""
    return array.reshape(-1, 1).view("uint8")


def verdict_of(error: Exception) -> Verdict:
    """The verdict on a case that failed: WRONG and its like only where a kernel ran and was at fault."""
    match error:
        case KernelCrash():
            return Verdict.CRASHED
        case KernelTimeout():
            return Verdict.TIMEOUT
        case ReferenceFault():
            return Verdict.INCONCLUSIVE
        case WrongResult() | KernelFault():
            return Verdict.WRONG
    return Verdict.INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class Proof:
    """A case found right: its largest error, and on how many edge-size problems its build was right too.

    ``error`` is ``max|out - ref| / max|ref|``, ``ratio`` the largest error of an element over its bound, ``varying``
    how many elements differ in a second launch on the same data: None where that is not known. ``timed`` launches among
    those compared were samples.
    """

    error: float
    probes: int
    ratio: float | None = None
    varying: int | None = None
    timed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one case. Steps that were not reached are None."""

    case: Case | RefusedCase
    judgement: Judgement
    proof: Proof | None = None
    samples: Samples | None = None
    metrics: Metrics | None = None
    floor: float | None = None
    resources: Resources | None = None
    fingerprint: str | None = None
    occupancy: Occupancy | None = None
    tuned: tuple[TunedChoice, ...] = ()
    energy: Energy | None = None


def compared_when_timed(case: Case) -> bool:
    """Whether launches that are timed are compared: those of kernels, not of operations of the device itself."""
    return case.stage.source is not None and case.reference is not None


class TimedChecks:
    """The checks of one case's timed launches: ``proof`` so far, ``spent_s`` for comparing, a launch's ``launch_s``.

    Of a process of an A/B one launch is enough: another run proves its kernels.
    """

    def __init__(
        self,
        session: Session,
        case: Case,
        proof: Proof | None,
        compare: Callable[[TimedLaunch], Check] | None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self._session, self._case, self._compare = session, case, compare
        attempt = session.attempts.get(case.id, 0)
        self._rng = rng or np.random.default_rng([session.seed, zlib.crc32(case.id.encode()), attempt])
        self._one = rng is not None or not session.checks
        self.proof, self.spent_s, self.limit_s, self.launch_s = proof, 0.0, 0.0, 0.0
        self.witness = Witness(self._draw, self._wanted, self._owed, self._judge, second_clock=rng is None)

    def _draw(self, end: int) -> int:
        return int(self._rng.integers(end))

    def _wanted(self, count: int, launch_us: float | None) -> int:
        if self._compare is None:
            return 0
        if launch_us is None:
            launch_us = 1e6 * self.launch_s
        batches = min(max(1.0, BATCHES_US / (count * max(launch_us, 1.0))), LIKELY_BATCHES)
        return min(count, math.ceil(self._owed(launch_us) / batches))

    def _owed(self, launch_us: float) -> int:
        if self._compare is None:
            return 0
        least = 1 if self._one else LEAST_COMPARED if launch_us <= LONG_LAUNCH_US else LEAST_LONG_COMPARED
        return max(0, least - (self.proof.timed if self.proof else 0))

    def _judge(self, launch: TimedLaunch) -> None:
        assert self._compare is not None
        start = time.perf_counter()
        self._session.expect("its reference and the comparison", HOST_LIMIT_S, self._case.id)
        found = self._compare(launch)
        if found.mismatch is not None:
            before = "; it is right on its edge-size problems" if self.proof and self.proof.probes else ""
            raise WrongResult(f"{launch.where}: {found.mismatch}{before}")
        known = self.proof or Proof(0.0, 0, 0.0)
        error, ratio = max(known.error, found.error), max(known.ratio or 0.0, found.ratio)
        self.proof = replace(known, error=error, ratio=ratio, timed=known.timed + 1)
        self.spent_s += time.perf_counter() - start
        self._session.expect("sampling", self.limit_s, self._case.id)


def _tensor_roofs_of(cases: Iterable[Case]) -> set[str]:
    """The types of the tensor cores whose roofs the cases are compared with."""
    return {case.roof for case in cases if case.roof in TENSOR_MATH}


@dataclass
class Session:
    """One device, one set of floors, one run.

    ``expect(step, limit_s, case id)`` is called before each step; ``launch_limit_s`` replaces the limit
    that follows from a case's work.
    ``whole`` is False when only some cases of the tier were asked for; ``wall_s`` holds where the time went.
    ``probes`` gives a case's edge-size problems; ``new`` are cases that the base does not have: they need no floor.
    ``alone`` is False where another process of ours is on the device: then no time counts, and none is doubted for it.
    With ``nonfinite`` an output with NaN or infinity is wrong; with ``determinism`` each case is launched once more on
    the same data, to see whether bits differ. ``energy_loops`` of each case measure its energy, none where that is 0.
    Without ``checks`` the run repeats one that proved its kernels: only what is timed is compared. Without
    ``wants_roofs`` none are measured. Contents of buffers, and places in memory, follow from ``seed`` and from how
    often earlier processes of the run measured a case: ``attempts``.
    """

    device: Device
    floors: Floors
    tier: Tier
    whole: bool = True
    checks: bool = True
    alone: bool = True
    wants_roofs: bool = True
    probes: Callable[[Case], Sequence[Case]] = catalogue.probes
    new: Collection[str] = ()
    plan: SamplingPlan = field(default_factory=SamplingPlan)
    roofs: Mapping[str, float] = field(default_factory=dict)
    wall_s: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    preflight: Preflight | None = None
    expect: Callable[[str, float, str | None], None] = lambda _step, _limit_s, _case: None
    launch_limit_s: float | None = None
    nonfinite: bool = False
    determinism: bool = False
    energy_loops: int = 0
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    attempts: Mapping[str, int] = field(default_factory=dict)
    _known_roofs: set[str] = field(default_factory=set)
    _launch_s: float = 0.0
    _proven: dict[Any, int | WrongResult] = field(default_factory=dict)
    _reference: tuple[Any, ExpectedOutputs] | None = None

    def __post_init__(self) -> None:
        self.device.draw_from(self.seed)

    def look(self) -> list[str]:
        """Run the preflight; record and return its warnings."""
        self.preflight = self.device.preflight()
        found = concerns(self.preflight) if self.preflight else []
        self.notes += [f"doubtful: {concern}" for concern in found]
        return found

    def begin(
        self,
        selected: Sequence[Case],
        roofs: Mapping[str, float] | None = None,
        *,
        prebuild: bool = True,
        prove_early: bool = False,
    ) -> None:
        """Build everything in parallel, bring the device to speed, measure the roofs unless they are known.

        With ``prove_early`` builds are proven on their edge-size problems as long as others are being compiled; then
        LostEarly may be raised.
        """
        measured = self.device.peaks is not None and self.wants_roofs and roofs is None
        self._known_roofs = _tensor_roofs_of(selected) if measured else set(roofs or ())
        tensor = tensor_roofs(self._known_roofs, self.device.capability) if measured else []
        wanted = [*roof_cases(), *tensor] if measured else []
        with self.timed("build"):
            limit_s, asked = build_limit_s(len(selected)), {case.id for case in selected}
            self.expect("build", limit_s, None)

            def meanwhile(case: Case) -> None:
                if case.id in asked:
                    self._prove_early(case)
                    self.expect("build", limit_s, None)

            if prebuild:
                early = meanwhile if prove_early and self.checks else None
                self.device.prebuild([*selected, *wanted], checked=self.checks, meanwhile=early)
        with self.timed("warm up"):
            self.expect("warm up", WARM_UP_LIMIT_S, None)
            self.device.warm_up()
        with self.timed("roofs"):
            self.expect("roofs", HOST_LIMIT_S, None)
            self.roofs = measure_roofs(self.device, wanted) if roofs is None else roofs
            if tensor:
                self.device.warm_up()  # from the clock that tensor cores leave

    def prepare(self, case: Case) -> KernelLaunchable:
        """Build one case and put its arguments in place."""
        with self.timed("prepare"):
            self.expect("its build and input data", HOST_LIMIT_S, case.id)
            return self.device.prepare(case)

    def prove(self, launchable: KernelLaunchable) -> Proof | None:
        """Check the case's edge-size problems and launch the case itself; WrongResult or KernelFault when one is wrong.

        A kernel's launch at its own size is compared when it is timed. Without ``checks`` nothing is proven: None.
        """
        case = launchable.case
        if not self.checks:
            return None
        with self.timed("check"):
            probes = self._prove_build(case)
            if compared_when_timed(case):
                self._launch(launchable, case)
                result = Check(0.0, 0.0, None)
            else:
                result = self._check(launchable, case)
            if result.mismatch is not None:
                raise WrongResult(result.mismatch)
            varying = self._varying(launchable) if self.determinism and case.stage.source else None
        return Proof(result.error, probes, result.ratio, varying)

    def sample(
        self,
        launchable: Launchable,
        proof: Proof | None = None,
        launch_s: float | None = None,
        compare: Callable[[TimedLaunch], Check] | None = None,
    ) -> tuple[Samples, Proof | None]:
        """Time a case, and compare one launch of each batch with the reference of what it was given.

        Where ``proof`` says how right the case was before, what is given back says how right it is over all launches.
        ``launch_s`` is how long a launch took, by default the last checked one. WrongResult or KernelFault where a
        timed launch is wrong. ``compare`` is how, by default with the case's own reference; operations of the device,
        and callables without one, are not compared here.
        """
        case = launchable.case
        if compare is None and compared_when_timed(case):
            compare = self.compare_timed
        checks = TimedChecks(self, case, proof, compare)
        samples = self.sampled(launchable, checks, self.plan, self._launch_s if launch_s is None else launch_s)
        return samples, checks.proof

    def sampled(self, launchable: Launchable, checks: TimedChecks, plan: SamplingPlan, launch_s: float) -> Samples:
        """Time a case by a plan; the checks see one launch of each batch."""
        with self.timed("sample"):
            checks.limit_s = sampling_limit_s(self._limit_s(launchable.case), launch_s, plan, launchable.case.state)
            checks.launch_s = launch_s
            self.expect("sampling", checks.limit_s, launchable.case.id)
            samples = launchable.sample(plan, checks.witness)
        self.wall_s["sample"] -= checks.spent_s
        self.wall_s["check"] = self.wall_s.get("check", 0.0) + checks.spent_s
        return samples

    def gate(self, launchable: Launchable, proof: Proof | None, samples: Samples) -> Outcome:
        """Judge what was measured."""
        case = launchable.case
        self._measure_roof_of(case)
        figures = metrics(case, samples, self.device.peaks, self.roofs) if samples.conclusive else None
        floor = self.floors.get(case.id)
        judgement = judge(samples, figures, floor, self.device.disturbance(case.gpus) if self.alone else None)
        if judgement.verdict is Verdict.NO_FLOOR and case.id in self.new:
            judgement = Judgement(Verdict.NEW, f"not in the base; {judgement.reason}")
        return Outcome(
            case=case,
            judgement=judgement,
            proof=proof,
            samples=samples,
            metrics=figures,
            floor=floor,
            resources=launchable.resources,
            fingerprint=launchable.fingerprint,
            occupancy=self._occupancy(launchable),
        )

    def failed(self, case: Case, error: Exception) -> Outcome:
        """A case that gave no figures: wrong or faulted where a kernel ran and did so, otherwise undecided."""
        said = " ".join(str(error).split())
        verdict = verdict_of(error)
        match error:
            case BuildError():
                said = f"does not build{' in the emulator' if self.device.kind == 'cpu' else ''}: {said}"
            case DeviceLost():
                said = f"not run: {said}"
            case MemoryError():
                self._reference = None  # the next case may need its room
                said = f"not run: {no_room(error, self.device, case)}"
        return self.unmeasured(case, Judgement(verdict, said))

    def measured(self, case: Case) -> Outcome:
        """The result of one case: proven, timed, the timed launches compared, and judged."""
        try:
            launchable = self.prepare(case)
            proof = self.prove(launchable)
            samples, proof = self.sample(launchable, proof)
            energy = self.energy_of(launchable, samples)
        except (WrongResult, KernelFault, DeviceLost, MemoryError, PeakgateError, Unmeasurable) as error:
            return self.failed(case, error)
        return replace(self.gate(launchable, proof, samples), energy=energy)

    def energy_of(self, launchable: Launchable, samples: Samples) -> Energy | None:
        """The energy of a case's launch, where this run measures it and the device has a counter of it."""
        if not self.energy_loops or not samples.times_us:
            return None
        with self.timed("energy"):
            self.expect("its energy", HOST_LIMIT_S, launchable.case.id)
            return launchable.energy(samples.median_us, self.energy_loops)

    def unmeasured(self, case: Case | RefusedCase, judgement: Judgement) -> Outcome:
        """A case without figures."""
        return Outcome(case, judgement, floor=self.floors.get(case.id))

    def _measure_roof_of(self, case: Case) -> None:
        """Measure the roof of a type that nobody knew of when the run began: a benchmark test says it when it runs."""
        lacking = _tensor_roofs_of([case]) - self._known_roofs
        if not lacking or self.device.peaks is None or not self.wants_roofs:
            return
        self._known_roofs |= lacking
        with self.timed("roofs"):
            self.expect("roofs", HOST_LIMIT_S, case.id)
            self.roofs = {**self.roofs, **measure_roofs(self.device, tensor_roofs(lacking, self.device.capability))}
            self.device.warm_up()

    def _prove_early(self, case: Case) -> None:
        """Run the edge-size problems of a case's build; what is wrong with it is reported where the case is proven."""
        if self.device.refusal(case):
            return
        try:
            self._prove_build(case)
        except (WrongResult, KernelFault, MemoryError, PeakgateError) as error:
            if self.device.lost is not None:
                raise LostEarly(case, error) from None

    def _prove_build(self, case: Case) -> int:
        """Run the probes of a build once, whichever case asks first; how many there are."""
        key = case.build
        if key not in self._proven:
            self._proven[key] = self._run_probes(case)
        known = self._proven[key]
        if isinstance(known, WrongResult):
            raise known
        return known

    def _run_probes(self, case: Case) -> int | WrongResult:
        probes = self.probes(case)
        for probe in varied(probes):
            problem = f"edge-size problem {probe.size}"
            pattern = next((each for each in PATTERNS if probe.variant.endswith(each)), None)
            if pattern:
                problem += f" with {pattern} data"
            try:
                result = self._check(self.device.prepare(probe), case)
            except PeakgateError as error:
                # Data that the operation cannot bear; the case's own size must have others.
                if isinstance(error, NothingCompared) or (pattern and error.code is Code.REFERENCE):
                    continue
                raise
            except KernelFault as fault:
                raise type(fault)(f"{problem}: {fault}") from fault.__cause__
            if result.mismatch is not None:
                return WrongResult(f"{problem}: {result.mismatch}")
        return len(probes)

    def _check(self, launchable: KernelLaunchable, owner: Case) -> Check:
        """Launch and compare; ``owner`` is the case that it is done for."""
        self._launch(launchable, owner)
        return self._compare(launchable, self._expected(launchable))

    def _compare(self, launched: KernelLaunchable | TimedLaunch, wanted: ExpectedOutputs) -> Check:
        device = self.device
        outputs = computed(device.xp, launched)
        if self.nonfinite and (count := sum(_nonfinite(device.xp, output) for output in outputs)):
            return Check(math.inf, math.inf, f"writes {counted(count, 'value')} that are NaN or infinite")
        return check(device.xp, launched.case, outputs, wanted, device.compared)

    def compare_timed(self, launch: TimedLaunch) -> Check:
        """Compare a launch that was timed with the reference of what it was given."""
        return self._compare(launch, expected(self.device.xp, launch, self.device.prepare))

    def _varying(self, launchable: KernelLaunchable) -> int:
        """How many elements of its outputs differ in a second launch on the same data, bit by bit."""
        first = [output.copy() for output in launchable.outputs]
        self._launch(launchable, launchable.case, schedule=OTHER_ORDER)
        pairs = zip(first, launchable.outputs, strict=True)
        return sum(int((_bits(one) != _bits(other)).any(axis=-1).sum()) for one, other in pairs if one.size)

    def _launch(self, launchable: KernelLaunchable, owner: Case, *, schedule: int = 0) -> None:
        self.expect("a launch", self._limit_s(launchable.case), owner.id)
        start = time.perf_counter()
        launchable.run(schedule)
        self._launch_s = time.perf_counter() - start
        self.expect("its reference and the comparison", HOST_LIMIT_S, owner.id)

    def _limit_s(self, case: Case) -> float:
        """How long one launch may take."""
        if self.launch_limit_s is not None:
            return self.launch_limit_s
        if self.device.kind == "cpu":
            timeout_s = config.current().emulation_timeout_s
            return WALL_PER_PROCESSOR_S * sum(processor_limit_s(each.launch, timeout_s) for each in case.launches)
        least = self.device.peaks.least_time_us(case) if self.device.peaks else None
        return launch_limit_s(expected_launch_s(case.work, least[0] if least else None, self.floors.get(case.id)))

    def _expected(self, launchable: KernelLaunchable) -> ExpectedOutputs:
        """The reference, kept while consecutive cases share problem and reference function."""
        case = launchable.case
        key = (case.reference, case.buffers, case.scale, case.exact)
        if self._reference is None or self._reference[0] != key:
            self._reference = None  # frees the old one before the new one is made
            self._reference = (key, expected(self.device.xp, launchable, self.device.prepare))
        return self._reference[1]

    def _occupancy(self, launchable: Launchable) -> Occupancy | None:
        resources, capability = launchable.resources, self.device.capability
        if resources is None or capability is None:
            return None
        try:
            return resources.occupancy(capability, launchable.case.launch)
        except PeakgateError:
            return None  # an architecture newer than the table: every other figure still stands

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Count the block's time as that of a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.wall_s[what] = self.wall_s.get(what, 0.0) + time.perf_counter() - start
