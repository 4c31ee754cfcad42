"""The GPU device: cubins loaded and launched by CuPy, timed by CUDA events."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np

from suite.build import BuildError, Cubin, Resources, cubin
from suite.case import Array, Buffer, Case, Role, Scalar, Scale
from suite.data import random_array
from suite.device import facts, operations
from suite.device.interface import DeviceKind, DeviceLost, KernelFault
from suite.device.stream import SampleStream
from suite.preflight import Preflight
from suite.sampling import Samples, SamplingPlan, undisturbed

_FAULTS = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
_MEMORY_SHARE = 0.85
"""The largest share of the GPU's memory the arguments of one case and its reference may take."""
_CACHED_INPUT_SHARE = 0.25
_SHARED_DEFAULT_BYTES = 48 << 10


class GpuLaunchable:
    """One case on the GPU: its function loaded, its arguments in device memory."""

    def __init__(self, device: GpuDevice, case: Case) -> None:
        self.case = case
        self._device = device
        self.resources: Resources | None = None
        self.fingerprint: str | None = None
        self.waits_for_host = False
        self._collect: Callable[[], None] | None = None
        self._pristine: dict[int, Array] = {}
        self._arrays: dict[int, Array] = {}
        for position, argument in enumerate(case.arguments):
            if isinstance(argument, Buffer):
                self._place(position, argument)
        if case.stage.operation is not None:
            operation = operations.bind(case.stage.operation, list(self._arrays.values()))
            self.launch, self._collect = operation.launch, operation.collect
            self.waits_for_host = operation.waits_for_host
        else:
            built = device.build(case)
            self.resources, self.fingerprint = built.resources, built.fingerprint
            self.launch = self._bind(device.function(built, case))

    def _place(self, position: int, buffer: Buffer) -> None:
        match buffer.role:
            case Role.IN:
                self._arrays[position] = self._device.input(buffer, position)
            case Role.INOUT:
                self._pristine[position] = self._device.input(buffer, position)
                self._arrays[position] = cupy.empty(buffer.shape, buffer.dtype)
            case Role.OUT:
                self._arrays[position] = cupy.empty(buffer.shape, buffer.dtype)
            case Role.SCRATCH:
                self._arrays[position] = cupy.zeros(buffer.shape, buffer.dtype)

    def _bind(self, function: Any) -> Callable[[], None]:
        grid, block, shared = self.case.launch.grid, self.case.launch.block, self.case.launch.shared_bytes
        arguments = tuple(
            np.dtype(argument.dtype).type(argument.value) if isinstance(argument, Scalar) else self._arrays[position]
            for position, argument in enumerate(self.case.arguments)
        )

        def launch() -> None:
            function(grid, block, arguments, shared_mem=shared)

        return launch

    @property
    def inputs(self) -> Sequence[Array]:
        return [
            self._pristine.get(position, self._arrays[position])
            for position, buffer in self._buffers()
            if buffer.role in (Role.IN, Role.INOUT)
        ]

    @property
    def outputs(self) -> Sequence[Array]:
        return [self._arrays[position] for position, buffer in self._buffers() if buffer.role in (Role.OUT, Role.INOUT)]

    def _buffers(self) -> list[tuple[int, Buffer]]:
        return [(at, argument) for at, argument in enumerate(self.case.arguments) if isinstance(argument, Buffer)]

    def run(self) -> None:
        if self._device.lost:
            raise DeviceLost(self._device.lost)
        for position, buffer in self._buffers():
            if buffer.role is Role.OUT:
                self._arrays[position].view(np.uint8).fill(0xFF)  # NaN in every float type
            elif buffer.role is Role.INOUT:
                cupy.copyto(self._arrays[position], self._pristine[position])
        try:
            self.launch()
            cupy.cuda.get_current_stream().synchronize()
            if self._collect:
                self._collect()
        except _FAULTS as fault:
            raise self._device.faulted(self.case, fault) from None

    def sample(self, plan: SamplingPlan) -> Samples:
        stream, highest_mhz = self._device.sample_stream(plan.batch), self._device.facts.sm_clock_max_mhz
        hold = not self.waits_for_host
        times_us: list[float] = []
        clocks_mhz: list[float | None] = []
        discarded = 0
        try:
            stream.batch(self.launch, plan.warmup, hold=hold)
            while not plan.done(times_us, discarded):
                for time_us, clock_mhz in stream.batch(self.launch, plan.batch, hold=hold):
                    if undisturbed(clock_mhz, highest_mhz):
                        times_us.append(time_us)
                        clocks_mhz.append(clock_mhz)
                    else:
                        discarded += 1
        except _FAULTS as fault:
            raise self._device.faulted(self.case, fault) from None
        return Samples(tuple(times_us), tuple(clocks_mhz), discarded, stream.method(held=hold))


