"""One run over many cases on one device: each is prepared, proven, sampled and judged.

Each step is announced with its time limit before it begins; wall time is summed by step name.
"""

from __future__ import annotations

import secrets
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import numpy as np

from peakgate.base import config
from peakgate.base.errors import BuildError, PeakgateError
from peakgate.base.verdict import Judgement, Verdict
from peakgate.device.interface import Device, DeviceLost, KernelLaunchable, Launchable, Preflight, concerns
from peakgate.judge.floors import NO_REFERENCE, Floors, judge, unchecked
from peakgate.judge.metrics import metrics
from peakgate.measure.limits import (
    HOST_LIMIT_S,
    build_limit_s,
    expected_launch_s,
    launch_limit_s,
    processor_limit_s,
    sampling_limit_s,
)
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.session.outcome import FAILURES, NOT_TIMED, Outcome, Proof, verdict_of
from peakgate.session.prover import Compare, ProveBeside, Prover, TimedChecks, compared_when_timed
from peakgate.spec import catalogue
from peakgate.spec.case import Case, RefusedCase, Tier
from peakgate.spec.recorded import TENSOR_MATH, Energy
from peakgate_emulator.bounded import WALL_PER_PROCESSOR_S

WARM_UP_LIMIT_S = 60.0

Expect = Callable[[str, float, str | None], None]
"""Called with a step, its limit in seconds and the id of its case, None between cases."""


def unwatched(_step: str, _limit_s: float, _case_id: str | None) -> None:
    """An ``Expect`` that ignores the steps, for a run without a supervisor."""


class Steps:
    """Announces the steps of one run on a device by ``expect``, and sums their wall time.

    ``wall_s`` maps the name of a step to seconds. ``given_limit_s`` replaces the limit of a launch, which otherwise
    follows from the work of its case.
    """

    def __init__(
        self, device: Device, floors: Floors, expect: Expect = unwatched, given_limit_s: float | None = None
    ) -> None:
        self.expect = expect
        self.wall_s: dict[str, float] = {}
        self._device, self._floors, self._given_limit_s = device, floors, given_limit_s

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the block's wall time to a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to a step."""
        self.wall_s[name] = self.wall_s.get(name, 0.0) + seconds

    def launch_limit_s(self, case: Case) -> float:
        """The time limit of one launch."""
        if self._given_limit_s is not None:
            return self._given_limit_s
        if self._device.kind == "cpu":
            timeout_s = config.current().emulation_timeout_s
            return WALL_PER_PROCESSOR_S * sum(processor_limit_s(each.launch, timeout_s) for each in case.launches)
        least = self._device.peaks.least_time_us(case) if self._device.peaks else None
        return launch_limit_s(expected_launch_s(case.work, least[0] if least else None, self._floors.get(case.id)))


