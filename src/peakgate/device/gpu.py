"""The GPU device: cubins loaded and launched by CuPy, timed by CUDA events."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from peakgate.compile import nvrtc
from peakgate.compile.cubin import Cubin, Defines, built_before, cubin
from peakgate.device import driver, elements, facts, nvml, references, warmup
from peakgate.device.interface import (
    Device,
    DeviceKind,
    DeviceLost,
    KernelFault,
    KernelLaunchable,
    Preflight,
    disturbance,
    failure,
    own_processes,
)
from peakgate.device.launchable import FAULTS, GpuLaunchable
from peakgate.device.state import GpuMeter
from peakgate.device.stream import SampleStream
from peakgate.judge.correctness import ErrorBound, Largest
from peakgate.measure import refill
from peakgate.measure.data import input_array, random_offsets
from peakgate.measure.sampling import SamplingPlan
from peakgate.spec.case import Array, Buffer, Case, Scale, Stage

_MEMORY_SHARE = 0.7
"""The largest share of the GPU's memory the arguments of one case and its reference may take; the rest is for the room
below, the flush and the context."""

_CACHED_INPUT_SHARE = 0.25
_GUARD_NOISE_BYTES = 1 << 20

_ROOM_BYTES, _ROOM_SHARE = 2 << 30, 0.1
"""Memory to move a case's arrays about in: so much, or this share of the GPU's where that is less."""

MULTICAST_OFF = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
"""In NCCL, PyTorch and NVSHMEM: the switch adds up, so fewer bytes than a case claims would cross the links."""

_CLOSED: list[GpuDevice] = []
"""Kept to the end of the process: their events and modules would free themselves in a context that is gone."""

_SHARED_DEFAULT_BYTES = 48 << 10
_MAX_DYNAMIC_SHARED: int = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

_GLANCE_S = 0.02
"""Between two looks at what other processes compile."""


@lru_cache(maxsize=2)
def _machine_code(path: Path) -> bytes:
    """A cubin; two builds that are sampled in turns are loaded again and again."""
    return path.read_bytes()


def _text_bytes(case: Case) -> int:
    """The size of a case's source file; 0 where it cannot be read, which its build reports."""
    try:
        return case.stage.source.stat().st_size if case.stage.source else 0
    except OSError:
        return 0


