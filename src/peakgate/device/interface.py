"""The interface of a device: all that the rest of the suite knows about it.

The state of a GPU before a run and while it measures is part of it, and which of it makes a measurement doubtful.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import counted
from peakgate.compile.cubin import Resources
from peakgate.judge.correctness import ErrorBound, Largest
from peakgate.judge.peaks import Peaks
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.spec.case import Array, Case, Scale

if TYPE_CHECKING:  # few runs measure it
    from peakgate.spec.recorded import Energy

DeviceKind = Literal["gpu", "cpu"]

# How the runtime and the driver name it, before a colon and their words.
OUT_OF_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")

# Above this an NVIDIA data-centre GPU is near its slow-down temperature.
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

# Reasons that make figures doubtful in the middle of a run; at its power cap a GPU runs steadily.
SLOWDOWNS = frozenset(
    {"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake"}
)


class KernelFault(Exception):
    """A launch that did not end well: an illegal access, a race the emulator saw, a launch the device refused."""


class KernelCrash(KernelFault):
    """A fault that takes the CUDA context with it on a GPU: a wild access, a trap, a full stack."""


class KernelTimeout(KernelFault):
    """A launch that the device itself ended, because it would not have ended otherwise."""


class DeviceLost(Exception):
    """The device takes no more launches because an earlier kernel faulted."""


class Unmeasurable(Exception):
    """A callable that cannot be timed, though its result may be right; the message has the reason and the remedy."""


class Launchable(Protocol):
    """One case on one device: built, its arguments in place."""

    case: Case
    resources: Resources | None
    fingerprint: str | None

    @property
    def inputs(self) -> Sequence[Array]:
        """The IN and INOUT buffers as they are before a launch, in argument order."""
        ...

    @property
    def outputs(self) -> Sequence[Array]:
        """The OUT and INOUT buffers as the last ``run`` left them, in argument order."""
        ...

    def run(self) -> None:
        """Fill the outputs with noise, restore all inputs, launch once, wait.

        Raises KernelFault when the launch fails, DeviceLost when an earlier one took the device with it.
        """
        ...

    def sample(self, plan: SamplingPlan, checker: SampleChecker | None = None) -> Samples:
        """Time launches until the plan is satisfied; only undisturbed samples are kept."""
        ...

    def energy(self, launch_us: float, loops: int) -> Energy | None:
        """The energy of a launch of about ``launch_us``, over so many loops; None where no counter has it."""
        ...


@dataclass(frozen=True, slots=True)
class TimedLaunch:
    """A launch that was timed: IN and INOUT buffers as it found them, OUT and INOUT buffers copied right after it.

    ``where`` describes which launch it was. Its inputs were drawn again, in memory that the kernel never
    saw.
    """

    case: Case
    where: str
    inputs: Sequence[Array]
    outputs: Sequence[Array]


class SampleChecker:
    """Draws what timed launches find in their buffers; one that checks the outputs of some overrides the rest.

    ``draw`` gives a whole number below its argument, which device code cannot know. ``second_clock`` is False where
    only events are to time.
    """

    def __init__(self, draw: Callable[[int], int], *, second_clock: bool = True) -> None:
        self.draw, self.second_clock = draw, second_clock

    def wanted(self, count: int, launch_us: float | None) -> int:  # noqa: ARG002  (this one checks none)
        """How many launches, each of this time, of a batch of ``count`` are to be checked; None: not known yet."""
        return 0

    def owed(self, launch_us: float) -> int:  # noqa: ARG002  (as above)
        """How many launches, each of this time, have to be checked in later batches."""
        return 0

    def check(self, launch: TimedLaunch) -> None:
        """Check a launch; raises what ends the sampling."""


class CallableLaunchable(Launchable, Protocol):
    """A case of a callable: what it is made of is not known, and its arrays are not ours."""

    resources: Resources | None = None
    fingerprint: str | None = None
    inputs: Sequence[Array] = ()
    outputs: Sequence[Array] = ()


class KernelLaunchable(Launchable, Protocol):
    """A case of a kernel."""

    def give(self, inputs: Sequence[Array]) -> None:
        """Let later runs start from these IN and INOUT buffers, in argument order; what follows is left alone."""
        ...

    def run(self, schedule: int = 0) -> None:
        """As every launchable's; ``schedule`` is the order of threads, where the device runs them in a chosen one."""
        ...


