"""What one NVIDIA GPU says of itself, through CUDA and NVML; nothing here changes a setting."""

from __future__ import annotations

from dataclasses import dataclass

import cupy
import pynvml
from peakgate.build import nvrtc
from peakgate.device.driver import cublas_version, slug
from peakgate.device.preflight import ask, handle
from peakgate.judge.metrics import Peaks, pcie_gbs, theoretical_peaks


@dataclass(frozen=True, slots=True)
class NvmlFacts:
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


def read(index: int) -> tuple[NvmlFacts, Peaks | None]:
    """The facts of the GPU with this CUDA device index, and its theoretical peaks."""
    runtime = cupy.cuda.runtime
    cuda_driver = runtime.driverGetVersion()
    properties = runtime.getDeviceProperties(index)
    attributes = cupy.cuda.Device(index).attributes
    name = properties["name"].decode()
    nvml = handle(index)
    sm_clock_max = ask(lambda: pynvml.nvmlDeviceGetMaxClockInfo(nvml, pynvml.NVML_CLOCK_SM))
    power_limit = ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(nvml))
    ecc = ask(lambda: pynvml.nvmlDeviceGetEccMode(nvml))
    mig = ask(lambda: pynvml.nvmlDeviceGetMigMode(nvml))
    generation = ask(lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(nvml))
    lanes = ask(lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(nvml))
    capability = (properties["major"], properties["minor"])
    facts = NvmlFacts(
        name=name,
        slug=slug(name),
        uuid=pynvml.nvmlDeviceGetUUID(nvml),
        index=index,
        compute_capability=f"{capability[0]}.{capability[1]}",
        driver=ask(pynvml.nvmlSystemGetDriverVersion),
        cuda_driver=f"{cuda_driver // 1000}.{cuda_driver % 1000 // 10}",
        nvrtc=nvrtc.version(),
        cupy=cupy.__version__,
        cublas=cublas_version(),
        vbios=ask(lambda: pynvml.nvmlDeviceGetVbiosVersion(nvml)),
        sm_count=properties["multiProcessorCount"],
        sm_clock_max_mhz=sm_clock_max or attributes["ClockRate"] / 1e3,
        sm_clock_mhz=ask(lambda: pynvml.nvmlDeviceGetClockInfo(nvml, pynvml.NVML_CLOCK_SM)),
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
