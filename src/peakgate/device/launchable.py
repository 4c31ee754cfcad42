"""One case on the GPU: its function loaded, its arguments in device memory, launched and sampled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import cupy
import numpy as np

from peakgate.compile.cubin import Cubin, Resources
from peakgate.device import driver, elements, nvml, operations, tensor_maps
from peakgate.device.facts import NvmlFacts
from peakgate.device.interface import DeviceLost, KernelFault, TimedLaunch, Witness
from peakgate.device.state import DeclaredState, GpuMeter, measured_energy
from peakgate.device.stream import SampleStream
from peakgate.device.texel_objects import TexelObject
from peakgate.judge.peaks import Peaks
from peakgate.measure.energy import Energy
from peakgate.measure.refill import SEEDS, Contents, outputs_of, replayed
from peakgate.measure.sampling import Samples, SamplingPlan, gather, let_clock_recover
from peakgate.spec.arguments import TensorMapArgument, TexelBuffer, value_of
from peakgate.spec.case import Array, Buffer, Case, Role
from peakgate.spec.work import TENSOR_MATH

FAULTS = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
"""How CuPy reports what went wrong on the device."""

Draw = Callable[[int], int]
"""A whole number below its argument."""

GUARD_BYTES = 4096
"""As far as a block of 1024 threads misses by one float each."""

APART_BYTES = 256 << 20
"""Up to this size each launch of a batch has arrays of its own, so that nothing is queued between samples: kernels that
change contents there displace instructions of the one that is timed, worth 4 of 50 µs of an unrolled SGEMM of side 256.
So many bytes are 128 pages, whose addresses the GPU keeps translated."""

WHOLE_SHARE = 4
"""Inputs are drawn whole for each launch where a kernel takes so many times as long as writing them does. A kernel that
looks up what it kept reads its input, what it was and the result, and writes that: no faster one gains by it."""

COPIED_SHARE = 0.25
"""Of the free memory, for copies of large outputs that are compared after a batch."""

_LEAST_PEAK_GBS = 100.0
"""Of a GPU whose peak is not known."""


class LaunchDevice(Protocol):
    """The part of ``device.gpu.GpuDevice`` that a case uses."""

    guarded: bool
    lost: str | None
    peaks: Peaks | None
    facts: NvmlFacts

    @property
    def energy_meter(self) -> GpuMeter: ...

    def draw(self, end: int) -> int: ...

    def build(self, case: Case) -> Cubin: ...

    def functions(self, built: Cubin, case: Case, *, kept: bool = True) -> list[Any]: ...

    def input(self, buffer: Buffer, seed: int) -> Array: ...

    def constants(self, case: Case) -> list[Array]: ...

    def noise(self, dtype: str) -> Array: ...

    @property
    def guard_noise(self) -> np.ndarray[Any, Any]: ...

    def pools(self, case: Case) -> dict[int, Array]: ...

    def places(self, sizes_bytes: Sequence[int], draw: Callable[[int], int]) -> list[Array] | None: ...

    def sample_stream(self, batch: int) -> SampleStream: ...

    def faulted(self, case: Case, fault: Exception) -> KernelFault | MemoryError: ...


class GpuRefiller:
    """How arrays on a GPU are filled anew, in stream order."""

    fill = staticmethod(elements.refill)
    change = staticmethod(elements.change)
    empty_like = staticmethod(cupy.empty_like)

    @staticmethod
    def copy(target: Array, origin: Array) -> None:
        """Copy on the device."""
        target.data.copy_from_device_async(origin.data, target.nbytes, cupy.cuda.get_current_stream())


@dataclass(frozen=True, slots=True)
class Guard:
    """Noise behind an array, so that a write just past its end is seen even where it hits free memory.

    CUDA reports an access outside of its allocations only where nothing is mapped, and CuPy's pool maps more than it
    hands out. There is no guard in front: it would move the array off the boundary that an allocation begins on.
    ``position`` is the argument's, for the message; ``noise`` is what ``memory`` held.
    """

    position: int
    memory: Array
    noise: Array

    def damage(self) -> str | None:
        """A description of the bytes written past the end; None if there are none. Waits for the device."""
        hit = np.flatnonzero(cupy.asnumpy(self.memory) != self.noise)
        if not hit.size:
            return None
        return f"wrote past the end of argument {self.position}, at bytes {hit[0] + 1} to {hit[-1] + 1} behind it"


@dataclass(frozen=True, slots=True)
class ArraySet:
    """A case's arrays in one place, by argument position: what guards them, their contents, and a launch on them."""

    arrays: Mapping[int, Array]
    guards: Sequence[Guard]
    contents: Contents
    launch: Callable[[], None]


def _not_loaded() -> None:
    """The launch of a kernel whose code is not loaded."""
    raise AssertionError("the machine code of this case is not loaded")


