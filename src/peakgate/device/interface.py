"""The interface of a device, and the rules by which the state of a GPU makes a measurement doubtful."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.base.ranks import ALONE, Ranks
from peakgate.judge.correctness import ErrorBound, Largest
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.spec.case import Array, Buffer, Case, Role, Scale
from peakgate.spec.recorded import Energy

if TYPE_CHECKING:  # of a GPU
    from peakgate.judge.metrics import Peaks
    from peakgate.judge.occupancy import Resources

DeviceKind = Literal["gpu", "cpu"]

# The names of this error in the CUDA runtime and driver, before a colon and the message.
OUT_OF_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")

# Above this temperature an NVIDIA data-centre GPU is near its slowdown temperature.
HOT_C = 87

IDLE, POWER_CAP = "idle", "software power cap"
# Why clocks are not at their highest: bits of NVML's clocks event reasons.
CLOCK_LIMITS = {
    0x01: IDLE,
    0x02: "applications clock setting",
    0x04: POWER_CAP,
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}

# Reasons that make samples doubtful during a run; at its power cap a GPU runs steadily.
SLOWDOWNS = frozenset(
    {"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake"}
)


class KernelFault(Exception):
    """A launch failed: an illegal access, a defect that the emulator found, a launch that the device refused."""


class KernelCrash(KernelFault):
    """A fault that destroys the CUDA context on a GPU: an illegal access, a trap, a stack overflow."""


class KernelTimeout(KernelFault):
    """The device ended a launch at its time limit."""


class DeviceLost(Exception):
    """The device accepts no more launches because an earlier kernel faulted."""


class Unmeasurable(Exception):
    """A callable cannot be timed, though its result may be right; the message has the reason and the remedy."""


def refuse_changed_inputs(
    case: Case,
    given: Mapping[int, Array],
    after: Mapping[int, Array] | Sequence[Any],
    first_difference: Callable[[Array, Array], int | None],
) -> None:
    """Raise KernelFault if a launch changed an IN buffer; ``given`` and ``after`` are contents by argument position.

    ``first_difference`` returns near which byte two arrays differ.
    """
    for at, argument in enumerate(case.arguments):
        if isinstance(argument, Buffer) and argument.role is Role.IN and given[at].size:
            byte = first_difference(given[at], after[at])
            if byte is not None:
                raise KernelFault(
                    f"changed argument {at + 1}, an input, near element {byte // given[at].itemsize} of "
                    f"{given[at].size}; give it as InOut if that is a result, or give the kernel memory of its own as "
                    "Scratch"
                )


class Launchable(Protocol):
    """One case on one device, built and with its arguments in memory."""

    case: Case
    resources: tuple[Resources, ...]  # of each launch; empty if they are unknown
    fingerprint: str | None

    @property
    def inputs(self) -> Sequence[Array]:
        """The contents of IN and INOUT buffers before a launch, in argument order."""
        ...

    @property
    def outputs(self) -> Sequence[Array]:
        """The OUT and INOUT buffers after the last ``run``, in argument order."""
        ...

    def run(self) -> None:
        """Fill the outputs with noise, restore all inputs, launch once and synchronize.

        Raises KernelFault if the launch fails, DeviceLost after an earlier fault.
        """
        ...

    def sample(self, plan: SamplingPlan, checker: SampleChecker | None = None) -> Samples:
        """Time launches until the plan is satisfied; only undisturbed samples are kept."""
        ...

    def energy(self, launch_us: float, loops: int) -> Energy | None:
        """The energy of a launch of about ``launch_us``, over ``loops`` loops; None without an energy counter."""
        ...


@dataclass(frozen=True, slots=True)
class TimedLaunch:
    """A timed launch: the contents of IN and INOUT buffers before it, copies of OUT and INOUT buffers right after it.

    ``where`` names the launch in messages. The inputs are drawn again, in memory that the kernel could not access.
    """

    case: Case
    where: str
    inputs: Sequence[Array]
    outputs: Sequence[Array]


class SampleChecker:
    """Draws buffer contents for timed launches; subclasses also check the outputs of some launches.

    ``draw`` returns a random whole number below its argument, which device code cannot know. ``second_clock``: whether
    CUPTI records the launches too.

    The launches to check are a uniform random choice of all, though their number is not known before the last
    (algorithm R: Vitter, "Random sampling with a reservoir", 1985): a kernel that counts its launches cannot know after
    which of them it is no longer checked. So they are kept until sampling ends, and ``check_kept`` checks them.
    """

    def __init__(self, draw: Callable[[int], int], *, second_clock: bool = True) -> None:
        self.draw, self.second_clock = draw, second_clock
        self.kept: dict[int, Callable[[], TimedLaunch]] = {}
        """The launches chosen so far, by their place in the choice."""
        self._size = self._seen = 0

    def least(self, launch_us: float) -> int:  # noqa: ARG002  (this one checks none)
        """How many launches of this time must be checked."""
        return 0

    def candidates(self, count: int, launch_us: float | None) -> int:  # noqa: ARG002  (as above)
        """How many launches of a batch of ``count`` to choose from; ``launch_us`` is that of one, None if unknown."""
        return 0

    def owed(self, launch_us: float) -> int:
        """How many launches of this time must still be chosen in later batches."""
        return max(0, self.least(launch_us) - len(self.kept))

    def begin(self) -> None:
        """Forget what was chosen: the next launches are the first of another sampling."""
        self.kept, self._seen = {}, 0

    def chosen(
        self, count: int, launch_us: float | None, room: Callable[[], int | None] = lambda: None
    ) -> dict[int, int]:
        """The launches of the next batch of ``count`` to keep, from 0, each with its place in ``kept``.

        Those that had these places are dropped. No more than ``room`` are kept at once, which is asked where a choice
        begins; None: any number.
        """
        candidates = self.candidates(count, launch_us)
        if candidates and not self.kept:
            most, held = self.least(0.0), room()
            self._seen, self._size = 0, max(1, most if held is None else min(most, held))
        launches = list(range(count))
        found: dict[int, int] = {}
        for _ in range(candidates):
            launch = launches.pop(self.draw(len(launches)))
            place = self._seen if self._seen < self._size else self.draw(self._seen + 1)
            self._seen += 1
            if place < self._size:
                found[place] = launch
                self.kept.pop(place, None)
        return {launch: place for place, launch in found.items()}

    def make_room(self, launch_us: float) -> None:
        """After a batch: if no more can be kept at once but more are owed, check those that are kept."""
        if self.owed(launch_us) and len(self.kept) == self._size:
            self.check_kept(launch_us)

    def check_kept(self, launch_us: float) -> None:
        """Check as many kept launches as are needed, at least one, and drop all; an exception ends the sampling."""
        needed = max(1, self.least(launch_us))
        while self.kept:
            launch = self.kept.pop(list(self.kept)[self.draw(len(self.kept))])
            if needed > 0:
                self.check(launch())
                needed -= 1

    def check(self, launch: TimedLaunch) -> None:
        """Check a launch; an exception ends the sampling."""


class CallableLaunchable(Launchable, Protocol):
    """A case of a callable: its machine code is unknown, and its arrays belong to the user."""

    resources: tuple[Resources, ...] = ()
    fingerprint: str | None = None
    inputs: Sequence[Array] = ()
    outputs: Sequence[Array] = ()


class KernelLaunchable(Launchable, Protocol):
    """A case of a kernel."""

    def give(self, inputs: Sequence[Array]) -> None:
        """Let later runs start from these contents of IN and INOUT buffers, in argument order; ignore further ones."""
        ...

    def run(self, schedule: int = 0) -> None:
        """As in ``Launchable``; ``schedule`` is the emulator's order of threads."""
        ...


