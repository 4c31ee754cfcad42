"""The CPU device: runs kernels in the emulator, with its checks, on small problems. It proves results, not speed."""

from __future__ import annotations

import math
import os
import platform
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

import peakgate_emulator as emulator
from peakgate.base import config, progress
from peakgate.base.emulated import find_compiler, translated
from peakgate.base.errors import BuildError, Code, PeakgateError
from peakgate.device.interface import (
    Device,
    DeviceKind,
    KernelCrash,
    KernelFault,
    KernelTimeout,
    SampleChecker,
    TimedLaunch,
    refuse_changed_inputs,
)
from peakgate.measure import refill
from peakgate.measure.data import input_array
from peakgate.measure.limits import emulated_launch_us, processor_limit_s
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.spec import dtypes
from peakgate.spec.arguments import BufferAddress, Struct, Surface, TensorMapArgument, TexelBuffer, value_of
from peakgate.spec.case import Array, Buffer, Case, Role, Scale, Stage
from peakgate.spec.recorded import EMULATOR_SLUG, Energy
from peakgate_emulator.defects import DefectKind, Trace
from peakgate_emulator.errors import ArgumentsError

if TYPE_CHECKING:  # of a GPU
    from peakgate.judge.metrics import Peaks
    from peakgate.judge.occupancy import Resources

METHOD = "wall time of one emulated launch, checked"
_SAMPLES = 3


def not_emulated(case: Case) -> str | None:
    """Why the emulator cannot run a case; None if it can."""
    blocks = math.prod(case.launch.grid)
    if case.stage.cooperative and blocks * case.launch.threads_per_block > emulator.MAX_COOPERATIVE_THREADS:
        return (
            f"GPU only: a cooperative launch of {blocks * case.launch.threads_per_block} threads, the emulator runs "
            f"{emulator.MAX_COOPERATIVE_THREADS} at once"
        )
    return None


def _matrix_product(arguments: Sequence[Array]) -> None:
    product, left, right = arguments[:3]
    np.matmul(left, right, out=product)


def _product_nt(arguments: Sequence[Array], *, of: str) -> None:
    left, right = (dtypes.decoded(np, each, of) for each in arguments[1:3])
    np.copyto(arguments[0], dtypes.encoded(np, left @ right.T, "bfloat16"))


def _copy(arguments: Sequence[Array]) -> None:
    np.copyto(arguments[0], arguments[1])


# NumPy equivalents of library calls, so that their cases run without a GPU.
_OPERATIONS: dict[str, Callable[[Sequence[Array]], None]] = {
    "memcpy": _copy,
    "h2d_pageable": _copy,
    "h2d_pinned": _copy,
    "d2h_pageable": _copy,
    "d2h_pinned": _copy,
    "cublas_sgemm": _matrix_product,
    "cublas_bf16_nt": partial(_product_nt, of="bfloat16"),
    "cublaslt_e4m3_nt": partial(_product_nt, of="float8_e4m3fn"),
}


def _first_difference(one: Array, other: Array) -> int | None:
    words = "uint64" if one.nbytes % 8 == 0 else "uint8"
    changed = one.reshape(-1).view(words) != other.reshape(-1).view(words)
    return int(changed.argmax()) * np.dtype(words).itemsize if changed.any() else None


def _build_options(stage: Stage) -> emulator.BuildOptions:
    return {
        "include": stage.include,
        "options": stage.options,
        "capability": max(emulator.DEFAULT_CAPABILITY, stage.min_capability),
        "specific": stage.specific,
        "limit_s": config.current().compile_timeout_s,
        "folder": config.here(),
    }


def seen_texels(argument: TexelBuffer) -> emulator.TexelView:
    """The emulator's view of a texture or surface."""
    how, extent = argument.seen_as, argument.texels
    size = {name: getattr(extent, name) for name in ("width", "height", "depth", "layers", "dimensions")}
    if isinstance(how, Surface):
        return emulator.TexelView(argument.shape, **size, channels=how.channels, is_surface=True)
    return emulator.TexelView(
        argument.shape,
        **size,
        channels=how.channels,
        address=how.address,
        linear=how.linear,
        normalized_coordinates=how.normalized_coords,
        normalized_values=how.normalized_read,
        linear_memory=how.linear_memory,
    )


