"""The properties of one NVIDIA GPU, from CUDA and NVML, and its theoretical peaks; read-only."""

from __future__ import annotations

from dataclasses import dataclass

import cupy

from peakgate.compile import nvrtc
from peakgate.device import nvml
from peakgate.device.driver import cublas_version, slug
from peakgate.judge.metrics import Peaks, pcie_gbs, theoretical_peaks


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


def read(index: int) -> tuple[NvmlFacts, Peaks | None]:
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
        slug=slug(name),
        uuid=nvml.uuid_of(handle),
        index=index,
        compute_capability=f"{capability[0]}.{capability[1]}",
        driver=seen.driver,
        cuda_driver=f"{cuda_driver // 1000}.{cuda_driver % 1000 // 10}",
        nvrtc=nvrtc.version(),
        cupy=cupy.__version__,
        cublas=cublas_version(),
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
        memory_clock_mhz=facts.memory_clock_max_mhz,
        bus_width_bits=facts.memory_bus_bits,
        sm_count=facts.sm_count,
        sm_clock_mhz=facts.sm_clock_max_mhz,
        capability=capability,
        link_gbs=pcie_gbs(generation, lanes) if generation and lanes else None,
        nvlinks_mbs=nvml.nvlinks_mbs(handle),
    )
    return facts, peaks
