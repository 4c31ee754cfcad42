"""Proves cases right: the edge-size problems of each build once, then the case's own launch, and timed launches."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.compile.named import named_numbers
from peakgate.device.expected import computed, expected
from peakgate.device.interface import Device, KernelFault, KernelLaunchable, SampleChecker, TimedLaunch
from peakgate.judge.correctness import Deviation, ExpectedOutputs, NothingCompared, check, on_host, refuse_one_number
from peakgate.measure.limits import HOST_LIMIT_S
from peakgate.measure.patterns import PATTERNS, varied
from peakgate.session.outcome import Proof, WrongResult
from peakgate.spec.case import Buffer, Case, Role

if TYPE_CHECKING:  # it imports this module
    from peakgate.session.session import Steps

OTHER_ORDER = 1
"""The emulator's descending order of threads, for a second launch; a GPU schedules by itself."""


LEAST_COMPARED, LEAST_LONG_COMPARED, LONG_LAUNCH_US = 8, 2, 10_000.0
"""The number of timed launches that are compared, and that for launches longer than LONG_LAUNCH_US. A kernel that is
wrong in half of its launches passes eight comparisons in one of 256 runs, one that is wrong in a third in one of 26."""

LIKELY_BATCHES, BATCHES_US = 4, 8_000.0
"""The least number of batches of a short kernel, and the total time of the batches of a longer one: so many have the
launches that are compared if there are no more."""

KEPT_BYTES = 64 << 20
"""The most bytes of arguments of the problems whose references are kept: those of the edge sizes of one family."""

ON_HOST_BYTES = 32 << 20
"""Edge-size problems of up to this size are compared on the host: for a reference's operations on a GPU CuPy compiles
kernels, for each type, some 20 s for the kernels of this repository."""

Compare = Callable[[TimedLaunch], Deviation]
"""Compares a timed launch with its reference."""

ProveBeside = Callable[[Sequence[Case], Callable[[Case], None]], Iterable[tuple[Case, int]]]
"""Proves builds in other processes: yields cases whose builds are right, with their number of edge-size problems. The
second argument is called with cases while no process has answered."""


class LostEarly(Exception):
    """A case whose fault destroyed the CUDA context before the first case was measured, with the error."""

    def __init__(self, case: Case, error: Exception) -> None:
        super().__init__(f"{case.id}: {error}")
        self.case, self.error = case, error


def compared_when_timed(case: Case) -> bool:
    """Whether timed launches are compared: those of kernels are, those of library calls are not."""
    return case.stage.source is not None and case.reference is not None


