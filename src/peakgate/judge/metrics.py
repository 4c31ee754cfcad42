"""Theoretical peaks of a GPU from its attributes, and figures of merit from samples: rates, fractions of peak and roof.

Peaks are those of memory, host link, NVLink, FP32, and tensor cores by type, all at the highest SM clock. NVIDIA's data
sheets give tensor cores at a lower one: the 989 TFLOP/s of an H200 in bf16 are at 1830 MHz; at its highest clock, 1980
MHz, they are 1070. Roofs are those that the same run measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from peakgate.measure.sampling import Samples
from peakgate.spec.case import Case

if TYPE_CHECKING:
    from peakgate.judge.occupancy import Capability

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
Bottleneck = Literal["memory", "compute", "link", "nvlink"]
PCIE_GBS_PER_LANE = {
    1: 0.25,
    2: 0.5,
    3: 8 / 8 * 128 / 130,
    4: 16 / 8 * 128 / 130,
    5: 32 / 8 * 128 / 130,
    6: 64 / 8 * 242 / 256,
}
"""One direction of one PCI Express lane in GB/s by generation: transfer rate / 8 x code (6: flit) efficiency."""

TENSOR_OPERATIONS: Mapping[Capability, Mapping[str, int]] = {
    (7, 5): {"int8": 2048},
    (8, 0): {"tf32": 1024, "bf16": 2048, "fp16": 2048, "int8": 4096},
    (8, 6): {"int8": 2048},
    (8, 9): {"int8": 2048},
    (9, 0): {"tf32": 2048, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192},
    (10, 0): {"tf32": 4096, "bf16": 8192, "fp16": 8192, "fp8": 16384, "fp4": 32768, "int8": 16384},
    (10, 3): {"tf32": 4096, "bf16": 8192, "fp16": 8192, "fp8": 16384, "fp4": 49152, "int8": 546},
    (12, 0): {"tf32": 512, "bf16": 1024, "fp16": 1024, "fp8": 2048, "fp4": 4096, "int8": 2048},
}
"""Dense operations per SM and clock by type; a multiply-add counts as two, floats are accumulated in float32.

A type is absent if the capability has no such instructions or does not determine the rate: GeForce products of 7.5,
8.6 and 8.9 accumulate in float32 at half the rate of professional ones; for 12.0 GEFORCE_OPERATIONS has theirs. From
NVIDIA's whitepapers, TFLOP/s over SMs and boost clock:

- 7.5 "NVIDIA Turing GPU Architecture": T4, 130 TOP/s int8 / 40 SM / 1.59 GHz = 2048.
- 8.0 "NVIDIA A100 Tensor Core GPU Architecture": 1024 FMAs in fp16 per SM and clock; tf32 half of that, int8 twice.
- 8.6 "NVIDIA Ampere GA102 GPU Architecture", 8.9 "NVIDIA Ada GPU Architecture": int8 284 / 82 / 1.695 and
  661 / 128 / 2.52, GeForce and professional ones alike.
- 9.0 "NVIDIA H100 Tensor Core GPU Architecture": 989.4 TFLOP/s bf16 / 132 SM / 1.83 GHz = 4096.
- 10.0 CUTLASS 4, media/docs/cpp/blackwell_functionality.md, "Blackwell SM100 GEMMs": tcgen05.mma has twice the rate of
  Hopper in each of these types; kind::mxf4 and kind::mxf4nvf4 have four times Hopper's rate of fp8.
- 10.3 NVIDIA's technical blog, "Inside NVIDIA Blackwell Ultra": dense fp4 15 PFLOP/s, fp8 a third of it; the PTX ISA
  has fp4 with K = 96 there beside 64. Data sheet of the GB300 NVL72: fp8 720 PFLOP/s, int8 24 POP/s, a thirtieth; the
  PTX ISA has no kind::i8 there, and by the cuBLASDx guide integers are left to mma.sync. The other types as 10.0.
