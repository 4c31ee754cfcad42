"""The roofs of a run: the achievable rates of the GPU, measured before the cases that are compared with them.

Every run measures four kernels (copy, read, write, fma) and the driver's device-to-device copy. A roof's name is its
kind and the size of its largest array: ``copy_1GiB``, ``read_256MiB``, ``fma``. Tensor cores have a roof per type, such
as ``bf16``, which is measured if a case is compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from peakgate.device.interface import Device
from peakgate.judge.metrics import metrics
from peakgate.measure.sampling import SamplingPlan
from peakgate.spec.case import Argument, Array, Buffer, Case, Launch, Role, Scalar, Stage, Work
from peakgate.spec.dtypes import storage
from peakgate.spec.recorded import TENSOR_MATH

ROOFS_FOLDER = Path(__file__).parent
THREADS = 256

# Sizes of the largest array. Copies of 4 GiB are not faster than those of 1 GiB and take four times as long.
SIZES = {"16MiB": 16 << 20, "64MiB": 64 << 20, "256MiB": 256 << 20, "1GiB": 1 << 30}

# Least float4 per thread of a grid-stride launch, and most blocks: 15 full waves on 132 SMs.
QUADS_PER_THREAD, MAX_GRID_STRIDE_BLOCKS = 4, 16_384

# With 16 rounds the one store per thread is negligible beside 16384 operations.
FMA_THREADS, FMA_ROUNDS, FMA_CHAINS, FMA_PAIRS = 1 << 24, 16, 8, 32

# 62 blocks per SM on 132 SMs, and as many passes as make a launch of 5 ms on an H200 at its highest clock: the L2 flush
# between two launches is 1 % of the time. Blocks share the tiles of A.
TENSOR_BLOCKS, TENSOR_PASSES, TENSOR_TILES = 8192, 320, 32

# Bytes of a row of A or B in one step of k, for every type.
ROW_BYTES = 32

# Input types of the roofs. There is none for fp4, whose products need scales.
ELEMENTS = {"tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn", "int8": "int8"}

_PLAN = SamplingPlan(min_samples=6, max_samples=36, budget_us=4_000)

# Tensor cores reach the power cap: 60 ms of launches precede the first sample, until the clock is steady.
_STEADY = SamplingPlan(min_samples=12, max_samples=24, budget_us=60_000, fair_us=60_000, warmup=12)


@dataclass(frozen=True, slots=True)
class TensorKernel:
    """A kernel that saturates the tensor cores: its name, least capability by type, and the shape of one pass."""

    name: str
    needs: Mapping[str, tuple[int, int]]
    specific: bool
    rows: int
    columns: int
    steps: int
    threads: int
    tiles_per_block: int
    shared_bytes: int = 0


MMA = TensorKernel(
    "mma_roof",
    {"tf32": (8, 0), "bf16": (8, 0), "fp16": (8, 0), "fp8": (8, 9), "int8": (8, 0)},
    specific=False,
    rows=16,
    columns=64,
    steps=2,
    threads=256,
    tiles_per_block=8,
)
WGMMA = TensorKernel(
    "wgmma_roof",
    dict.fromkeys(ELEMENTS, (9, 0)),
    specific=True,
    rows=64,
    columns=256,
    steps=4,
    threads=128,
    tiles_per_block=1,
)

TCGEN05 = TensorKernel(
    "tcgen05_roof",
    dict.fromkeys(ELEMENTS, (10, 0)),
    specific=True,
    rows=128,
    columns=256,
    steps=4,
    threads=128,
    tiles_per_block=1,
    shared_bytes=(128 + 256) * 128 + 3 * 8 + 8,  # tiles, barriers, the address of the sums
)
TCGEN05_OF_10_3 = replace(TCGEN05, needs={math: (10, 3) for math in ELEMENTS if math != "int8"})

# Capabilities on which mma.sync does not saturate the tensor cores.
_BEYOND_MMA = {(9, 0): WGMMA, (10, 0): TCGEN05, (10, 3): TCGEN05_OF_10_3}


def roof_cases() -> list[Case]:
    """Every roof at each of its sizes. A run does not check their results; Peakgate's tests do."""
    found = [fma_case(FMA_THREADS)]
    for size, nbytes in SIZES.items():
        found += [copy_case(size, nbytes), memcpy_case(size, nbytes), read_case(size, nbytes), write_case(size, nbytes)]
    return found