class GpuDevice:
    """One CUDA device by index."""

    kind: DeviceKind = "gpu"
    scale = Scale.BENCH
    xp: Any = cupy

    def __init__(self, index: int) -> None:
        cupy.cuda.Device(index).use()
        self.facts, self.peaks = facts.read(index)
        self.slug = self.facts.slug
        major, minor = self.facts.compute_capability.split(".")
        self.capability: tuple[int, int] | None = (int(major), int(minor))
        self.lost: str | None = None
        self._attributes = cupy.cuda.Device(index).attributes
        self._stream: SampleStream | None = None
        self._functions: dict[tuple[str, str], Any] = {}
        self._inputs: OrderedDict[tuple[tuple[int, ...], str, int], Array] = OrderedDict()

    def describe(self) -> dict[str, Any]:
        described = self.facts.as_dict()
        described |= {
            "peak_gbs": self.peaks.memory_gbs if self.peaks else None,
            "peak_tflops": self.peaks.fp32_tflops if self.peaks else None,
            "peak_link_gbs": self.peaks.link_gbs if self.peaks else None,
            "peak_derivation": self.peaks.derivation if self.peaks else None,
        }
        return described

    def preflight(self) -> Preflight | None:
        return facts.preflight(self.facts.index)

    def refusal(self, case: Case) -> str | None:
        assert self.capability is not None
        if self.capability < case.stage.min_capability:
            needed = ".".join(map(str, case.stage.min_capability))
            return f"needs compute capability {needed}, this GPU has {self.facts.compute_capability}"
        largest_shared: int = self._attributes["MaxSharedMemoryPerBlockOptin"]
        if case.launch.shared_bytes > largest_shared:
            return f"needs {case.launch.shared_bytes} bytes of shared memory a block, this GPU allows {largest_shared}"
        needed_bytes = 2 * case.buffer_bytes  # arguments, and a reference that may be in float64
        if needed_bytes > _MEMORY_SHARE * self.facts.memory_bytes:
            return f"needs {needed_bytes / 1e9:.1f} GB, this GPU has {self.facts.memory_bytes / 1e9:.1f} GB"
        return None

    def build(self, case: Case) -> Cubin:
        """The case's machine code for this chip."""
        assert self.capability is not None
        return cubin(case.stage, case.defines, self.capability)

    def function(self, built: Cubin, case: Case) -> Any:
        """Load a cubin's entry point once; allow the dynamic shared memory the case asks for."""
        key = (str(built.path), case.stage.name)
        if key not in self._functions:
            self._functions[key] = cupy.RawModule(path=str(built.path)).get_function(case.stage.name)
        function = self._functions[key]
        if case.launch.shared_bytes + built.resources.static_shared_bytes > _SHARED_DEFAULT_BYTES:
            function.max_dynamic_shared_size_bytes = case.launch.shared_bytes
        return function

    def prebuild(self, cases: Sequence[Case]) -> None:
        distinct = {(case.stage.source, case.defines): case for case in cases if case.stage.source is not None}

        def build(case: Case) -> None:
            try:
                self.build(case)
            except BuildError:
                return  # told when the case itself is prepared

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            list(pool.map(build, distinct.values()))

    def prepare(self, case: Case) -> GpuLaunchable:
        if self.lost:
            raise DeviceLost(self.lost)
        try:
            return GpuLaunchable(self, case)
        except _FAULTS as fault:
            raise self.faulted(case, fault) from None

    def input(self, buffer: Buffer, seed: int) -> Array:
        """Random data for an input; kept, because many cases ask for the same."""
        key = (buffer.shape, buffer.dtype, seed)
        if key not in self._inputs:
            self._inputs[key] = random_array(cupy, buffer.shape, buffer.dtype, seed)
            held = sum(array.nbytes for array in self._inputs.values())
            while held > _CACHED_INPUT_SHARE * self.facts.memory_bytes and len(self._inputs) > 1:
                held -= self._inputs.popitem(last=False)[1].nbytes
        self._inputs.move_to_end(key)
        return self._inputs[key]

    def warm_up(self) -> None:
        """Work until the SM clock stands near its highest (at most 400 flushes): an idle chip clocks low."""
        stream = self.sample_stream(SamplingPlan().batch)
        for _ in range(400):
            clock = stream.clock_mhz()
            if clock is None or clock >= 0.98 * self.facts.sm_clock_max_mhz:
                return

    def faulted(self, case: Case, fault: Exception) -> KernelFault:
        """Turn a CUDA error into the case's own failure; after most of them the context takes no more launches."""
        message = str(fault)
        try:
            cupy.cuda.get_current_stream().synchronize()
            cupy.zeros(1).sum().item()
        except _FAULTS:
            self.lost = f"{case.id} faulted ({message}) and took the CUDA context with it"
        return KernelFault(message)

    def sample_stream(self, batch: int) -> SampleStream:
        """The stream all samples are taken on, for batches of up to this size."""
        if self._stream is None:
            self._stream = SampleStream(self.facts.l2_bytes, batch)
        return self._stream