def seen_tiles(argument: TensorMapArgument, array: Array, dtype: str) -> emulator.TileView:
    """The emulator's view of a tensor map; raises PeakgateError if CUDA does not support it."""
    if objection := argument.objection(array.shape, dtype):
        raise PeakgateError(f"a tensor map given {objection}", Code.ARGUMENTS)
    extents, strides = argument.seen(array.shape, dtype)
    return emulator.TileView(extents, strides, argument.box, argument.swizzle)


def _objection_to(options: Sequence[str], source: Path) -> str | None:
    if not options:
        return None
    from peakgate.compile.compilers import objection_to  # noqa: PLC0415  (few kernels have options)

    return objection_to(options, source)


@translated()
def load(
    source: Path, kernel: str, defines: tuple[tuple[str, str], ...] = (), **build: Unpack[emulator.BuildOptions]
) -> emulator.EmulatedKernel:
    """The emulator's ``load`` with NVRTC's options only; raises BuildError if a kernel does not compile."""
    if objection := _objection_to(build.get("options", ()), source):
        raise BuildError(objection)
    return emulator.load(source, kernel, defines, **build)


# Defects that would end the launch, or destroy the context, on a GPU; a kernel with another defect is wrong.
_FAILURES: dict[DefectKind, type[KernelFault]] = {
    DefectKind.ENDLESS_LOOP: KernelTimeout,
    DefectKind.FAULT: KernelCrash,
    DefectKind.LAUNCH_REFUSED: KernelCrash,
    DefectKind.ASSERTION: KernelCrash,
}


def fault_of(defect: emulator.KernelDefect) -> KernelFault:
    """The fault of a launch in which the emulator found this defect; raise it from the defect."""
    return _FAILURES.get(defect.kind, KernelFault)(str(defect))


@cache
def _noise(dtype: str) -> Array:
    return refill.noise(np, dtype, secrets.randbelow(refill.SEEDS))


def _addresses(struct: Struct) -> dict[int, tuple[str, int]]:
    """The names and buffers of a struct's pointers, by byte offset."""
    found = struct.pointers().items()
    return {offset: (name, target.of) for offset, (name, target) in found if isinstance(target, BufferAddress)}