class GpuDevice(Device):
    """One CUDA device by index, with further ones for cases on several: ``gpus`` are the indices of all.

    ``guarded`` arrays detect a write past their end; a tool that watches every access detects more without them.
    ``later``: before anything but ``facts`` and ``refusal`` is asked for, the caller calls ``open``.
    """

    kind: DeviceKind = "gpu"
    scale = Scale.BENCH
    xp: Any = cupy

    def __init__(self, index: int, *further: int, guarded: bool = True, later: bool = False) -> None:
        super().__init__()
        self.guarded = guarded
        self.gpus = (index, *further)
        self._before: dict[int, warmup.Before] = {}
        self.facts, self.peaks = facts.read(index)
        self.slug = self.facts.slug
        major, minor = self.facts.compute_capability.split(".")
        self.capability: tuple[int, int] | None = (int(major), int(minor))
        self.lost: str | None = None
        self._attributes = cupy.cuda.Device(index).attributes
        self._streams: dict[int, SampleStream] = {}
        self._building: dict[tuple[Stage, Defines], Future[Cubin]] = {}
        self._built: dict[tuple[Stage, Defines], Cubin] = {}
        self._functions: dict[tuple[str, bool], dict[str, Any]] = {}
        self._inputs: OrderedDict[tuple[Any, ...], Array] = OrderedDict()
        self._noise: dict[str, Array] = {}
        self._room: Array | None = None
        self._own: dict[int, frozenset[int]] = {}
        if not later:
            self.open()

    def open(self) -> None:
        """Make the CUDA contexts; before, nothing is on the GPUs. With several NVLink multicast stays off."""
        if len(self.gpus) > 1:
            for name, value in MULTICAST_OFF.items():
                os.environ.setdefault(name, value)
        for gpu in reversed(self.gpus):
            self._before[gpu] = warmup.before(gpu)
            cupy.cuda.Device(gpu).use()
            cupy.cuda.runtime.free(0)

    def describe(self) -> dict[str, Any]:
        described = asdict(self.facts)
        described |= {
            "peak_gbs": self.peaks.memory_gbs if self.peaks else None,
            "peak_tflops": self.peaks.fp32_tflops if self.peaks else None,
            "peak_tensor_tflops": dict(self.peaks.tensor_tflops) if self.peaks else {},
            "peak_link_gbs": self.peaks.link_gbs if self.peaks else None,
            "uuids": [driver.gpu_uuid(gpu) for gpu in self.gpus],
            "peak_nvlink_gbs": self.peaks.nvlink_gbs if self.peaks else None,
            "peak_derivation": self.peaks.derivation if self.peaks else None,
        }
        return described

    def preflight(self) -> Preflight | None:
        before = self._before.get(self.facts.index)
        return before.state if before else None

    def refusal(self, case: Case) -> str | None:
        assert self.capability is not None
        if not case.stage.runs_on(self.capability):
            return f"needs compute capability {case.stage.needs}, this GPU has {self.facts.compute_capability}"
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
        key = case.stage, case.defines
        if key not in self._built:
            begun = self._building.pop(key, None)
            try:
                self._built[key] = begun.result() if begun else self._cubin(case)
            finally:
                if not self._building:
                    nvrtc.end_all()
        return self._built[key]

    def functions(self, built: Cubin, case: Case, *, kept: bool = True) -> list[Any]:
        """The function of each of the case's launches, with the dynamic shared memory that its launches ask for.

        A cubin is loaded once, so that its kernels share the file's variables; its constants are set then. One that is
        not ``kept`` is loaded anew, and unloaded when nobody has its functions any more.
        """
        key = (str(built.path), case.stage.cooperative)
        functions = self._functions.get(key) if kept else None
        if functions is None:
            module = cupy.cuda.Module()
            module.load(_machine_code(built.path))
            for lowered, values in zip(built.constants, self.constants(case), strict=True):
                at = module.get_global_var(lowered)
                cupy.cuda.runtime.memcpy(at, values.data.ptr, values.nbytes, cupy.cuda.runtime.memcpyDeviceToDevice)
            functions = {
                kernel: module.get_function(entry)
                for kernel, entry in zip(case.stage.kernels, built.entries, strict=True)
            }
        if kept:
            self._functions[key] = functions
        for kernel, resources in zip(case.stage.kernels, (built.resources, *built.further), strict=True):
            shared = max((each.launch.shared_bytes for each in case.launches if each.kernel == kernel), default=0)
            if shared + resources.static_shared_bytes > _SHARED_DEFAULT_BYTES:
                cupy.cuda.driver.funcSetAttribute(functions[kernel].ptr, _MAX_DYNAMIC_SHARED, shared)
        return [functions[each.kernel] for each in case.launches]

    def prebuild(
        self, cases: Sequence[Case], *, checked: bool = True, meanwhile: Callable[[Case], None] | None = None
    ) -> None:
        """Begin all builds, and wait until every reference is compiled and half of the processors are free again.

        A case whose build is not done by then waits for it when it is prepared.
        """
        distinct = {(case.stage, case.defines): case for case in cases if case.stage.source is not None}
        # The longest first, which the longest text most often is: they alone decide when all are built.
        ordered = sorted(distinct.items(), key=lambda item: -_text_bytes(item[1]))
        processors = os.cpu_count() or 1
        versions = (self.facts.compute_capability, self.facts.nvrtc, self.facts.cupy)
        with references.compiled_ahead(cases if checked else (), self.facts.index, versions) as compiling:
            pool = ThreadPoolExecutor(max_workers=processors)
            self._building = {key: pool.submit(self._cubin, case) for key, case in ordered}
            pool.shutdown(wait=False)
            builds = dict(self._building)
            # From the end: the references' processes come from the front.
            left = [case for case in reversed(cases) if case.stage.source is not None] if meanwhile else []
            while compiling() or sum(not build.done() for build in builds.values()) > processors // 2:
                ready = next((case for case in left if builds[case.stage, case.defines].done()), None)
                if meanwhile and ready:
                    left.remove(ready)
                    meanwhile(ready)
                else:
                    time.sleep(_GLANCE_S)

    def _cubin(self, case: Case) -> Cubin:
        assert self.capability is not None
        return cubin(case.stage, case.defines, self.capability)

    def disturbance(self, gpus: int = 1) -> str | None:
        found = (disturbance(nvml.load(gpu), self._own.get(gpu, frozenset())) for gpu in self.gpus[:gpus])
        return next(filter(None, found), None)

    @cached_property
    def energy_meter(self) -> GpuMeter:
        """The energy counter of this GPU."""
        return GpuMeter(self.facts.index)

    def compared(self, found: Array, wanted: Array, bound: ErrorBound, magnitude: Array | None) -> Largest | None:
        return elements.compared(found, wanted, bound, magnitude)

    def memory_bytes(self) -> tuple[int, int] | None:
        try:
            free, total = cupy.cuda.runtime.memGetInfo()
        except FAULTS:
            return None
        return free + cupy.get_default_memory_pool().free_bytes(), total

    def prepare(self, case: Case) -> GpuLaunchable:
        if self.lost:
            raise DeviceLost(self.lost)
        try:
            return GpuLaunchable(self, case)
        except FAULTS as fault:
            raise self.faulted(case, fault) from None

    def prepare_other(self, beside: KernelLaunchable, fingerprint: str) -> KernelLaunchable:
        assert isinstance(beside, GpuLaunchable)
        if not fingerprint:
            return beside
        case = beside.case
        try:
            other = GpuLaunchable(self, case, other=built_before(case.stage, fingerprint), beside=beside)
            self._functions.clear()
            self.exchange(beside, other)
        except FAULTS as fault:
            raise self.faulted(case, fault) from None
        return other

    def exchange(self, leaving: KernelLaunchable, coming: KernelLaunchable) -> None:
        assert isinstance(leaving, GpuLaunchable)
        assert isinstance(coming, GpuLaunchable)
        if coming is leaving:
            return
        try:
            leaving.unload()
            coming.load(kept=False)
        except FAULTS as fault:
            raise self.faulted(coming.case, fault) from None

    def input(self, buffer: Buffer, seed: int) -> Array:
        """Random data for an input; kept, because many cases ask for the same."""
        key = (buffer.shape, buffer.dtype, buffer.data, seed)
        if key not in self._inputs:
            self._inputs[key] = cupy.ascontiguousarray(input_array(cupy, buffer, seed, elements.random_array))
            held = sum(array.nbytes for array in self._inputs.values())
            while held > _CACHED_INPUT_SHARE * self.facts.memory_bytes and len(self._inputs) > 1:
                held -= self._inputs.popitem(last=False)[1].nbytes
        self._inputs.move_to_end(key)
        return self._inputs[key]

    def constants(self, case: Case) -> list[Array]:
        """The data of the stage's constants."""
        first = len(case.arguments)
        return [self.input(buffer, first + at) for at, (_, buffer) in enumerate(case.stage.constants)]

    def noise(self, dtype: str) -> Array:
        """The noise that outputs of a type are filled with; drawn once per process."""
        if dtype not in self._noise:
            self._noise[dtype] = refill.noise(cupy, dtype, self.draw(refill.SEEDS))
        return self._noise[dtype]

    @cached_property
    def guard_noise(self) -> np.ndarray[Any, Any]:
        """Random bytes that guards are made of, drawn once per process, where no kernel writes by mistake.

        In page-locked memory, from which the GPU copies them in stream order.
        """
        rng = np.random.default_rng(self.draw(refill.SEEDS))
        noise = np.frombuffer(cupy.cuda.alloc_pinned_memory(_GUARD_NOISE_BYTES), np.uint8, _GUARD_NOISE_BYTES)
        noise[...] = rng.integers(256, size=noise.size, dtype=np.uint8)
        return noise

    def pools(self, case: Case) -> dict[int, Array]:
        """The pools that fill a case's buffers, by argument position; buffers that keep their contents have none."""
        return refill.pools(case, self.noise, lambda pool, at: self.input(pool, at + self.secret))

    def places(self, sizes_bytes: Sequence[int], draw: Callable[[int], int]) -> list[Array] | None:
        """Uninitialized views of these sizes at new random offsets; invalidates those of the previous call.

        None for arrays too large to be moved.
        """
        room_bytes = int(min(_ROOM_BYTES, _ROOM_SHARE * self.facts.memory_bytes))
        offsets = random_offsets(sizes_bytes, room_bytes, np.random.default_rng(draw(refill.SEEDS)))
        if offsets is None:
            return None
        if self._room is None:
            self._room = cupy.empty(room_bytes, np.uint8)
        return [self._room[offset : offset + size] for offset, size in zip(offsets, sizes_bytes, strict=True)]

    def warm_up(self) -> None:
        """Work until the SM clock stands near its highest (at most 400 flushes): an idle GPU clocks low."""
        references.end()
        stream = self.sample_stream(SamplingPlan().batch, len(self.gpus))
        for gpu, before in self._before.items():
            self._own[gpu] = own_processes(before.load, nvml.load(gpu), os.getpid())
        for _ in range(400):
            clock = stream.clock_mhz()
            if clock is None or clock >= 0.98 * self.facts.sm_clock_max_mhz:
                return

    def faulted(self, case: Case, fault: Exception) -> KernelFault | MemoryError:
        """Turn a CUDA error into the case's own failure; after most of them the context takes no more launches."""
        try:
            for gpu in reversed(self.gpus):  # the current one last
                cupy.cuda.Device(gpu).use()
                cupy.cuda.get_current_stream().synchronize()
                cupy.zeros(1).sum().item()
        except FAULTS:
            self.lost = f"{case.id} faulted ({fault}) and took the CUDA context with it"
        return failure(fault, lost=self.lost is not None)

    def close(self) -> None:
        """Destroy the CUDA contexts; what this process still has of them must not be used or freed any more."""
        assert self.lost is None, "a lost context goes with its process"
        _CLOSED.append(self)
        for gpu in self.gpus:
            cupy.cuda.Device(gpu).synchronize()
            driver.destroy_context(gpu)

    def sample_stream(self, batch: int, gpus: int = 1) -> SampleStream:
        """The stream all samples are taken on, of one GPU or the first so many, for batches of up to this size."""
        if gpus not in self._streams or self._streams[gpus].largest_batch < batch:
            self._streams[gpus] = SampleStream(self.facts.l2_bytes, batch, self.gpus[:gpus])
        return self._streams[gpus]