class Device(ABC):
    """A place to run cases; ``xp`` is its array module."""

    kind: DeviceKind
    slug: str
    scale: Scale
    xp: Any
    peaks: Peaks | None
    capability: tuple[int, int] | None
    gpus: tuple[int, ...] = ()
    """The CUDA indices of the GPUs that a case may use, the first for a case on one."""
    lost: str | None
    """Why it takes no more launches; None while it does."""
    rng: np.random.Generator
    """Draws what kernels cannot know: noise in their outputs, places in memory."""

    def __init__(self) -> None:
        self.draw_from(secrets.randbits(32))

    def draw_from(self, seed: int) -> None:
        """Let what is drawn follow from this seed."""
        self.rng = np.random.default_rng(seed)
        self.secret = self.draw(1 << 31)
        """Added to the seeds of what inputs are drawn from: no kernel can have been written for them."""

    def draw(self, end: int) -> int:
        """A whole number from 0 up and below ``end``, that no kernel can know."""
        return int(self.rng.integers(end))

    def open(self) -> None:  # noqa: B027  (the emulator has nothing to do here and in the others)
        """Take hold of the device; all but its facts and ``refusal`` needs it. RuntimeError where it cannot be had."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Everything of this device that a later comparison must know, as it goes into the run file."""

    def preflight(self) -> Preflight | None:
        """The device's state before a run; None where there is nothing to look at."""
        return None

    def disturbance(self, gpus: int = 1) -> str | None:  # noqa: ARG002
        """Why the newest samples of so many GPUs are doubtful: a foreign process, heat; None if they are not."""
        return None

    def compared(  # noqa: B027
        self, found: Array, wanted: Array, bound: ErrorBound, magnitude: Array | None
    ) -> Largest | None:
        """The largest differences of an output, in float64; None where this device has no quicker way than ``xp``."""

    @abstractmethod
    def memory_bytes(self) -> tuple[int, int] | None:
        """Free and total memory; None where it cannot be read."""

    @abstractmethod
    def refusal(self, case: Case) -> str | None:
        """Why this device cannot run the case; None when it can."""

    @abstractmethod
    def prebuild(
        self, cases: Sequence[Case], *, checked: bool = True, meanwhile: Callable[[Case], None] | None = None
    ) -> None:
        """Build what the cases need, in parallel, and where results are ``checked`` what their references need.

        As long as that takes, ``meanwhile`` may be called, once with each case whose kernel is built. Build errors are
        left to ``prepare``. Without references nothing of it is on the GPU.
        """

    @abstractmethod
    def prepare(self, case: Case) -> KernelLaunchable:
        """Build the case's kernel and put its arguments in place, data and all."""

    def prepare_other(self, beside: KernelLaunchable, fingerprint: str) -> KernelLaunchable:  # noqa: ARG002
        """Another build of a case's kernel, by its fingerprint, to be sampled in turns with the case ``beside`` it.

        Of the two this one is loaded then; ``exchange`` brings back the other. An operation of the device has no
        fingerprint, and is itself again.
        """
        raise PeakgateError(f"{beside.case.id}: {self.slug} compares no builds; measure on a GPU", Code.EMULATED)

    def exchange(self, leaving: KernelLaunchable, coming: KernelLaunchable) -> None:  # noqa: B027
        """Unload the machine code of one of two such builds and load that of the other, in its place.

        So both run from the same addresses, which decide how instructions meet in the caches: a kernel of 50 µs took
        5 % longer from others (an H200, docs/results/starts.md).
        """

    def warm_up(self) -> None:  # noqa: B027
        """Bring the device to the state in which it measures steadily."""

    def close(self) -> None:  # noqa: B027
        """Leave the device: nothing is measured on it afterwards."""


def failure(error: Exception, *, lost: bool = False) -> KernelFault | MemoryError:
    """A full GPU is no fault of the kernel: a spilling kernel's local memory may be what did not fit.

    ``lost`` says that the CUDA context takes no more launches: the kernel crashed.
    """
    message = str(error)
    if message.partition(":")[0] in OUT_OF_MEMORY:
        return MemoryError(message)
    return KernelCrash(message) if lost else KernelFault(message)


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a GPU at one moment: the processes on it by id, and why its clocks are reduced."""

    processes: frozenset[int] = frozenset()
    throttle_reasons: tuple[str, ...] = ()


def own_processes(before: Load, now: Load, pid: int) -> frozenset[int]:
    """This process as NVML names it, from the load before and after it made its CUDA context.

    In a container NVML may use the host's process ids, which ``pid`` is none of: then the process that appeared is
    this one, and where none appeared (the context was there before) all that are there are taken for it.
    """
    return frozenset({pid}) if pid in now.processes else now.processes - before.processes or now.processes


def disturbance(now: Load, own: frozenset[int]) -> str | None:
    """Why the newest samples are doubtful, in one line; None if they are not."""
    if foreign := now.processes - own:
        named = ", ".join(map(str, sorted(foreign)))
        return f"foreign process {named} was on this GPU while it was measured; see nvidia-smi and measure again"
    if slow := SLOWDOWNS & set(now.throttle_reasons):
        return f"{', '.join(sorted(slow))} while it was measured; see nvidia-smi -q -d PERFORMANCE and measure again"
    return None


@dataclass(frozen=True, slots=True)
class Preflight:
    """The state of a GPU before a run; None where the driver does not report it."""

    other_processes: int | None
    throttle_reasons: tuple[str, ...]
    power_limit_w: float | None
    default_power_limit_w: float | None
    temperature_c: int | None
    uncorrected_ecc_errors: int | None
    mig: bool | None


def reasons(bits: int) -> tuple[str, ...]:
    """The names of the reasons set in NVML's bit mask; an unknown bit is named by its value."""
    named = [name for bit, name in CLOCK_LIMITS.items() if bits & bit]
    unknown = bits & ~sum(CLOCK_LIMITS)
    return (*named, *((f"unknown reason {unknown:#x}",) if unknown else ()))


def concerns(seen: Preflight) -> list[str]:
    """One line for each thing that makes figures of this run doubtful; empty when there is none."""
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
            f"the power limit is {seen.power_limit_w:.0f} W, {seen.default_power_limit_w:.0f} W is this GPU's default"
        )
    if seen.temperature_c is not None and seen.temperature_c > HOT_C:
        found.append(f"the GPU is at {seen.temperature_c} °C, near slow-down; check its cooling")
    if seen.uncorrected_ecc_errors:
        found.append(
            f"{counted(seen.uncorrected_ecc_errors, 'uncorrected ECC error')} since boot; have the GPU checked"
        )
    if seen.mig:
        found.append("MIG is on: this run has a slice of the GPU, the peaks are those of the whole")
    return found