class CpuLaunchable:
    """One case in the emulator: its shared object loaded, its arguments in host memory.

    ``access_budget`` limits the memory accesses of a launch: one that needs more counts as an endless loop. The
    project's settings limit its processor time. ``nonfinite`` reports NaN and infinity that the kernel writes.
    ``trace``, if set, receives the shared memory accesses of one block of the last launch. ``load`` is the emulator's,
    or a cached one if sources do not change.
    """

    resources: tuple[Resources, ...] = ()
    fingerprint: str | None = None

    def __init__(
        self,
        case: Case,
        access_budget: int | None = None,
        *,
        draw: Callable[[int], int] | None = None,
        secret: int = 0,
        nonfinite: bool = False,
        load: Callable[..., emulator.EmulatedKernel] = load,
    ) -> None:
        self.case = case
        self._nonfinite = nonfinite
        self.trace: Trace | None = None
        self._access_budget = access_budget
        self._timeout_s = config.current().emulation_timeout_s
        self._secret = secret
        self._draw = draw or secrets.randbelow
        self._values: list[Any] = []
        self._pristine: dict[int, Array] = {}
        for position, argument in enumerate(case.arguments):
            if isinstance(argument, TensorMapArgument):
                self._values.append(None)
            elif not isinstance(argument, Buffer):
                self._values.append(value_of(argument))
            elif argument.role in (Role.OUT, Role.SCRATCH, Role.TEMP):
                self._values.append(np.zeros(*argument.storage))
            else:
                self._pristine[position] = input_array(np, argument, position)
                self._values.append(self._pristine[position].copy())
        stage = case.stage
        self._constants = {
            name: input_array(np, buffer, len(case.arguments) + at) for at, (name, buffer) in enumerate(stage.constants)
        }
        self._kernels = {
            kernel: load(stage.source, kernel, case.defines, **_build_options(stage))
            for kernel in stage.kernels
            if stage.source is not None
        }

    @property
    def inputs(self) -> Sequence[Array]:
        return [*self._pristine.values(), *self._constants.values()]

    @property
    def outputs(self) -> Sequence[Array]:
        return [self._values[at] for at, buffer in self._buffers() if buffer.role in (Role.OUT, Role.INOUT)]

    def _buffers(self) -> list[tuple[int, Buffer]]:
        return [(at, argument) for at, argument in enumerate(self.case.arguments) if isinstance(argument, Buffer)]

    def run(self, schedule: int = 0) -> None:
        """As in ``Launchable``; ``schedule`` is the order in which the emulator runs the threads of a block."""
        for position, buffer in self._buffers():
            if buffer.role in (Role.OUT, Role.TEMP):
                refill.fill(self._values[position], _noise(buffer.dtype), self._draw(refill.SEEDS))
            elif position in self._pristine:
                np.copyto(self._values[position], self._pristine[position])
        self.launch(schedule)
        refuse_changed_inputs(self.case, self._pristine, self._values, _first_difference)

    def give(self, inputs: Sequence[Array]) -> None:
        self._pristine = dict(zip(self._pristine, inputs, strict=False))

    @translated()
    def launch(self, schedule: int = 0) -> None:
        """Run the case's launches on the arguments as they are.

        Raises KernelFault with the first defect that the emulator finds, as its cause; LaunchNotEnded at a time limit.
        """
        if not self._kernels:
            operation = _OPERATIONS.get(self.case.stage.operation or "")
            if operation is None:
                known = ", ".join(_OPERATIONS)
                raise PeakgateError(
                    f"{self.case.id}: no operation is named {self.case.stage.operation!r}; expected one of {known}",
                    Code.OPERATION,
                )
            operation(self._values)
            return
        taken = Counter(at for each in self.case.launches for at in {*self._arrays(each.takes).values()})
        buffers = dict(self._buffers()) if self._nonfinite else {}
        # An output of several launches may be written by either; the noise reveals elements that neither wrote.
        outputs = {at for at, buffer in self._buffers() if buffer.role is Role.OUT and taken[at] == 1}
        try:
            for each in self.case.launches:
                arrays = self._arrays(each.takes)
                self._kernels[each.kernel].launch(
                    each.launch.grid,
                    each.launch.block,
                    [self._given(at) for at in each.takes],
                    shared_bytes=each.launch.shared_bytes,
                    schedule=schedule,
                    access_budget=self._access_budget,
                    limit_s=processor_limit_s(each.launch, self._timeout_s),
                    constants=self._constants,
                    cooperative=self.case.stage.cooperative,
                    nonfinite={place: buffers[at].dtype for place, at in arrays.items() if at in buffers},
                    trace=self.trace,
                    outputs=[place for place, at in arrays.items() if at in outputs],
                )
        except emulator.KernelDefect as defect:
            raise fault_of(defect) from defect
        except ArgumentsError as error:
            if error.value_type is None:
                raise
            message = f'{error.message}; give its type, as in Value(..., "{error.value_type}")'
            raise PeakgateError(message, Code.ARGUMENTS) from error

    def _arrays(self, takes: Sequence[int]) -> dict[emulator.Place, int]:
        """The positions of a launch's arrays in the case, by their places among its arguments."""
        found: dict[emulator.Place, int] = {}
        for place, at in enumerate(takes):
            argument = self.case.arguments[at]
            if isinstance(argument, Struct):
                found |= {(place, offset): of for offset, (_, of) in _addresses(argument).items()}
            else:
                found[place] = argument.of if isinstance(argument, TensorMapArgument) else at
        return found

    def _given(self, position: int) -> emulator.GivenArgument:
        argument, value = self.case.arguments[position], self._values[position]
        if isinstance(argument, TensorMapArgument):
            buffer, array = self.case.arguments[argument.of], self._of_role(argument.of)
            assert isinstance(buffer, Buffer)
            return emulator.TileArray(array, seen_tiles(argument, array, buffer.dtype))
        if isinstance(argument, Struct) and (pointers := _addresses(argument)):
            targets = {offset: self._of_role(of) for offset, (_, of) in pointers.items()}
            return emulator.Pointing(value, targets, {offset: name for offset, (name, _) in pointers.items()})
        return emulator.TexelArray(value, seen_texels(argument)) if isinstance(argument, TexelBuffer) else value

    def _of_role(self, position: int) -> Array:
        """An array that a kernel reaches through an address in another argument: read-only if it is an input."""
        array = self._values[position].view()
        array.flags.writeable = getattr(self.case.arguments[position], "role", None) is not Role.IN
        return array

    def sample(self, plan: SamplingPlan, checker: SampleChecker | None = None) -> Samples:
        """Take a few wall times, which are not judged; of ``plan`` only ``min_samples`` applies.

        Each launch has its own buffer contents, as on a GPU, and is passed to the checker.
        """
        draw, buffers = checker.draw if checker else self._draw, dict(self._buffers())
        arrays = {at: self._values[at] for at in buffers}
        pools = refill.pools(self.case, _noise, lambda pool, at: input_array(np, pool, at + self._secret))
        contents = refill.Contents(refill.HostRefiller(), buffers, pools, self._pristine, draw)
        contents.begin(arrays)
        least = min(_SAMPLES, plan.min_samples)
        times_us: list[float] = []
        launch_us = emulated_launch_us(self.case.work)  # not the measured time, so that equal seeds give equal runs
        while len(times_us) < least or (checker and checker.owed(launch_us)):
            contents.next()
            start = time.perf_counter()
            self.launch()
            times_us.append((time.perf_counter() - start) * 1e6)
            if checker is None:
                continue
            for place in checker.chosen(1, launch_us).values():
                given = [*contents.given(len(times_us) - 1), *self._constants.values()]
                copies = [output.copy() for output in self.outputs]
                where = f"timed launch {len(times_us)}"
                checker.kept[place] = partial(TimedLaunch, self.case, where, given, copies)
        if checker:
            checker.check_kept(launch_us)
        return Samples(tuple(times_us), (None,) * len(times_us), 0, f"{METHOD}, {refill.replayed(contents)}")

    def energy(self, launch_us: float, loops: int) -> Energy | None:  # noqa: ARG002  (the emulator has no counter)
        """Return None: energy is measured on a GPU only."""
        return None