def copy_case(size: str, nbytes: int) -> Case:
    """Every float read once and written once."""
    quads = nbytes // 16
    arguments = (Buffer(Role.OUT, (quads, 4)), Buffer(Role.IN, (quads, 4)), Scalar(quads, "uint64"))
    return _case("copy", size, -(-quads // THREADS), arguments, Work(2 * nbytes))


def memcpy_case(size: str, nbytes: int) -> Case:
    """As ``copy_case``, by the driver."""
    arguments = (Buffer(Role.OUT, (nbytes // 4,)), Buffer(Role.IN, (nbytes // 4,)))
    return _case("copy", size, 1, arguments, Work(2 * nbytes), operation="memcpy")


def read_case(size: str, nbytes: int) -> Case:
    """Every float read once; one sum written per warp."""
    quads = nbytes // 16
    blocks = _grid_stride(quads)
    sums = blocks * THREADS // 32
    arguments = (Buffer(Role.OUT, (sums,)), Buffer(Role.IN, (quads, 4)), Scalar(quads, "uint64"))
    return _case("read", size, blocks, arguments, Work(nbytes + 4 * sums))


def write_case(size: str, nbytes: int) -> Case:
    """Every float written once."""
    quads = nbytes // 16
    return _case(
        "write", size, _grid_stride(quads), (Buffer(Role.OUT, (quads, 4)), Scalar(quads, "uint64")), Work(nbytes)
    )


def fma_case(threads: int, rounds: int = FMA_ROUNDS) -> Case:
    """One float written per thread; an FMA counts as two operations, a pair is two FMAs, a thread has eight chains."""
    flops = 2 * 2 * FMA_PAIRS * rounds * FMA_CHAINS * threads
    arguments = (Buffer(Role.OUT, (threads,)), Scalar(rounds))
    return _case("fma", "", threads // THREADS, arguments, Work(4 * threads, flops))


def tensor_roofs(maths: Iterable[str], capability: tuple[int, int] | None) -> list[Case]:
    """The roofs of tensor core types, as far as this compute capability has instructions for them."""
    if capability is None:
        return []
    kernel = _BEYOND_MMA.get(capability, MMA)
    having = {math for math, needed in kernel.needs.items() if capability >= needed}
    return [tensor_case(math, kernel) for math in sorted(having.intersection(maths))]


def tensor_case(
    math: str, kernel: TensorKernel, blocks: int = TENSOR_BLOCKS, passes: int = TENSOR_PASSES, tiles: int = TENSOR_TILES
) -> Case:
    """Products of tiles A.B^T, each ``passes`` times; four sums come out per row, each of a quarter of the columns.

    A has ``tiles`` tiles, which the blocks share. Inputs are normally distributed: with zeros tensor cores draw less
    power and are 13 % faster.
    """
    count = blocks * kernel.tiles_per_block
    depth = kernel.steps * ROW_BYTES // storage(ELEMENTS[math]).itemsize
    data = None if math == "int8" else normal
    left = Buffer(Role.IN, (tiles * kernel.rows, depth), ELEMENTS[math], data)
    right = Buffer(Role.IN, (kernel.columns, depth), ELEMENTS[math], data)
    sums = Buffer(Role.OUT, (count * kernel.rows, 4), "int32" if math == "int8" else "float32")
    flops = 2 * kernel.rows * kernel.columns * depth * passes * count
    work = Work(left.nbytes + right.nbytes + sums.nbytes, flops, math=math)
    stage = Stage(
        kernel.name,
        "",
        source=ROOFS_FOLDER / f"{kernel.name}.cu",
        min_capability=kernel.needs[math],
        specific=kernel.specific,
    )
    return Case(
        family="roof",
        stage=stage,
        launch=Launch((blocks, 1, 1), (kernel.threads, 1, 1), kernel.shared_bytes),
        arguments=(sums, left, right, Scalar(tiles), Scalar(passes)),
        work=work,
        reference=None,
        variant=math,
        defines=(("MATH", f"MATH_{math.upper()}"),),
        roof=math,
    )


def normal(xp: Any, shape: tuple[int, ...]) -> Array:
    """Normally distributed values that are exact in tf32, which lacks the last 13 bits of a float32."""
    drawn = np.random.default_rng(shape[0]).standard_normal(shape, np.float32)
    return xp.asarray((drawn.view(np.uint32) & 0xFFFFE000).view(np.float32))


def measure_roofs(device: Device, cases: Sequence[Case]) -> dict[str, float]:
    """The best rate of each kind and size: GB/s, or TFLOP/s for arithmetic.

    Empty on a device without peaks (the emulator); without roofs whose samples were throttled.
    """
    if device.peaks is None:
        return {}
    roofs: dict[str, float] = {}
    for case in cases:
        if device.refusal(case):
            continue
        samples = device.prepare(case).sample(_STEADY if case.roof in TENSOR_MATH else _PLAN)
        if not samples.conclusive:
            continue
        figures = metrics(case, samples, device.peaks, {})
        name, rate = (case.roof, figures.tflops) if case.arithmetic_roof else (f"{case.roof}_{case.size}", figures.gbs)
        roofs[name] = max(rate, roofs.get(name, 0.0))
    return {name: round(rate, 3) for name, rate in sorted(roofs.items())}


def _case(
    roof: str, size: str, blocks: int, arguments: tuple[Argument, ...], work: Work, *, operation: str | None = None
) -> Case:
    name = operation or f"{roof}_roof"
    stage = Stage(name, "", operation=operation, source=None if operation else ROOFS_FOLDER / f"{name}.cu")
    return Case(
        family="roof",
        stage=stage,
        launch=Launch((blocks, 1, 1), (THREADS, 1, 1)),
        arguments=arguments,
        work=work,
        reference=None,
        size=size,
        roof=roof,
    )


def _grid_stride(quads: int) -> int:
    return min(-(-quads // (QUADS_PER_THREAD * THREADS)), MAX_GRID_STRIDE_BLOCKS)