@dataclass
class Session:
    """One run on one device with one set of floors.

    ``whole`` is False if only some cases of the tier were requested. ``new`` are cases that the base does not have;
    they need no floor. ``alone`` is False if another process of an A/B uses the device: its times do not count and are
    not checked for disturbances. Without ``checks`` another run has proven the kernels: only timed launches are
    compared, one of each case. Without ``timed`` cases are only proven. Without ``wants_roofs`` none are measured.
    ``energy_loops`` is the number of loops that measure the energy of each case; 0 for none. Buffer contents and
    offsets are seeded by ``seed`` and by ``attempts``: how often earlier processes of the run measured each case. The
    other settings are those of ``Steps`` and ``Prover``.
    """

    device: Device
    floors: Floors
    tier: Tier
    whole: bool = True
    checks: bool = True
    timed: bool = True
    alone: bool = True
    wants_roofs: bool = True
    probes: Callable[[Case], Sequence[Case]] = catalogue.probes
    new: Collection[str] = ()
    plan: SamplingPlan = field(default_factory=SamplingPlan)
    notes: list[str] = field(default_factory=list)
    expect: Expect = unwatched
    launch_limit_s: float | None = None
    nonfinite: bool = False
    determinism: bool = False
    energy_loops: int = 0
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    attempts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.preflight: Preflight | None = None
        self.roofs: Mapping[str, float] = {}
        self._known_roofs: set[str] = set()
        self.steps = Steps(self.device, self.floors, self.expect, self.launch_limit_s)
        self.prover = Prover(
            self.device, self.steps, self.probes, nonfinite=self.nonfinite, determinism=self.determinism
        )
        self.draw_from(self.seed)

    def draw_from(self, seed: int) -> None:
        """Draw buffer contents, offsets and the launches to compare from this seed, before anything is measured."""
        self.seed = seed
        self.device.draw_from(seed)

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
        prove_beside: ProveBeside | None = None,
    ) -> None:
        """Build all kernels in parallel, warm up the device, and measure the roofs unless ``roofs`` are given.

        With ``prove_early``, finished builds are proven on their edge-size problems while others compile; this may
        raise LostEarly. With ``prove_beside`` the others are proven in other processes, before anything is timed.
        """
        self._known_roofs, wanted, tensor = set(roofs or ()), list[Case](), list[Case]()
        if self.device.peaks is not None and self.wants_roofs and roofs is None:
            from peakgate.device.roofs import roof_cases, tensor_roofs  # noqa: PLC0415  (of a GPU)

            self._known_roofs = _tensor_roofs_of(selected)
            tensor = tensor_roofs(self._known_roofs, self.device.capability)
            wanted = [*roof_cases(), *tensor]
        steps = self.steps
        with steps.timed("build"):
            limit_s, asked = build_limit_s(len(selected)), {case.id for case in selected}
            steps.expect("build", limit_s, None)

            def meanwhile(case: Case) -> None:
                if case.id in asked:
                    self.prover.prove_early(case)
                    steps.expect("build", limit_s, None)

            if prebuild:
                early = meanwhile if prove_early and self.checks else None
                self.device.prebuild([*selected, *wanted], checked=self.checks, meanwhile=early)
        if prove_beside is not None and self.checks:
            with steps.timed("check"):
                steps.expect("build", limit_s, None)
                self.prover.prove_beside(selected, prove_beside, meanwhile)
        with steps.timed("warm up"):
            steps.expect("warm up", WARM_UP_LIMIT_S, None)
            self.device.warm_up()
        with steps.timed("roofs"):
            steps.expect("roofs", HOST_LIMIT_S, None)
            self.roofs = roofs or {}
            if wanted:
                from peakgate.device.roofs import measure_roofs  # noqa: PLC0415  (as above)

                self.roofs = measure_roofs(self.device, wanted)
            if tensor:
                self.device.warm_up()  # tensor cores lower the clock

    def measured(self, case: Case) -> Outcome:
        """Prove, time and judge one case; its outcome."""
        try:
            launchable = self.prepare(case)
            proof = self.prover.prove(launchable) if self.checks else None
            if not self.timed:
                return self.untimed(case, proof, NO_REFERENCE if case.unchecked else "right")
            compare = self.prover.compare_timed if compared_when_timed(case) else None
            samples, proof = self.sample(launchable, proof, self.prover.launch_s, compare)
            energy = self.energy_of(launchable, samples)
        except FAILURES as error:
            return self.failed(case, error)
        return replace(self.judged(launchable, proof, samples), energy=energy)

    def prepare(self, case: Case) -> KernelLaunchable:
        """Build one case and create its arguments."""
        with self.steps.timed("prepare"):
            self.steps.expect("its build and input data", HOST_LIMIT_S, case.id)
            return self.device.prepare(case)

    def sample(
        self, launchable: Launchable, proof: Proof | None, launch_s: float, compare: Compare | None
    ) -> tuple[Samples, Proof | None]:
        """Time a case and compare some of the timed launches; its samples, and its proof with these included.

        ``launch_s`` is the duration of an earlier launch. Raises WrongResult or KernelFault if a timed launch is wrong.
        """
        case = launchable.case
        rng = np.random.default_rng([self.seed, zlib.crc32(case.id.encode()), self.attempts.get(case.id, 0)])
        checks = TimedChecks(self.steps, case, proof, compare, rng, once=not self.checks)
        return self.sample_by(self.plan, launchable, checks, launch_s), checks.proof

    def sample_by(self, plan: SamplingPlan, launchable: Launchable, checks: TimedChecks, launch_s: float) -> Samples:
        """Time a case by another plan and with given checks."""
        with self.steps.timed("sample"):
            limit_s = self.steps.launch_limit_s(launchable.case)
            checks.limit_s = sampling_limit_s(limit_s, launch_s, plan, launchable.case.state)
            checks.launch_s = launch_s
            self.steps.expect("sampling", checks.limit_s, launchable.case.id)
            samples = launchable.sample(plan, checks)
        self.steps.add("sample", -checks.spent_s)
        self.steps.add("check", checks.spent_s)
        return samples

    def energy_of(self, launchable: Launchable, samples: Samples) -> Energy | None:
        """The energy of a case's launch; None if this run does not measure it or the device cannot."""
        if not self.energy_loops or not samples.times_us:
            return None
        with self.steps.timed("energy"):
            self.steps.expect("its energy", HOST_LIMIT_S, launchable.case.id)
            return launchable.energy(samples.median_us, self.energy_loops)

    def judged(self, launchable: Launchable, proof: Proof | None, samples: Samples) -> Outcome:
        """Judge a measured case. If its type's roof was not measured when the run began, measure it first."""
        case, device = launchable.case, self.device
        lacking = _tensor_roofs_of([case]) - self._known_roofs
        if lacking and device.peaks is not None and self.wants_roofs:  # a benchmark test declares its type when called
            from peakgate.device.roofs import measure_roofs, tensor_roofs  # noqa: PLC0415  (as above)

            self._known_roofs |= lacking
            with self.steps.timed("roofs"):
                self.steps.expect("roofs", HOST_LIMIT_S, case.id)
                self.roofs = {**self.roofs, **measure_roofs(device, tensor_roofs(lacking, device.capability))}
                device.warm_up()
        figures = metrics(case, samples, device.peaks, self.roofs) if samples.conclusive else None
        floor = self.floors.get(case.id)
        judgement = judge(samples, figures, floor, device.disturbance(case.gpus) if self.alone else None)
        if judgement.verdict is Verdict.NO_FLOOR and case.id in self.new:
            judgement = Judgement(Verdict.NEW, f"not in the base; {judgement.reason}")
        if case.unchecked:
            judgement = unchecked(judgement, on_gpu=device.kind != "cpu")
        launch, resources, occupancy = case.launch, next(iter(launchable.resources), None), None
        if resources is not None and device.capability is not None:
            launches = zip((each.launch for each in case.launches), launchable.resources, strict=True)
            with suppress(PeakgateError):  # an architecture newer than the occupancy table
                filled = [(*each, each[1].occupancy(device.capability, each[0])) for each in launches]
                launch, resources, occupancy = min(filled, key=lambda each: each[2].fraction)
        return Outcome(
            case=case,
            judgement=judgement,
            proof=proof,
            samples=samples,
            metrics=figures,
            floor=floor,
            launch=launch,
            resources=resources,
            fingerprint=launchable.fingerprint,
            occupancy=occupancy,
        )

    def failed(self, case: Case, error: Exception) -> Outcome:
        """The outcome of a case that ended with one of ``FAILURES``."""
        reason = " ".join(str(error).split())
        match error:
            case BuildError():
                reason = f"does not build{' in the emulator' if self.device.kind == 'cpu' else ''}: {reason}"
            case DeviceLost():
                reason = f"not run: {reason}"
            case MemoryError():
                self.prover.forget()
                reason = f"not run: {no_room(error, self.device, case)}"
        return self.unmeasured(case, Judgement(verdict_of(error), reason))

    def untimed(self, case: Case, proof: Proof | None, right: str) -> Outcome:
        """The outcome of a case that was not to be timed: INCONCLUSIVE on a GPU, NO_FLOOR in the emulator.

        ``right`` is the phrase about its proof.
        """
        verdict = Verdict.NO_FLOOR if self.device.kind == "cpu" else Verdict.INCONCLUSIVE
        return replace(self.unmeasured(case, Judgement(verdict, f"{right}; {NOT_TIMED}")), proof=proof)

    def unmeasured(self, case: Case | RefusedCase, judgement: Judgement) -> Outcome:
        """An outcome without figures."""
        return Outcome(case, judgement, floor=self.floors.get(case.id))


def no_room(full: MemoryError, device: Device, case: Case | None = None) -> str:
    """The message for full memory of the GPU or the machine, with sizes and where to look."""
    sizes = [" ".join(str(full).split()) or "the requested size is unknown"]
    room = device.memory_bytes()
    if case is not None:
        sizes.append(f"the case's buffers take {case.buffer_bytes / 1e9:.2f} GB")
    if room is not None:
        sizes.append(f"{room[0] / 1e9:.2f} GB of {room[1] / 1e9:.2f} GB are free")
    return f"no room in memory ({'; '.join(sizes)}); see what else uses it, for a GPU with nvidia-smi"


def _tensor_roofs_of(cases: Iterable[Case]) -> set[str]:
    """The tensor core types with whose roofs the cases are compared."""
    return {case.roof for case in cases if case.roof in TENSOR_MATH}