class Prover:
    """Compares launches on one device with their references.

    ``probes`` returns the edge-size problems of a case's build. With ``nonfinite`` an output with NaN or infinity is
    wrong; with ``determinism`` each case is launched again on the same data to count elements whose bits differ.
    ``launch_s`` is the duration in seconds of the last checked launch.
    """

    def __init__(
        self,
        device: Device,
        steps: Steps,
        probes: Callable[[Case], Sequence[Case]],
        *,
        nonfinite: bool = False,
        determinism: bool = False,
    ) -> None:
        self.launch_s = 0.0
        self._device, self._steps, self._probes = device, steps, probes
        self._nonfinite, self._determinism = nonfinite, determinism
        self._builds: dict[Any, int | WrongResult] = {}
        self._references: dict[Any, ExpectedOutputs] = {}
        self._kept_bytes = 0

    def prove(self, launchable: KernelLaunchable) -> Proof | None:
        """Check the edge-size problems of a case's build and launch the case itself.

        Raises WrongResult or KernelFault if it is wrong. A kernel's result at its own size is compared when timed. None
        for a kernel without a reference, which is launched alike and proves nothing.
        """
        case = launchable.case
        with self._steps.timed("check"):
            probes = self.prove_build(case)
            self._launch(launchable, case)
            if case.unchecked:
                return None
            error = ratio = 0.0
            if not compared_when_timed(case):
                result = self._compare(self._device.xp, launchable, self._expected(self._device.xp, launchable))
                if result.mismatch is not None:
                    raise WrongResult(result.mismatch)
                error, ratio = result.error, result.ratio
            varying = None
            if self._determinism and case.stage.source:
                first = [output.copy() for output in launchable.outputs]
                self._launch(launchable, case, schedule=OTHER_ORDER)
                pairs = zip(first, launchable.outputs, strict=True)
                varying = sum(
                    int((_bytes(one) != _bytes(other)).any(axis=-1).sum()) for one, other in pairs if one.size
                )
        return Proof(error, probes, ratio, varying)

    def prove_early(self, case: Case) -> None:
        """Run the edge-size problems of a case's build; errors are reported later, when the case is proven.

        Raises LostEarly if a fault destroys the CUDA context.
        """
        if self._device.refusal(case):
            return
        try:
            self.prove_build(case)
        except (WrongResult, KernelFault, MemoryError, PeakgateError) as error:
            if self._device.lost is not None:
                raise LostEarly(case, error) from None

    def prove_beside(self, cases: Sequence[Case], right: ProveBeside, meanwhile: Callable[[Case], None]) -> None:
        """Have builds of these cases proven that are not yet; what ``right`` does not find right is proven later."""
        unproven = {
            case.build: case
            for case in cases
            if case.build not in self._builds and not self._device.refusal(case) and self._device.is_built(case)
        }
        for case, problems in right(list(unproven.values()), meanwhile):
            self._builds[case.build] = problems

    def prove_build(self, case: Case) -> int:
        """Run a build's edge-size problems, once for all of its cases; their number, or WrongResult as in ``prove``."""
        if case.build not in self._builds:
            self._builds[case.build] = self._run_probes(case)
        known = self._builds[case.build]
        if isinstance(known, WrongResult):
            raise known
        return known

    def compare_timed(self, launch: TimedLaunch) -> Deviation:
        """Compare a timed launch with the reference for the buffer contents that it had."""
        return self._compare(self._device.xp, launch, expected(self._device.xp, launch, self._device.prepare))

    def forget(self) -> None:
        """Free the references, whose memory the next case may need."""
        self._references.clear()
        self._kept_bytes = 0

    def _run_probes(self, case: Case) -> int | WrongResult:
        probes = varied(self._probes(case), named_numbers(case))
        left = deque(sorted(probes.problems, key=attrgetter("buffer_bytes")))  # a wrong small one is easiest to follow
        met = set()
        while left:
            probe = left.popleft()
            problem = f"edge-size problem {probe.size}"
            pattern = next((each for each in PATTERNS if probe.variant.endswith(each)), None)
            if pattern:
                problem += f" with {pattern} data"
            try:
                launchable = self._device.prepare(probe)
                self._launch(launchable, case)
                if probe.unchecked:
                    continue
                result = self._compare_probe(launchable)
                if result.right and any(buffer.role is Role.SCRATCH for buffer in probe.buffers):
                    problem += ", launched again on the scratch memory as it was left"
                    self._launch(launchable, case)
                    result = self._compare_probe(launchable)
            except PeakgateError as error:
                # The operation does not support this pattern of data.
                if isinstance(error, NothingCompared) or (pattern and error.code is Code.REFERENCE):
                    left.extend(filter(None, [probes.plain.get(probe.id)]))
                    continue
                raise
            except KernelFault as fault:
                raise type(fault)(f"{problem}: {fault}") from fault.__cause__
            if result.mismatch is not None:
                return WrongResult(f"{problem}: {result.mismatch}")
            met.add(result.one)
        refuse_one_number(case, met)
        return len(probes.problems)

    def _launch(self, launchable: KernelLaunchable, owner: Case, *, schedule: int = 0) -> None:
        """Launch once; ``owner`` is the case that is being proven."""
        self._steps.expect("a launch", self._steps.launch_limit_s(launchable.case), owner.id)
        start = time.perf_counter()
        launchable.run(schedule)
        self.launch_s = time.perf_counter() - start
        self._steps.expect("its reference and the comparison", HOST_LIMIT_S, owner.id)

    def _compare_probe(self, launchable: KernelLaunchable) -> Deviation:
        """Compare an edge-size problem on the host; on the device if it is large, or not right by the host's reference.

        A reference may be written for CuPy alone, and a GPU converts numbers that an integer cannot hold differently.
        """
        xp, case = self._device.xp, launchable.case
        if xp is not np and callable(case.reference) and case.buffer_bytes <= ON_HOST_BYTES:
            launched = TimedLaunch(
                case,
                "",
                [on_host(array) for array in launchable.inputs],
                [on_host(array) for array in launchable.outputs],
            )
            try:
                result = self._compare(np, launched, self._expected(np, launched))
                if result.right:
                    return result
            except PeakgateError as error:
                if error.code is not Code.REFERENCE or isinstance(error, NothingCompared):
                    raise
        return self._compare(xp, launchable, self._expected(xp, launchable))

    def _expected(self, xp: Any, launched: KernelLaunchable | TimedLaunch) -> ExpectedOutputs:
        """The reference of its problem, which further launches, cases and builds share while it is kept."""
        case = launched.case
        buffers = tuple((at, each) for at, each in enumerate(case.arguments) if isinstance(each, Buffer))
        bound = (case.tolerance, case.atol, case.rtol, case.scale)
        problem = (xp, case.reference, buffers, case.stage.constants, bound)
        if problem not in self._references:
            if self._kept_bytes + case.buffer_bytes > KEPT_BYTES:
                self.forget()
            self._references[problem] = expected(xp, launched, self._device.prepare)
            self._kept_bytes += case.buffer_bytes
        return self._references[problem]

    def _compare(self, xp: Any, launched: KernelLaunchable | TimedLaunch, wanted: ExpectedOutputs) -> Deviation:
        outputs = computed(xp, launched)
        if self._nonfinite:
            count = sum(int((~xp.isfinite(output)).sum()) for output in outputs if output.dtype.kind in "fc")
            if count:
                return Deviation(math.inf, math.inf, f"writes {counted(count, 'value')} that are NaN or infinite")
        return check(xp, launched.case, outputs, wanted, self._device.compared if xp is self._device.xp else None)


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


def _bytes(array: Any) -> Any:
    """The bytes of each element along a last axis."""
    return array.reshape(-1, 1).view("uint8")
