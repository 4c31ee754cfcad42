"""What one NVIDIA GPU says of itself, through CUDA and NVML; nothing here changes a setting."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import cupy
import pynvml
from peakgate.build import nvrtc
from peakgate.device.driver import slug
from peakgate.device.libraries import cublas_version
from peakgate.device.preflight import Load, Preflight, reasons
from peakgate.judge.peaks import Peaks, pcie_gbs, theoretical_peaks


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU: identity, software under it, clocks and limits. None where the driver does not report it."""

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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read(index: int) -> tuple[GpuFacts, Peaks | None]:
    """The facts of the GPU with this CUDA device index, and its theoretical peaks."""
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(index)
    attributes = cupy.cuda.Device(index).attributes
    name = properties["name"].decode()
    handle = _handle(index)
    sm_clock_max = _ask(lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM))
    power_limit = _ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    ecc = _ask(lambda: pynvml.nvmlDeviceGetEccMode(handle))
    mig = _ask(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    generation = _ask(lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))
    lanes = _ask(lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle))
    capability = (properties["major"], properties["minor"])
    facts = GpuFacts(
        name=name,
        slug=slug(name),
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        index=index,
        compute_capability=f"{capability[0]}.{capability[1]}",
        driver=_ask(pynvml.nvmlSystemGetDriverVersion),
        cuda_driver=_dotted(runtime.driverGetVersion()),
        nvrtc=nvrtc.version(),
        cupy=cupy.__version__,
        cublas=cublas_version(),
        vbios=_ask(lambda: pynvml.nvmlDeviceGetVbiosVersion(handle)),
        sm_count=properties["multiProcessorCount"],
        sm_clock_max_mhz=sm_clock_max or attributes["ClockRate"] / 1e3,
        sm_clock_mhz=_ask(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        memory_clock_max_mhz=attributes["MemoryClockRate"] / 1e3,
        memory_bus_bits=attributes["GlobalMemoryBusWidth"],
        memory_bytes=properties["totalGlobalMem"],
        l2_bytes=properties["l2CacheSize"],
        power_limit_w=None if power_limit is None else power_limit / 1e3,
        ecc=None if ecc is None else bool(ecc[0]),
        mig=None if mig is None else bool(mig[0]),
    )
    peaks = theoretical_peaks(
        memory_clock_mhz=facts.memory_clock_max_mhz,
        bus_width_bits=facts.memory_bus_bits,
        sm_count=facts.sm_count,
        sm_clock_mhz=facts.sm_clock_max_mhz,
        capability=capability,
        link_gbs=pcie_gbs(generation, lanes) if generation and lanes else None,
    )
    return facts, peaks


def preflight(index: int) -> Preflight:
    """The state of this GPU now; reads, changes nothing."""
    handle = _handle(index)
    processes = _ask(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    bits = _ask(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    limit = _ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    default = _ask(lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle))
    uncorrected, volatile = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    mig = _ask(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    return Preflight(
        other_processes=None if processes is None else sum(process.pid != os.getpid() for process in processes),
        throttle_reasons=() if bits is None else reasons(bits),
        power_limit_w=None if limit is None else limit / 1e3,
        default_power_limit_w=None if default is None else default / 1e3,
        temperature_c=_ask(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        uncorrected_ecc_errors=_ask(lambda: pynvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile)),
        mig=None if mig is None else bool(mig[0]),
    )


def load(index: int) -> Load:
    """Who computes on this GPU and what slows its clocks, now; two cheap questions to NVML."""
    handle = _handle(index)
    processes = _ask(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    bits = _ask(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    return Load(frozenset(process.pid for process in processes), () if bits is None else reasons(bits))


@cache
def _handle(index: int) -> Any:
    """NVML's handle of a CUDA device: by its place on the bus, since the two number devices each their own way."""
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device(index).pci_bus_id)


def _ask(question: Callable[[], Any]) -> Any:
    """NVML's answer; None where this GPU, driver or virtual machine does not give one."""
    try:
        return question()
    except pynvml.NVMLError:
        return None


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