class CpuDevice(Device):
    """The emulator; ``xp`` is NumPy. No peak is claimed for it."""

    kind: DeviceKind = "cpu"
    slug = EMULATOR_SLUG
    scale = Scale.SMALL
    xp: Any = np
    peaks: Peaks | None = None
    capability: tuple[int, int] | None = None
    lost: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.compiler = find_compiler()
        self._load = cache(load)  # sources do not change during a run

    def describe(self) -> dict[str, Any]:
        return {
            "name": f"CPU emulator on {platform.machine()}",
            "slug": self.slug,
            "uuid": None,
            "compute_capability": None,
            "driver": None,
            "compiler": f"{self.compiler.name} {self.compiler.version}",
        }

    def memory_bytes(self) -> tuple[int, int] | None:
        pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page_bytes, pages * page_bytes

    def refusal(self, case: Case) -> str | None:
        return not_emulated(case)

    @translated()
    def prebuild(
        self,
        cases: Sequence[Case],
        *,
        checked: bool = True,  # noqa: ARG002  (NumPy's references need no build)
        meanwhile: Callable[[Case], None] | None = None,  # noqa: ARG002  (all processors compile)
    ) -> None:
        alike: dict[tuple[object, ...], list[Case]] = {}
        for case in cases:
            stage = case.stage
            if stage.source is not None and not _objection_to(stage.options, stage.source):
                alike.setdefault(tuple(_build_options(stage).values()), []).append(case)
        wanted = [
            {
                (case.stage.source, kernel, case.defines)
                for case in group
                if case.stage.source is not None
                for kernel in case.stage.kernels
            }
            for group in alike.values()
        ]
        progress.step("building the kernels", sum(map(len, wanted)), "build")
        for builds, group in zip(wanted, alike.values(), strict=True):
            emulator.prebuild(builds, progress.advance, **_build_options(group[0].stage))

    def prepare(self, case: Case) -> CpuLaunchable:
        return CpuLaunchable(case, draw=self.draw, secret=self.secret, load=self._load)
