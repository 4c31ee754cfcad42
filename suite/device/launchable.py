"""One case on the GPU: its function loaded, its arguments in device memory, launched and sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import cupy
import numpy as np
from peakgate.build.cubin import Cubin, Resources
from peakgate.case import Array, Buffer, Case, Role, value_of
from peakgate.device import operations
from peakgate.device.facts import NvmlFacts
from peakgate.device.interface import POISON, DeviceLost, KernelFault
from peakgate.device.stream import SampleStream
from peakgate.device.texel_objects import TexelObject
from peakgate.measure.sampling import Samples, SamplingPlan, gather
from peakgate.texels import TexelBuffer

FAULTS = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
"""How CuPy reports what went wrong on the device."""

GUARD_BYTES = 4096
"""As far as a block of 1024 threads misses by one float each."""

_FILL = 0xA5


class LaunchDevice(Protocol):
    """What a case needs of the GPU that it is launched on (``device.gpu.GpuDevice``)."""

    guarded: bool
    lost: str | None
    facts: NvmlFacts

    def build(self, case: Case) -> Cubin: ...

    def functions(self, built: Cubin, case: Case) -> list[Any]: ...

    def input(self, buffer: Buffer, seed: int) -> Array: ...

    def constants(self, case: Case) -> list[Array]: ...

    def places(self, buffers: Sequence[Buffer]) -> list[Array] | None: ...

    def sample_stream(self, batch: int) -> SampleStream: ...

    def faulted(self, case: Case, fault: Exception) -> KernelFault | MemoryError: ...


@dataclass(frozen=True, slots=True)
class GuardedArray:
    """A buffer's array and a guard behind it, so that a write just past the end is seen even where it hits free memory.

    CUDA reports an access outside of its allocations only where nothing is mapped, and CuPy's pool maps more than it
    hands out. There is no guard in front: it would move the array off the boundary that an allocation begins on.
    ``position`` is the argument's, for the message.
    """

    position: int
    array: Array
    guard: Array

    def damage(self) -> str | None:
        """What a kernel wrote past the end, in words; None when it kept to the array. Waits for the device."""
        hit = np.flatnonzero(cupy.asnumpy(self.guard) != _FILL)
        if not hit.size:
            return None
        return f"wrote past the end of argument {self.position}, at bytes {hit[0] + 1} to {hit[-1] + 1} behind it"


def _guarded_array(position: int, buffer: Buffer) -> GuardedArray:
    """An uninitialized array for the buffer with an untouched guard behind it."""
    memory = cupy.empty(buffer.nbytes + GUARD_BYTES, np.uint8)
    inside, guard = memory[: buffer.nbytes], memory[buffer.nbytes :]
    guard.fill(_FILL)
    shape, dtype = buffer.storage
    return GuardedArray(position, inside.view(dtype).reshape(shape), guard)


class GpuLaunchable:
    """One case on the GPU: its function loaded, its arguments in device memory."""

    def __init__(self, device: LaunchDevice, case: Case, seed: int = 0) -> None:
        self.case = case
        self._seed = seed
        self._device = device
        self.resources: Resources | None = None
        self.fingerprint: str | None = None
        self.waits_for_host = False
        self._collect: Callable[[], None] | None = None
        self._pristine: dict[int, Array] = {}
        self._arrays: dict[int, Array] = {}
        self._guarded: list[GuardedArray] = []
        self._objects: dict[int, TexelObject] = {}
        for position, argument in enumerate(case.arguments):
            if isinstance(argument, Buffer):
                self._place(position, argument)
            if isinstance(argument, TexelBuffer):
                self._objects[position] = TexelObject(argument, self._arrays[position])
        self._movable = True
        self._functions: list[Any] = []
        self.poison = POISON
        if case.stage.operation is not None:
            operation = operations.bind(case.stage.operation, list(self._arrays.values()))
            self.launch, self._collect = operation.launch, operation.collect
            self.waits_for_host, self._movable = operation.waits_for_host, operation.movable
        else:
            built = device.build(case)
            self.resources, self.fingerprint = built.resources, built.fingerprint
            self._functions = device.functions(built, case)
            self.launch = self._bind(self._arrays)

    def _place(self, position: int, buffer: Buffer) -> None:
        match buffer.role:
            case Role.IN:
                self._arrays[position] = self._device.input(buffer, position + self._seed)
            case Role.INOUT:
                self._pristine[position] = self._device.input(buffer, position + self._seed)
                self._arrays[position] = self._writable(position, buffer)
                cupy.copyto(self._arrays[position], self._pristine[position])
            case Role.OUT | Role.TEMP:
                self._arrays[position] = self._writable(position, buffer)
            case Role.SCRATCH:
                self._arrays[position] = self._writable(position, buffer)
                self._arrays[position].fill(0)

    def _writable(self, position: int, buffer: Buffer) -> Array:
        if not self._device.guarded:
            return cupy.empty(*buffer.storage)
        self._guarded.append(_guarded_array(position, buffer))
        return self._guarded[-1].array

    def _bind(self, arrays: Mapping[int, Array]) -> Callable[[], None]:
        """A launch on these arrays, by argument position."""
        if self.case.stage.operation is not None:
            return operations.bind(self.case.stage.operation, list(arrays.values())).launch
        handles = {position: each.handle for position, each in self._objects.items()}
        given = {**arrays, **handles}
        values = [
            given[position] if isinstance(argument, Buffer) else value_of(argument)
            for position, argument in enumerate(self.case.arguments)
        ]
        launches = [
            (function, each.launch.grid, each.launch.block, tuple(values[at] for at in each.takes), each.launch)
            for function, each in zip(self._functions, self.case.launches, strict=True)
        ]
        (function, grid, block, arguments, first), *later = launches
        shared = first.shared_bytes

        def launch() -> None:
            function(grid, block, arguments, shared_mem=shared)

        def launch_all() -> None:
            launch()
            for further, its_grid, its_block, its_arguments, shape in later:
                further(its_grid, its_block, its_arguments, shared_mem=shape.shared_bytes)

        return launch_all if later else launch

    @property
    def inputs(self) -> Sequence[Array]:
        return [
            self._pristine.get(position, self._arrays[position])
            for position, buffer in self._buffers()
            if buffer.role in (Role.IN, Role.INOUT)
        ] + self._device.constants(self.case)

    @property
    def outputs(self) -> Sequence[Array]:
        return [self._arrays[position] for position, buffer in self._buffers() if buffer.role in (Role.OUT, Role.INOUT)]

    def _buffers(self) -> list[tuple[int, Buffer]]:
        return [(at, argument) for at, argument in enumerate(self.case.arguments) if isinstance(argument, Buffer)]

    def run(self, schedule: int = 0) -> None:  # noqa: ARG002  (a GPU has an order of its own)
        if self._device.lost:
            raise DeviceLost(self._device.lost)
        try:
            self._poison()
            for texels in self._objects.values():
                texels.fill()
            self.launch()
            for texels in self._objects.values():
                texels.read_back()
            cupy.cuda.get_current_stream().synchronize()
            if self._collect:
                self._collect()
            outside = next((found for guarded in self._guarded if (found := guarded.damage())), None)
        except FAULTS as fault:
            raise self._device.faulted(self.case, fault) from None
        if outside is not None:
            raise KernelFault(outside)

    def _poison(self) -> None:
        for position, buffer in self._buffers():
            if buffer.role in (Role.OUT, Role.TEMP):
                self._arrays[position].view(np.uint8).fill(self.poison)
            elif buffer.role is Role.INOUT:
                cupy.copyto(self._arrays[position], self._pristine[position])

    def sample(self, plan: SamplingPlan) -> Samples:
        stream, highest_mhz = self._device.sample_stream(plan.batch), self._device.facts.sm_clock_max_mhz
        hold = not self.waits_for_host
        launch = self.launch
        unmoved = ", textures and surfaces where they are" if self._objects else ""

        def batch(index: int) -> Sequence[tuple[float, float | None]]:
            nonlocal launch
            moved = self._moved()
            if moved or index == 0:
                launch = moved or self.launch
                for _ in range(plan.warmup if index == 0 else 1):
                    launch()  # loads the code, and fills the page tables' caches for the new place
            return stream.batch(launch, plan.batch, hold=hold)

        try:
            return gather(
                plan,
                highest_mhz,
                batch,
                lambda: stream.method(held=hold, moved=launch is not self.launch) + unmoved,
                stream.control if hold else None,
            )
        except FAULTS as fault:
            raise self._device.faulted(self.case, fault) from None

    def _moved(self) -> Callable[[], None] | None:
        """The same launch on the same data elsewhere in memory; None where it stays where it is.

        Textures and surfaces stay.
        """
        moving = [(position, buffer) for position, buffer in self._buffers() if position not in self._objects]
        places = self._device.places([buffer for _, buffer in moving]) if self._movable and moving else None
        if places is None:
            return None
        arrays = dict(self._arrays)
        for (position, buffer), array in zip(moving, places, strict=True):
            arrays[position] = array
            if buffer.role in (Role.IN, Role.INOUT):
                origin: Array = self._pristine.get(position, self._arrays[position])
                array.data.copy_from_device_async(origin.data, array.nbytes, cupy.cuda.get_current_stream())
            elif buffer.role is Role.SCRATCH:
                array.fill(0)
        return self._bind(arrays)