- 12.0 "NVIDIA RTX PRO Blackwell GPU Architecture": RTX PRO 6000, bf16 503.8 / 188 / 2.617, tf32 half of that, fp8 and
  int8 twice, fp4 four times. CUTLASS has the same ratios, see below.
"""

GEFORCE_OPERATIONS: Mapping[Capability, Mapping[str, int]] = {(12, 0): {"tf32": 256, "bf16": 512, "fp16": 512}}
"""What differs in GeForce products, which the capability does not distinguish.

- 12.0 "NVIDIA RTX Blackwell GPU Architecture": RTX 5090, bf16 209.5 / 170 / 2.407, tf32 half of that, int8 838. Its fp8
  with float32 sums, 419, is that of Ada's instructions; CUTLASS, "Blackwell SM120 GEMMs": mma.kind::f8f6f4 has twice
  that rate, fp4 four times, as professional products.
"""


def tensor_operations(capability: Capability, name: str) -> Mapping[str, int]:
    """Operations per SM and clock by type of the GPU of that name."""
    of_line = GEFORCE_OPERATIONS.get(capability, {}) if "GeForce" in name else {}
    return {**TENSOR_OPERATIONS.get(capability, {}), **of_line}


@dataclass(frozen=True, slots=True)
class Peaks:
    """Theoretical peaks: memory in GB/s (1e9 bytes), FP32 in TFLOP/s; ``derivation`` shows the calculation.

    ``link_gbs`` is one direction of the host link, ``nvlink_gbs`` one direction of all active NVLinks; None if the
    driver does not report it. ``tensor_tflops`` is by type, for the known ones; int8 operations count as flops.
    """

    memory_gbs: float
    fp32_tflops: float
    derivation: str
    link_gbs: float | None = None
    tensor_tflops: Mapping[str, float] = field(default_factory=dict)
    nvlink_gbs: float | None = None

    def arithmetic_tflops(self, case: Case) -> float | None:
        """The peak of a case's operations; None if the case declares a type whose peak is unknown.

        If the type follows from its inputs and its peak is unknown, the peak is that of FP32.
        """
        if case.work.peak_tflops:
            return case.work.peak_tflops
        known = {"fp32": self.fp32_tflops, **self.tensor_tflops}
        return known.get(case.math, None if case.work.math else self.fp32_tflops)

    def least_time_us(self, case: Case) -> tuple[float, Bottleneck] | None:
        """The least time of a case's work in µs, and the peak that determines it (the roofline model).

        A case whose roof is a link, to the host or between GPUs, is bound by that link. Bytes of a repeated launch may
        come from the L2, whose peak is unknown: only operations bind it. None if the needed peak is unknown.
        """
        work = case.work
        if case.roof == "link":
            return (work.bytes / self.link_gbs / 1e3, "link") if self.link_gbs else None
        if case.roof == "nvlink":
            return (work.bytes / self.nvlink_gbs / 1e3, "nvlink") if self.nvlink_gbs else None
        memory_us = 0.0 if case.repeated else work.bytes / self.memory_gbs / 1e3
        tflops = self.arithmetic_tflops(case)
        if (work.flops and tflops is None) or (case.repeated and not work.flops):
            return None
        compute_us = work.flops / tflops / 1e6 if tflops else 0.0
        return (memory_us, "memory") if memory_us >= compute_us else (compute_us, "compute")


def theoretical_peaks(
    *,
    name: str,
    memory_clock_mhz: float,
    bus_width_bits: int,
    sm_count: int,
    sm_clock_mhz: float,
    capability: Capability,
    link_gbs: float | None = None,
    nvlinks_mbs: Sequence[int] = (),
) -> Peaks | None:
    """Derive the peaks from device attributes; None for an unknown architecture.

    Memory: clock x 2 (double data rate) x bus width / 8. FP32: SMs x lanes x 2 (an FMA counts as two) x the highest SM
    clock. Tensor cores: SMs x tensor_operations x that clock. NVLink: the sum of the line rates ``nvlinks_mbs``, MB/s
    in one direction each.
    """
    from peakgate.judge.occupancy import LIMITS  # noqa: PLC0415  (of a GPU)

    limits = LIMITS.get(capability)
    if limits is None:
        return None
    lanes = limits.fp32_lanes_per_sm
    memory_gbs = memory_clock_mhz * 2 * bus_width_bits / 8 / 1e3
    fp32_tflops = sm_count * lanes * 2 * sm_clock_mhz / 1e6
    operations = tensor_operations(capability, name)
    tensor_tflops = {math: sm_count * each * sm_clock_mhz / 1e6 for math, each in operations.items()}
    tensor = "".join(f", {math} {operations[math]} = {rate:.1f}" for math, rate in tensor_tflops.items())
    derivation = (
        f"{memory_clock_mhz:.0f} MHz x 2 x {bus_width_bits} bit / 8 = {memory_gbs:.0f} GB/s; "
        f"{sm_count} SM x {lanes} lanes x 2 x {sm_clock_mhz:.0f} MHz = {fp32_tflops:.1f} TFLOP/s"
        + (f"; tensor cores, operations per SM and clock{tensor[1:]} TFLOP/s" if tensor else "")
    )
    nvlink_gbs = sum(nvlinks_mbs) / 1e3 or None
    if nvlink_gbs:
        derivation += f"; {len(nvlinks_mbs)} NVLinks, together {nvlink_gbs:.0f} GB/s"
    return Peaks(memory_gbs, fp32_tflops, derivation, link_gbs, tensor_tflops, nvlink_gbs)


def pcie_gbs(generation: int, lanes: int) -> float | None:
    """One direction of a PCI Express link in GB/s; None for an unknown generation."""
    rate = PCIE_GBS_PER_LANE.get(generation)
    return None if rate is None else rate * lanes


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of one case in one run, from the median sample.

    ``peak_fraction`` is the least time at the theoretical peak over the measured time, by the ``bound`` that limits;
    None without a known peak (the emulator, an unknown architecture). ``roof_fraction`` is the rate over the roof that
    the same run measured.
    """

    time_us: float
    gbs: float
    tflops: float
    peak_fraction: float | None
    bound: Bottleneck | None
    roof_fraction: float | None
    roof: str | None