class Device(ABC):
    """A device that runs cases; ``xp`` is its array module."""

    kind: DeviceKind
    slug: str
    scale: Scale
    xp: Any
    peaks: Peaks | None
    capability: tuple[int, int] | None
    gpus: tuple[int, ...] = ()
    """The CUDA indices of the GPUs that a case may use, the first for a case on one."""
    ranks: Ranks = ALONE
    """The processes of the run, each with a device of its own."""
    lost: str | None
    """Why it accepts no more launches; None while it does."""
    rng: np.random.Generator
    """Random numbers that kernels cannot know: noise in their outputs, offsets in memory."""

    def __init__(self) -> None:
        self.draw_from(secrets.randbits(32))

    def draw_from(self, seed: int) -> None:
        """Seed the random numbers."""
        self.rng = np.random.default_rng(seed)
        self.secret = self.draw(1 << 31)
        """Added to the seeds of input pools, so that no kernel can be written for their elements."""

    def draw(self, end: int) -> int:
        """A random whole number in [0, end)."""
        return int(self.rng.integers(end))

    def open(self) -> None:  # noqa: B027  (the emulator has nothing to do here and in the others)
        """Open the device, which all but its facts and ``refusal`` need; raises RuntimeError if it cannot."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The facts of this device for the run file, by which later comparisons identify it."""

    def preflight(self) -> Preflight | None:
        """The device's state before a run; None for the emulator."""
        return None

    def disturbance(self, gpus: int = 1) -> str | None:  # noqa: ARG002
        """Why the last samples of ``gpus`` GPUs are doubtful, such as a foreign process or heat; else None."""
        return None

    def compared(  # noqa: B027
        self, found: Array, wanted: Array, bound: ErrorBound, magnitude: Array | None
    ) -> Largest | None:
        """The largest differences of an output, in float64; None if this device has no faster way than ``xp``."""

    @abstractmethod
    def memory_bytes(self) -> tuple[int, int] | None:
        """Free and total memory in bytes; None if unknown."""

    @abstractmethod
    def refusal(self, case: Case) -> str | None:
        """Why this device cannot run the case; None if it can."""

    @abstractmethod
    def prebuild(
        self, cases: Sequence[Case], *, checked: bool = True, meanwhile: Callable[[Case], None] | None = None
    ) -> None:
        """Build the cases' kernels in parallel and, if results are ``checked``, compile their references.

        Meanwhile ``meanwhile`` may be called with each case whose kernel is built. Build errors are reported by
        ``prepare``. Without references this does not use the GPU.
        """

    def is_built(self, case: Case) -> bool:  # noqa: ARG002
        """Whether ``prepare`` need not wait for a build that is going on."""
        return True

    @abstractmethod
    def prepare(self, case: Case) -> KernelLaunchable:
        """Build the case's kernel and create its arguments with their data."""

    def prepare_other(self, beside: KernelLaunchable, fingerprint: str) -> KernelLaunchable:  # noqa: ARG002
        """Another build of a case's kernel, by its fingerprint, to be sampled interleaved with the case ``beside`` it.

        This build is then the loaded one; ``exchange`` loads the other. A library call has an empty fingerprint, and is
        returned itself.
        """
        raise PeakgateError(f"{beside.case.id}: {self.slug} compares no builds; measure on a GPU", Code.EMULATED)

    def exchange(self, leaving: KernelLaunchable, coming: KernelLaunchable) -> None:  # noqa: B027
        """Unload the machine code of one of two such builds and load that of the other at the same addresses.

        Code addresses determine conflicts in the instruction caches: at other addresses a kernel of 50 µs took 5 %
        longer (an H200, docs/results/starts.md).
        """

    def warm_up(self) -> None:  # noqa: B027
        """Bring the device to a state in which times are steady."""

    def close(self) -> None:  # noqa: B027
        """Close the device; nothing is measured on it afterwards."""


