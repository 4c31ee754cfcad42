"""The GPU device: loads and launches cubins through CuPy, timed by CUDA events; its properties, from CUDA and NVML."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import cupy

from peakgate.base import progress
from peakgate.base.ranks import ALONE, Ranks
from peakgate.compile import nvrtc
from peakgate.compile.cubin import built_before
from peakgate.device import driver, elements, nvml, references, warmup
from peakgate.device.arrays import CaseArrays
from peakgate.device.caches import CodeCache, DataCache
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
from peakgate.device.launcher import GpuLaunchable
from peakgate.device.state import GpuMeter
from peakgate.device.stream import SampleStream
from peakgate.judge.correctness import ErrorBound, Largest
from peakgate.judge.metrics import Peaks, pcie_gbs, theoretical_peaks
from peakgate.measure.sampling import SamplingPlan
from peakgate.spec.case import Array, Case, Scale
from peakgate.spec.recorded import TENSOR_MATH

# CuPy's exceptions for CUDA errors.
FAULTS = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)

# The largest share of the GPU's memory for the arguments of one case and its reference; the rest is for random
# placement, the flush and the context.
_MEMORY_SHARE = 0.7

# Disables NVLink multicast in NCCL, PyTorch and NVSHMEM: the switch would reduce, so that fewer bytes than a case
# declares cross the links.
MULTICAST_OFF = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}

# Kept until the process ends: their events and modules must not be freed in a destroyed context.
_CLOSED: list[GpuDevice] = []

# Interval of polling the processes that compile.
_GLANCE_S = 0.02


@dataclass(frozen=True, slots=True)
class NvmlFacts:
    """One GPU: identity, driver and libraries, clocks and limits; None if the driver does not report a value."""

    name: str
    slug: str
    uuid: str
    index: int
    compute_capability: str
    driver: str | None
    cuda_driver: str
    nvrtc: str
    cupy: str
    cublas: str | None
    vbios: str | None
    sm_count: int
    sm_clock_max_mhz: float
    sm_clock_mhz: float | None
    memory_clock_max_mhz: float
    memory_bus_bits: int
    memory_bytes: int
    l2_bytes: int
    power_limit_w: float | None
    ecc: bool | None
    mig: bool | None


def read_facts(index: int) -> tuple[NvmlFacts, Peaks | None]:
    """The facts of the GPU with this CUDA device index, and its theoretical peaks."""
    runtime = cupy.cuda.runtime
    cuda_driver = runtime.driverGetVersion()
    properties = runtime.getDeviceProperties(index)
    attributes = cupy.cuda.Device(index).attributes
    name = properties["name"].decode()
    handle = nvml.handle(index)
    seen = nvml.properties(handle)
    capability = (properties["major"], properties["minor"])
    facts = NvmlFacts(
        name=name,
        slug=driver.slug(name),
        uuid=nvml.uuid_of(handle),
        index=index,
        compute_capability=f"{capability[0]}.{capability[1]}",
        driver=seen.driver,
        cuda_driver=f"{cuda_driver // 1000}.{cuda_driver % 1000 // 10}",
        nvrtc=nvrtc.version(),
        cupy=cupy.__version__,
        cublas=driver.cublas_version(),
        vbios=seen.vbios,
        sm_count=properties["multiProcessorCount"],
        sm_clock_max_mhz=seen.sm_clock_max_mhz or attributes["ClockRate"] / 1e3,
        sm_clock_mhz=nvml.sm_clock_mhz(handle),
        memory_clock_max_mhz=attributes["MemoryClockRate"] / 1e3,
        memory_bus_bits=attributes["GlobalMemoryBusWidth"],
        memory_bytes=properties["totalGlobalMem"],
        l2_bytes=properties["l2CacheSize"],
        power_limit_w=seen.power_limit_w,
        ecc=seen.ecc,
        mig=seen.mig,
    )
    generation, lanes = seen.pcie_generation_max, seen.pcie_lanes_max
    peaks = theoretical_peaks(
        name=name,
        memory_clock_mhz=facts.memory_clock_max_mhz,
        bus_width_bits=facts.memory_bus_bits,
        sm_count=facts.sm_count,
        sm_clock_mhz=facts.sm_clock_max_mhz,
        capability=capability,
        link_gbs=pcie_gbs(generation, lanes) if generation and lanes else None,
        nvlinks_mbs=nvml.nvlinks_mbs(handle),
    )
    return facts, peaks


class GpuDevice(Device):
    """One CUDA device by index, with further ones for cases on several; ``gpus`` are all indices.

    ``guarded`` arrays detect a write past their end; a tool that checks every access detects more without guards.
    ``later``: only ``facts`` and ``refusal`` may be used before ``open`` is called.
    """

    kind: DeviceKind = "gpu"
    scale = Scale.BENCH
    xp: Any = cupy

    def __init__(
        self, index: int, *further: int, guarded: bool = True, later: bool = False, ranks: Ranks = ALONE
    ) -> None:
        super().__init__()
        self.guarded, self.ranks = guarded, ranks
        self.gpus = (index, *further)
        self._before: dict[int, warmup.Before] = {}
        self.facts, self.peaks = read_facts(index)
        self.slug = self.facts.slug
        major, minor = self.facts.compute_capability.split(".")
        self.capability = (int(major), int(minor))
        self.lost: str | None = None
        self._attributes = cupy.cuda.Device(index).attributes
        self._streams: dict[int, SampleStream] = {}
        self.data = DataCache(self.facts.memory_bytes)
        self.code = CodeCache(self.capability, self.data.constants)
        self._own: dict[int, frozenset[int]] = {}
        if not later:
            self.open()

    def open(self) -> None:
        """Create the CUDA contexts. With several GPUs NVLink multicast is disabled.

        JAX, if it is used, takes memory as it needs it: by default it would reserve three quarters of the GPU's.
        """
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if len(self.gpus) > 1 or self.ranks.size > 1:
            for name, value in MULTICAST_OFF.items():
                os.environ.setdefault(name, value)
        for gpu in reversed(self.gpus):
            self._before[gpu] = warmup.before(gpu, follows=self.guarded)  # CUPTI serves one tool
            cupy.cuda.Device(gpu).use()
            cupy.cuda.runtime.free(0)

    def describe(self) -> dict[str, Any]:
        described = asdict(self.facts)
        described |= {
            "peak_gbs": self.peaks.memory_gbs if self.peaks else None,
            "peak_tflops": self.peaks.fp32_tflops if self.peaks else None,
            "peak_tensor_tflops": dict(self.peaks.tensor_tflops) if self.peaks else {},
            "peak_link_gbs": self.peaks.link_gbs if self.peaks else None,
            "uuids": self.ranks.uuids or [driver.gpu_uuid(gpu) for gpu in self.gpus],
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

    def prebuild(
        self, cases: Sequence[Case], *, checked: bool = True, meanwhile: Callable[[Case], None] | None = None
    ) -> None:
        """Start all builds, and wait until every reference is compiled and half of the processors are idle.

        ``prepare`` waits for a build that is not finished by then.
        """
        processors = os.cpu_count() or 1
        versions = (self.facts.compute_capability, self.facts.nvrtc, self.facts.cupy)
        with references.compiled_ahead(cases if checked else (), self.facts.index, versions) as compiling:
            builds = self.code.begin(cases)
            # From the end, since the processes that compile references start at the front.
            left = [case for case in reversed(cases) if case.stage.source is not None] if meanwhile else []
            shown = 0
            while (waiting := sum(not build.done() for build in builds.values())) > processors // 2 or compiling():
                if (done := len(builds) - waiting) > shown:
                    progress.step("building the kernels", len(builds), "build", done=done)
                    shown = done
                ready = next((case for case in left if builds[case.stage, case.defines].done()), None)
                if meanwhile and ready:
                    left.remove(ready)
                    meanwhile(ready)
                else:
                    time.sleep(_GLANCE_S)

    def is_built(self, case: Case) -> bool:
        return self.code.is_built(case)

    def disturbance(self, gpus: int = 1) -> str | None:
        found = (disturbance(nvml.load(gpu), self._own.get(gpu, frozenset())) for gpu in self.gpus[:gpus])
        return next(filter(None, found), None)

    @cached_property
    def energy_meter(self) -> GpuMeter:
        """The energy counter of this GPU."""
        return GpuMeter(self.facts.index)

    def power_meter(self, case: Case) -> nvml.PowerMeter | None:
        """A new power meter for a case on tensor cores, which the power cap slows; None for other cases."""
        return nvml.PowerMeter(self.facts.index) if case.math in TENSOR_MATH else None

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
        with self.faults_of(case):
            return GpuLaunchable(self, CaseArrays(self, case))

    def prepare_other(self, beside: KernelLaunchable, fingerprint: str) -> KernelLaunchable:
        assert isinstance(beside, GpuLaunchable)
        if not fingerprint:
            return beside
        case = beside.case
        with self.faults_of(case):
            built = built_before(case.stage, fingerprint)
            other = GpuLaunchable(self, CaseArrays(self, case, beside.arrays), built)
            self.code.forget_modules()
            self.exchange(beside, other)
        return other

    def exchange(self, leaving: KernelLaunchable, coming: KernelLaunchable) -> None:
        assert isinstance(leaving, GpuLaunchable)
        assert isinstance(coming, GpuLaunchable)
        if coming is leaving:
            return
        with self.faults_of(coming.case):
            leaving.unload()
            coming.load(kept=False)

    def warm_up(self) -> None:
        """Flush until the SM clock is near its highest (at most 400 times): an idle GPU has a low clock."""
        references.end()
        stream = self.sample_stream(SamplingPlan().batch, len(self.gpus))
        for gpu, before in self._before.items():
            self._own[gpu] = own_processes(before.load, nvml.load(gpu), os.getpid())
        for _ in range(400):
            clock = stream.clock_mhz()
            if clock is None or clock >= 0.98 * self.facts.sm_clock_max_mhz:
                return

    @contextmanager
    def faults_of(self, case: Case) -> Iterator[None]:
        """Raise a CUDA error of the block as the case's own failure."""
        try:
            yield
        except FAULTS as fault:
            raise self.faulted(case, fault) from None

    def faulted(self, case: Case, fault: Exception) -> KernelFault | MemoryError:
        """Convert a CUDA error to the case's failure; most of them destroy the context, which sets ``lost``."""
        try:
            for gpu in reversed(self.gpus):  # the current one last
                cupy.cuda.Device(gpu).use()
                cupy.cuda.get_current_stream().synchronize()
                cupy.zeros(1).sum().item()
        except FAULTS:
            self.lost = f"{case.id} faulted ({fault}) and destroyed the CUDA context"
        return failure(fault, lost=self.lost is not None)

    def close(self) -> None:
        """Destroy the CUDA contexts; this process's objects in them must not be used or freed any more."""
        assert self.lost is None, "a lost context ends with its process"
        _CLOSED.append(self)
        for gpu in self.gpus:
            cupy.cuda.Device(gpu).synchronize()
            driver.destroy_context(gpu)

    def sample_stream(self, batch: int, gpus: int = 1) -> SampleStream:
        """The stream of all samples, on the first ``gpus`` GPUs, for batches of up to ``batch``."""
        if gpus not in self._streams or self._streams[gpus].largest_batch < batch:
            self._streams[gpus] = SampleStream(self.facts.l2_bytes, batch, self.gpus[:gpus])
        return self._streams[gpus]
