"""The GPU device: cubins loaded and launched by CuPy, timed by CUDA events."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np
from peakgate.build.cubin import BuildError, Cubin, cache_folder, cubin
from peakgate.case import Array, Buffer, Case, Scale
from peakgate.device import facts
from peakgate.device.interface import DeviceKind, DeviceLost, KernelFault, failure
from peakgate.device.launchable import FAULTS, GpuLaunchable
from peakgate.device.preflight import Preflight, disturbance, own_processes
from peakgate.device.stream import SampleStream
from peakgate.measure.data import input_array
from peakgate.measure.placement import random_offsets
from peakgate.measure.sampling import SamplingPlan, trimmed_mean

_MEMORY_SHARE = 0.7
"""The largest share of the GPU's memory the arguments of one case and its reference may take; the rest is for the room
below, the flush and the context."""

_CACHED_INPUT_SHARE = 0.25
_ROOM_BYTES, _ROOM_FACTOR, _ROOM_SHARE = 2 << 30, 4, 0.1
"""Memory to place a case's arrays in: so much, or so many times what they take where that is more; at most this share
of the GPU's."""

_CONTROL_BATCHES = 80
"""Batches of the control kernel: enough for a standard error of some 12 ns on an H200, in 50 ms."""

_SHARED_DEFAULT_BYTES = 48 << 10