class GpuLaunchable:
    """One case on the GPU: its function loaded, its arguments in device memory.

    ``other`` is a build that stands in for the case's own. It is sampled in turns with the launchable ``beside``, and
    where arrays and code are moves times: so the two have all in common but SCRATCH, whose contents are each kernel's
    own. ``whole`` holds whether inputs are drawn whole for each launch, decided for both at once.
    """

    def __init__(
        self,
        device: LaunchDevice,
        case: Case,
        *,
        other: Cubin | None = None,
        beside: GpuLaunchable | None = None,
    ) -> None:
        self.case = case
        self._device = device
        self.resources: Resources | None = None
        self.fingerprint: str | None = None
        self.waits_for_host = False
        self.whole: list[bool] = beside.whole if beside else [True]
        self.launch: Callable[[], None] = _not_loaded
        self._collect: Callable[[], None] | None = None
        self._buffers = {at: argument for at, argument in enumerate(case.arguments) if isinstance(argument, Buffer)}
        self._pristine = {
            at: device.input(buffer, at) for at, buffer in self._buffers.items() if buffer.role in (Role.IN, Role.INOUT)
        }
        common = {} if beside is None else {at: array for at, array in beside.arrays.items() if not self._scratch(at)}
        rooms = {at: cupy.empty(size, np.uint8) for at, size in self._sizes_bytes().items() if at not in common}
        placed, self.guards = self._placed(rooms, device.draw)
        self.arrays: dict[int, Array] = {at: common[at] if at in common else placed[at] for at in self._buffers}
        self.guards += [guard for guard in (beside.guards if beside else ()) if guard.position in common]
        for at, buffer in self._buffers.items():
            if buffer.role is Role.SCRATCH:
                self.arrays[at].fill(0)
        self._restore_inputs()
        self.objects: Mapping[int, TexelObject] = (
            beside.objects
            if beside
            else {
                at: TexelObject(buffer, self.arrays[at])
                for at, buffer in self._buffers.items()
                if isinstance(buffer, TexelBuffer)
            }
        )
        self._movable = self._loaded = True
        self._functions: list[Any] = []
        if case.stage.operation is not None:
            operation = operations.bind(case.stage.operation, list(self.arrays.values()))
            self.launch, self._collect = operation.launch, operation.collect
            self.waits_for_host, self._movable = operation.waits_for_host, operation.movable
        else:
            self._built = other or device.build(case)
            self.resources, self.fingerprint = self._built.resources, self._built.fingerprint
            if beside is None:
                self.load()

    def load(self, *, kept: bool = True) -> None:
        """Load its machine code, and bind it to its arrays; ``kept`` for other cases of the same code."""
        self._functions = self._device.functions(self._built, self.case, kept=kept)
        self._loaded = all(driver.load_function(function.ptr) for function in self._functions)
        self.launch = self._bind(self.arrays)

    def unload(self) -> None:
        """Free its machine code, where no other case has it; ``load`` brings it back."""
        self._functions, self.launch = [], _not_loaded

    def _scratch(self, position: int) -> bool:
        return self._buffers[position].role is Role.SCRATCH

    def _sizes_bytes(self) -> dict[int, int]:
        """Memory that each buffer takes, with the guard behind what a kernel may write."""
        guarded = self._device.guarded
        return {
            at: buffer.nbytes + (GUARD_BYTES if guarded and buffer.role is not Role.IN else 0)
            for at, buffer in self._buffers.items()
        }

    def _placed(
        self, rooms: Mapping[int, Array], draw: Draw, *, guarded: bool = True
    ) -> tuple[dict[int, Array], list[Guard]]:
        """The arrays of some buffers in memory that is given, by argument position, and fresh guards behind them."""
        arrays, guards = {}, []
        for at, room in rooms.items():
            nbytes, (shape, dtype) = self._buffers[at].nbytes, self._buffers[at].storage
            arrays[at] = cupy.ndarray(shape, dtype, room.data)
            behind = room[nbytes:]
            if behind.size and guarded:
                first = draw(self._device.guard_noise.size - behind.size)
                noise = self._device.guard_noise[first : first + behind.size]
                stream, kind = cupy.cuda.get_current_stream(), cupy.cuda.runtime.memcpyHostToDevice
                cupy.cuda.runtime.memcpyAsync(behind.data.ptr, noise.ctypes.data, noise.nbytes, kind, stream.ptr)
                guards.append(Guard(at, behind, noise))
        return arrays, guards

    def _bind(self, arrays: Mapping[int, Array]) -> Callable[[], None]:
        """A launch on these arrays, by argument position; tensor maps are those of their places."""
        if self.case.stage.operation is not None:
            return operations.bind(self.case.stage.operation, list(arrays.values())).launch
        handles = {position: each.handle for position, each in self.objects.items()}
        given = {**arrays, **handles}
        values = [
            given[position]
            if isinstance(argument, Buffer)
            else tensor_maps.encoded(argument, self._buffers[argument.of], arrays[argument.of].data.ptr)
            if isinstance(argument, TensorMapArgument)
            else value_of(argument)
            for position, argument in enumerate(self.case.arguments)
        ]
        launches = [
            (function, each.launch.grid, each.launch.block, tuple(values[at] for at in each.takes), each.launch)
            for function, each in zip(self._functions, self.case.launches, strict=True)
        ]
        (function, grid, block, arguments, first), *later = launches
        shared, together = first.shared_bytes, self.case.stage.cooperative

        def launch() -> None:
            function(grid, block, arguments, shared, None, together)

        def launch_all() -> None:
            launch()
            for further, its_grid, its_block, its_arguments, shape in later:
                further(its_grid, its_block, its_arguments, shape.shared_bytes, None, together)

        return launch_all if later else launch

    @property
    def inputs(self) -> Sequence[Array]:
        return [*self._pristine.values(), *self._device.constants(self.case)]

    @property
    def outputs(self) -> Sequence[Array]:
        return outputs_of(self._buffers, self.arrays)

    def give(self, inputs: Sequence[Array]) -> None:
        self._pristine = dict(zip(self._pristine, inputs, strict=False))

    def run(self, schedule: int = 0) -> None:  # noqa: ARG002  (a GPU has an order of its own)
        if self._device.lost:
            raise DeviceLost(self._device.lost)
        try:
            self._restore_inputs()
            written = {at: each for at, each in self._buffers.items() if each.role in (Role.OUT, Role.TEMP)}
            elements.refill(
                [
                    (self.arrays[at], self._device.noise(buffer.dtype), self._device.draw(SEEDS))
                    for at, buffer in written.items()
                ]
            )
            self._fill_texels()
            self.launch()
            self._read_texels()
            cupy.cuda.get_current_stream().synchronize()
            if self._collect:
                self._collect()
            self._refuse_damage(self.guards)
        except FAULTS as fault:
            raise self._device.faulted(self.case, fault) from None

    def _restore_inputs(self) -> None:
        for at, pristine in self._pristine.items():
            GpuRefiller.copy(self.arrays[at], pristine)

    @staticmethod
    def _refuse_damage(guards: Sequence[Guard]) -> None:
        if outside := next((found for guard in guards if (found := guard.damage())), None):
            raise KernelFault(outside)

    def sample(self, plan: SamplingPlan, witness: Witness | None = None) -> Samples:
        """Time launches, each on contents of its own; the witness is given those of each batch that it wants."""
        stream, highest_mhz = self._device.sample_stream(plan.batch), self._device.facts.sm_clock_max_mhz
        hold = not self.waits_for_host
        watched = witness or Witness(self._device.draw)
        state = DeclaredState(self.case, footprint_bytes=self.case.buffer_bytes)
        sets = [ArraySet(self.arrays, self.guards, self._contents(watched.draw), self.launch)]
        launch_us: float | None = None

        def change() -> None:
            sets[0].contents.next(whole=self.whole[0])
            self._fill_texels()

        def batch(index: int, count: int) -> Sequence[tuple[float, float | None]]:
            nonlocal sets, launch_us
            if self._movable:
                sets = self._moved(1 if self.case.repeated else count + 1, watched.draw) or sets
                for each in sets:
                    each.contents.begin(each.arrays)
            before = change if self._movable and len(sets) == 1 else None
            *timed, warm = sets if len(sets) > 1 else sets * (count + 1)
            warmups = max(plan.warmup, not self._loaded) if index == 0 else int(warm.arrays is not self.arrays)
            for _ in range(warmups):  # they fill the page tables' caches for the new place
                if before:
                    before()
                warm.launch()
            chosen = self._chosen(watched, count, launch_us) if self._movable else []
            copies = {at: list(map(cupy.empty_like, self._outputs(timed[at]))) for at in chosen}
            launches = iter(timed)
            ready = state.ready(sets[0].launch) if self.case.repeated else lambda: next(launches).launch()

            def after(at: int) -> None:
                if at in copies:
                    self._read_texels()
                    for kept, output in zip(copies[at], self._outputs(timed[at]), strict=True):
                        GpuRefiller.copy(kept, output)

            taken = state.batch(stream, ready, count, hold=hold, change=before, after=after)
            launch_us = min(time_us for time_us, _ in taken)
            self.whole[0] &= sets[0].contents.input_bytes * WHOLE_SHARE <= self._bytes_in(launch_us)
            for each in sets:
                self._refuse_damage(each.guards)
            for at in chosen:
                given = timed[at].contents.given(warmups + at if before else -1)
                where = f"timed launch {at + 1} of batch {index + 1}"
                inputs = [*given, *self._device.constants(self.case)]
                watched.judge(TimedLaunch(self.case, where, inputs, copies.pop(at)))
            return taken

        try:
            state.begin(stream, self.launch, plan.batch, hold=hold)
            samples = gather(
                plan,
                highest_mhz,
                batch,
                lambda: state.method(self._method(stream, sets)),
                stream.control if hold and not state.captures else None,
                power=self._power_meter,
                rest=let_clock_recover,
                owed=watched.owed,
            )
            if hold and witness is not None and witness.second_clock and not self.case.repeated:
                samples = stream.with_second_clock(samples, sets[0].launch, plan.batch)
            memory_gbs = self._device.peaks.memory_gbs if self._device.peaks else None
            return state.shown(samples, self._device.facts.l2_bytes, memory_gbs)
        except FAULTS as fault:
            raise self._device.faulted(self.case, fault) from None

    def _chosen(self, watched: Witness, count: int, launch_us: float | None) -> Sequence[int]:
        """The launches of a batch that are compared, as many of those wanted as a share of the memory holds copies."""
        wanted = watched.wanted(count, launch_us)
        copied_bytes = sum(output.nbytes for output in self._outputs(self))
        room = cupy.cuda.runtime.memGetInfo()[0] if wanted > 1 and copied_bytes > APART_BYTES else math.inf
        places = list(range(count))
        fitting = min(wanted, max(1, int(min(COPIED_SHARE * room / max(copied_bytes, 1), count))))
        return [places.pop(watched.draw(len(places))) for _ in range(fitting if wanted else 0)]

    def energy(self, launch_us: float, loops: int) -> Energy | None:
        """The energy of a launch, over loops of launches on the arrays as they are."""
        try:
            return measured_energy(
                self._device.energy_meter, self.launch, launch_us, loops, by_torch=False, waits=self.waits_for_host
            )
        except FAULTS as fault:
            raise self._device.faulted(self.case, fault) from None

    def _method(self, stream: SampleStream, sets: Sequence[ArraySet]) -> str:
        """How samples were taken, for the run file."""
        said = stream.method(held=not self.waits_for_host, moved=sets[0].arrays is not self.arrays)
        said += ", textures and surfaces where they are" if self.objects else ""
        return said + (f", {replayed(sets[0].contents)}" if self._movable else "")

    def _outputs(self, of: ArraySet | GpuLaunchable) -> Sequence[Array]:
        return outputs_of(self._buffers, of.arrays)

    def _moved(self, launches: int, draw: Draw) -> list[ArraySet] | None:
        """Arrays somewhere else in memory: for each of so many launches, or where they are large for all of them.

        None where even one set would be too large to be moved. Textures and surfaces stay, and SCRATCH is the
        same for all launches. Where there are several sets one is guarded, which no kernel knows.
        """
        sizes = {at: size for at, size in self._sizes_bytes().items() if at not in self.objects}
        once = {at: size for at, size in sizes.items() if self._scratch(at)}
        own = {at: size for at, size in sizes.items() if at not in once}
        apart = launches * sum(own.values()) + sum(once.values()) <= APART_BYTES and not self.objects
        count = launches if apart else 1
        places = self._device.places([*once.values(), *(list(own.values()) * count)], draw) if sizes else None
        if places is None:
            return None
        shared = dict(zip(once, places, strict=False))
        found: list[ArraySet] = []
        guarded = draw(count)
        for index in range(count):
            first = len(once) + index * len(own)
            rooms = dict(zip(own, places[first : first + len(own)], strict=True)) | ({} if index else shared)
            arrays, guards = self._placed(rooms, draw, guarded=index == guarded)
            arrays = {at: arrays.get(at, found[0].arrays[at] if found else array) for at, array in self.arrays.items()}
            guards += [guard for guard in self.guards if guard.position in self.objects]
            found.append(ArraySet(arrays, guards, self._contents(draw), self._bind(arrays)))
        return found

    @cached_property
    def _pools(self) -> dict[int, Array]:
        return self._device.pools(self.case)

    @cached_property
    def _power_meter(self) -> nvml.PowerMeter | None:
        return nvml.PowerMeter(self._device.facts.index) if self.case.math in TENSOR_MATH else None

    def _contents(self, draw: Draw) -> Contents:
        return Contents(GpuRefiller(), self._buffers, self._pools, self._pristine, draw)

    def _fill_texels(self) -> None:
        for texels in self.objects.values():
            texels.fill()

    def _read_texels(self) -> None:
        for texels in self.objects.values():
            texels.read_back()

    def _bytes_in(self, time_us: float) -> float:
        """The bytes that device memory transfers in that time at its peak bandwidth."""
        return time_us * 1e3 * (self._device.peaks.memory_gbs if self._device.peaks else _LEAST_PEAK_GBS)