def metrics(case: Case, samples: Samples, peaks: Peaks | None, roofs: Mapping[str, float]) -> Metrics:
    """Work over median time, compared with the GPU's peaks and this run's roofs.

    ``roofs`` maps a roof's name (``copy_1GiB``: GB/s; ``fma``, ``bf16``: TFLOP/s) to its measured rate.
    """
    time_us = samples.median_us
    gbs = case.work.bytes / time_us / 1e3
    tflops = case.work.flops / time_us / 1e6
    peak_fraction: float | None = None
    bound: Bottleneck | None = None
    least = peaks.least_time_us(case) if peaks is not None and case.work.claimed else None
    if least is not None:
        peak_fraction, bound = least[0] / time_us, least[1]
    compared = case.work.claimed and (case.arithmetic_roof or not case.repeated)
    roof = matching_roof(case, roofs) if compared else None
    rate = tflops if case.arithmetic_roof else gbs
    return Metrics(time_us, gbs, tflops, peak_fraction, bound, rate / roofs[roof] if roof else None, roof)


def matching_roof(case: Case, roofs: Mapping[str, float]) -> str | None:
    """The roof to compare with: of the case's kind, and for memory roofs of the nearest buffer size.

    Bandwidth depends on the size: a 256 MiB transpose is compared with the 256 MiB copy, not the 4 GiB one.
    """
    sizes = {}
    for name in roofs:
        kind, _, size = name.partition("_")
        if kind == case.roof:
            unit = size.lstrip("0123456789")
            sizes[name] = int(size.removesuffix(unit)) * _UNITS[unit] if unit in _UNITS else 0
    if not sizes:
        return None
    largest = max((buffer.nbytes for buffer in case.buffers), default=0)
    return min(sizes, key=lambda name: (abs(sizes[name] - largest), name))