def failure(error: Exception, *, lost: bool = False) -> KernelFault | MemoryError:
    """A CUDA error as MemoryError, if memory is full, else as the kernel's fault.

    ``lost``: the CUDA context accepts no more launches, so the kernel crashed.
    """
    message = str(error)
    if message.partition(":")[0] in OUT_OF_MEMORY:
        return MemoryError(message)
    return KernelCrash(message) if lost else KernelFault(message)


@dataclass(frozen=True, slots=True)
class Load:
    """The current load of a GPU: ids of the processes on it, and why its clocks are reduced."""

    processes: frozenset[int] = frozenset()
    throttle_reasons: tuple[str, ...] = ()


def own_processes(before: Load, now: Load, pid: int) -> frozenset[int]:
    """The ids that NVML reports for this process, from the load before and after it created its CUDA context.

    In a container NVML may report the host's process ids instead of ``pid``: then a process that appeared is this one;
    if none appeared (the context existed before), all processes are assumed to be.
    """
    return frozenset({pid}) if pid in now.processes else now.processes - before.processes or now.processes


def disturbance(now: Load, own: frozenset[int]) -> str | None:
    """Why the last samples are doubtful, in one line; None if they are not."""
    if foreign := now.processes - own:
        named = ", ".join(map(str, sorted(foreign)))
        return f"foreign process {named} was on this GPU while it was measured; see nvidia-smi and measure again"
    if slow := SLOWDOWNS & set(now.throttle_reasons):
        return f"{', '.join(sorted(slow))} while it was measured; see nvidia-smi -q -d PERFORMANCE and measure again"
    return None


@dataclass(frozen=True, slots=True)
class Preflight:
    """The state of a GPU before a run; None if the driver does not report a value."""

    other_processes: int | None
    throttle_reasons: tuple[str, ...]
    power_limit_w: float | None
    default_power_limit_w: float | None
    temperature_c: int | None
    uncorrected_ecc_errors: int | None
    mig: bool | None


def reasons(bits: int) -> tuple[str, ...]:
    """The names of the reasons in NVML's bit mask; unknown bits by their value."""
    named = [name for bit, name in CLOCK_LIMITS.items() if bits & bit]
    unknown = bits & ~sum(CLOCK_LIMITS)
    return (*named, *((f"unknown reason {unknown:#x}",) if unknown else ()))


def concerns(seen: Preflight) -> list[str]:
    """One line per condition that makes the figures of a run doubtful; empty if there is none."""
    found = []
    if seen.other_processes:
        found.append(
            f"{counted(seen.other_processes, 'other process')} on this GPU; see nvidia-smi and end or move them"
        )
    limiting = [reason for reason in seen.throttle_reasons if reason != IDLE]
    if limiting:
        found.append(f"clocks are limited by {', '.join(limiting)}; see nvidia-smi -q -d PERFORMANCE")
    if seen.power_limit_w and seen.default_power_limit_w and seen.power_limit_w < seen.default_power_limit_w:
        found.append(
            f"the power limit is {seen.power_limit_w:.0f} W, this GPU's default is {seen.default_power_limit_w:.0f} W"
        )
    if seen.temperature_c is not None and seen.temperature_c > HOT_C:
        found.append(f"the GPU is at {seen.temperature_c} °C, near thermal slowdown; check its cooling")
    if seen.uncorrected_ecc_errors:
        found.append(
            f"{counted(seen.uncorrected_ecc_errors, 'uncorrected ECC error')} since boot; have the GPU checked"
        )
    if seen.mig:
        found.append("MIG is enabled: this run uses a part of the GPU, and the peaks are those of the whole GPU")
    return found
