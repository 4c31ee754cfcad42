"""Names and records of cases in saved runs; readers of saved runs import this without the records of a case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Annotated, Literal

from msgspec import Meta, Struct

from peakgate.base.formatting import figure
from peakgate.base.records import Number

ID_PATTERN = re.compile(r"[A-Za-z0-9_.-]+")

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]")


def case_parts(nodeid: str) -> tuple[str, str, str]:
    """File, test and parameters of a test in the alphabet of case ids.

    ``a/bench_b.py::T::test_c[1-d]`` is ``a-bench_b``, ``T.test_c`` and ``1-d``.
    """
    path, _, test = nodeid.partition("::")
    name, _, parameters = test.partition("[")
    file = "-".join(PurePosixPath(path).with_suffix("").parts).replace(".", "_")
    parts = (file, name.replace("::", "."), parameters.removesuffix("]"))
    spelled = [_FORBIDDEN.sub("_", part) for part in parts]
    return spelled[0], spelled[1], spelled[2]


EMULATOR_SLUG = "cpu-emulator"
"""``machine_info.gpu.slug`` of runs whose times are emulated."""

TENSOR_MATH = ("tf32", "bf16", "fp16", "fp8", "fp4", "int8")
"""The types in which tensor cores compute; each is the name of its measured roof too."""

ARITHMETIC_ROOFS = ("fma", *TENSOR_MATH)
"""The measured roofs that are rates of operations; the others are rates of bytes."""


Metric = Literal["gpu", "launch"]
"""What the time of a case is. gpu: that of a launch on the GPU. launch: that which a call takes on the host, without
waiting for the GPU."""

TIME_OF: Mapping[Metric, str] = {"gpu": "GPU", "launch": "host"}
"""Whose time each is, in tables."""


class Tier(Enum):
    """GATE: every stage, few shapes, on every merge. FULL: all sizes and blocks."""

    GATE = "gate"
    FULL = "full"


class TunedChoice(Struct, frozen=True):
    """A tuner's choice for one kernel of a call: a configuration, and a digest of its code, None if unknown."""

    kernel: str
    configuration: str
    code: str | None = None


def kernels_in_text(kernels: Mapping[str, str | None]) -> str:
    """Names and digests of kernels as a column of a DataFrame holds them; names have no spaces."""
    return " ".join(f"{name}={code or ''}" for name, code in kernels.items())


def kernels_of(value: Mapping[str, str | None] | str | None) -> Mapping[str, str | None]:
    """The digest of each kernel by name, None if unknown, from a record or from ``kernels_in_text``."""
    if not isinstance(value, str):
        return value or {}
    parts = (each.rpartition("=") for each in value.split())
    return {name: code or None for name, _, code in parts}


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of one launch: median, least and most over several loops, and the power drawn.

    ``launch_us`` is the time of a launch in a loop, where the L2 has data of the launch before. ``idle_w`` is the power
    of the idle GPU, which is part of ``power_w``; None if it was not read. ``contents`` describes the buffer contents.
    """

    joules: Number
    least_joules: Number
    most_joules: Number
    loops: Number
    launch_us: Number
    power_w: Number
    idle_w: Number | None
    contents: str = "the same for every launch of a loop: a replayed answer is not excluded"


def means(meaning: str, column: int | None = None) -> Meta:
    """Document a field; ``column`` is its position among the columns of a DataFrame of runs, None for no column."""
    return Meta(title=meaning, extra={"column": column})


class CaseCounters(Struct, frozen=True, kw_only=True):
    """Hardware counters of one launch of a case, read by ``bench --counters``; null if the GPU lacks the counter.

    For a launch of several kernels, counts are summed, and fractions averaged with the kernels' times as weights.
    """

    launched_kernels: Annotated[Number, means("kernels that a launch of the case starts", 39)]
    load_sectors_per_request: Annotated[
        Number | None,
        means("sectors of 32 bytes per request of global loads; 4 if a warp reads 128 contiguous bytes", 40),
    ] = None
    store_sectors_per_request: Annotated[Number | None, means("the same for global stores", 41)] = None
    shared_load_conflicts: Annotated[Number | None, means("bank conflicts of loads from shared memory", 42)] = None
    shared_store_conflicts: Annotated[Number | None, means("bank conflicts of stores to shared memory", 43)] = None
    achieved_occupancy: Annotated[
        Number | None, means("active warps of an SM over the most it can have resident, from 0 to 1", 44)
    ] = None
    tensor_fraction: Annotated[
        Number | None, means("fraction of active cycles in which the tensor pipe of an SM was active", 45)
    ] = None
    l2_hit_fraction: Annotated[
        Number | None, means("fraction of the sectors requested by the SMs that hit in the L2", 46)
    ] = None
    l2_read_bytes: Annotated[Number | None, means("bytes that the SMs read from the L2", 47)] = None
    l2_written_bytes: Annotated[Number | None, means("bytes that the SMs wrote to the L2", 48)] = None
    dram_read_bytes: Annotated[Number | None, means("bytes read from device memory", 49)] = None
    dram_written_bytes: Annotated[
        Number | None, means("bytes written to device memory, without those still in the L2", 50)
    ] = None
    executed_flops: Annotated[
        Number | None,
        means("FP32, FP64 and tensor core operations executed; an FMA counts as two", 51),
    ] = None
    half_flops: Annotated[
        Number | None, means("upper limit of FP16x2 operations: moves and conversions count too", 52)
    ] = None


_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class WorkNote:
    """Declared work of a case that differs from the counted work; ``work`` is ``bytes`` or ``flops``.

    ``counter`` is the source: ``DRAM``, ``DRAM and stores in the L2``, ``the L2`` or ``the kernels``.
    """

    case: str
    work: str
    declared: float
    counted: float
    counter: str

    @property
    def sentence(self) -> str:
        """``a.b: declares 537 MB, DRAM moved 1.34 GB``."""
        unit, done = ("B", "moved") if self.work == "bytes" else ("FLOP", "executed")
        return (
            f"{self.case}: declares {_amount(self.declared, unit)}, {self.counter} {done} {_amount(self.counted, unit)}"
        )


def _amount(value: float, unit: str) -> str:
    """``16.8 MB``."""
    for size, prefix in _UNITS:
        if value >= size:
            return f"{figure(value / size, 3)} {prefix}{unit}"
    return f"{value:.3g} {unit}"