class GpuDevice:
    """One CUDA device by index.

    ``guarded`` arrays detect a write past their end; a tool that watches every access detects more without them.
    """

    kind: DeviceKind = "gpu"
    scale = Scale.BENCH
    xp: Any = cupy

    def __init__(self, index: int, *, guarded: bool = True) -> None:
        os.environ.setdefault("CUPY_CACHE_DIR", str(cache_folder() / "cupy"))  # where CI keeps what can be built again
        self.guarded = guarded
        self._load_before = facts.load(index)
        cupy.cuda.Device(index).use()
        self.facts, self.peaks = facts.read(index)
        self.slug = self.facts.slug
        major, minor = self.facts.compute_capability.split(".")
        self.capability: tuple[int, int] | None = (int(major), int(minor))
        self.lost: str | None = None
        self._attributes = cupy.cuda.Device(index).attributes
        self._stream: SampleStream | None = None
        self._functions: dict[tuple[str, bool], dict[str, Any]] = {}
        self._inputs: OrderedDict[tuple[Any, ...], Array] = OrderedDict()
        self._room: Array | None = None
        self._rng = np.random.default_rng()
        self._own: frozenset[int] = frozenset()
        self._control_us: float | None = None

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
        shared = max(each.launch.shared_bytes for each in case.launches)
        if shared > largest_shared:
            return f"needs {shared} bytes of shared memory per block, this GPU allows {largest_shared}"
        needed_bytes = 2 * case.buffer_bytes  # arguments, and a reference that may be in float64
        if needed_bytes > _MEMORY_SHARE * self.facts.memory_bytes:
            return f"needs {needed_bytes / 1e9:.1f} GB, this GPU has {self.facts.memory_bytes / 1e9:.1f} GB"
        return None

    def build(self, case: Case) -> Cubin:
        """The case's machine code for this GPU."""
        assert self.capability is not None
        return cubin(case.stage, case.defines, self.capability)

    def functions(self, built: Cubin, case: Case) -> list[Any]:
        """The function of each of the case's launches, with the dynamic shared memory that its launches ask for.

        A cubin is loaded once, so that its kernels share the file's variables; its constants are set then.
        """
        key = (str(built.path), case.stage.cooperative)
        if key not in self._functions:
            module = cupy.RawModule(path=str(built.path), enable_cooperative_groups=case.stage.cooperative)
            for lowered, values in zip(built.constants, self.constants(case), strict=True):
                module.get_global(lowered).copy_from_device(values.data, values.nbytes)
            self._functions[key] = {
                kernel: module.get_function(entry)
                for kernel, entry in zip(case.stage.kernels, built.entries, strict=True)
            }
        functions = self._functions[key]
        for kernel, resources in zip(case.stage.kernels, (built.resources, *built.further), strict=True):
            shared = max((each.launch.shared_bytes for each in case.launches if each.kernel == kernel), default=0)
            if shared + resources.static_shared_bytes > _SHARED_DEFAULT_BYTES:
                functions[kernel].max_dynamic_shared_size_bytes = shared
        return [functions[each.kernel] for each in case.launches]

    def prebuild(self, cases: Sequence[Case]) -> None:
        distinct = {(case.stage, case.defines): case for case in cases if case.stage.source is not None}

        def build(case: Case) -> None:
            try:
                self.build(case)
            except BuildError:
                return  # reported when the case itself is prepared

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            list(pool.map(build, distinct.values()))

    def disturbance(self) -> str | None:
        return disturbance(facts.load(self.facts.index), self._own)

    def memory_bytes(self) -> tuple[int, int] | None:
        try:
            free, total = cupy.cuda.runtime.memGetInfo()
        except FAULTS:
            return None
        return free + cupy.get_default_memory_pool().free_bytes(), total

    def prepare(self, case: Case, *, seed: int = 0) -> GpuLaunchable:
        if self.lost:
            raise DeviceLost(self.lost)
        try:
            return GpuLaunchable(self, case, seed)
        except FAULTS as fault:
            raise self.faulted(case, fault) from None

    def input(self, buffer: Buffer, seed: int) -> Array:
        """Random data for an input; kept, because many cases ask for the same."""
        key = (buffer.shape, buffer.dtype, buffer.data, seed)
        if key not in self._inputs:
            self._inputs[key] = input_array(cupy, buffer, seed)
            held = sum(array.nbytes for array in self._inputs.values())
            while held > _CACHED_INPUT_SHARE * self.facts.memory_bytes and len(self._inputs) > 1:
                held -= self._inputs.popitem(last=False)[1].nbytes
        self._inputs.move_to_end(key)
        return self._inputs[key]

    def constants(self, case: Case) -> list[Array]:
        """The data of the stage's constants."""
        first = len(case.arguments)
        return [self.input(buffer, first + at) for at, (_, buffer) in enumerate(case.stage.constants)]

    def places(self, buffers: Sequence[Buffer]) -> list[Array] | None:
        """Uninitialized arrays for the buffers somewhere in memory, elsewhere at each call; the last call's are void.

        None for buffers too large to be moved about.
        """
        sizes_bytes = [buffer.nbytes for buffer in buffers]
        wanted_bytes = max(_ROOM_BYTES, _ROOM_FACTOR * sum(sizes_bytes))
        room_bytes = int(min(wanted_bytes, _ROOM_SHARE * self.facts.memory_bytes))
        offsets = random_offsets(sizes_bytes, room_bytes, self._rng)
        if offsets is None:
            return None
        if self._room is None or self._room.nbytes < room_bytes:
            self._room = None
            self._room = cupy.empty(room_bytes, np.uint8)
        return [
            self._room[offset : offset + buffer.nbytes].view(buffer.dtype).reshape(buffer.shape)
            for offset, buffer in zip(offsets, buffers, strict=True)
        ]

    def warm_up(self) -> None:
        """Work until the SM clock stands near its highest (at most 400 flushes): an idle GPU clocks low."""
        stream = self.sample_stream(SamplingPlan().batch)
        self._own = own_processes(self._load_before, facts.load(self.facts.index), os.getpid())
        for _ in range(400):
            clock = stream.clock_mhz()
            if clock is None or clock >= 0.98 * self.facts.sm_clock_max_mhz:
                return

    def control_us(self) -> float:
        """What a sample of the control kernel takes in this process, measured once."""
        if self._control_us is None:
            stream, batch = self.sample_stream(SamplingPlan().batch), SamplingPlan().batch
            stream.launch_control()  # loads the code
            batches = [stream.batch(stream.launch_control, batch, hold=True) for _ in range(_CONTROL_BATCHES)]
            self._control_us = trimmed_mean([time_us for each in batches for time_us, _ in each])
        return self._control_us

    def faulted(self, case: Case, fault: Exception) -> KernelFault | MemoryError:
        """Turn a CUDA error into the case's own failure; after most of them the context takes no more launches."""
        try:
            cupy.cuda.get_current_stream().synchronize()
            cupy.zeros(1).sum().item()
        except FAULTS:
            self.lost = f"{case.id} faulted ({fault}) and took the CUDA context with it"
        return failure(fault, lost=self.lost is not None)

    def sample_stream(self, batch: int) -> SampleStream:
        """The stream all samples are taken on, for batches of up to this size."""
        if self._stream is None or self._stream.largest_batch < batch:
            self._stream = SampleStream(self.facts.l2_bytes, batch)
        return self._stream
