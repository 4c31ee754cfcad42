"""The limits that this GPU reaches: copies, reads, writes, fused multiply-adds, and tensor cores by type.

A size label is the bytes of the array that is read (or, where nothing is read, written). The sizes from 16MiB to 1GiB
are those of square float32 matrices with sides from 2048 to 16384, so each such matrix has a copy of its own size.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from peakgate.family import Array, Family, In, Out, Value, family, kernel, stage

THREADS = 256
FLOAT_BYTES = 4

MEMORY_SIZES = {"16MiB": 16 << 20, "64MiB": 64 << 20, "256MiB": 256 << 20, "1GiB": 1 << 30, "4GiB": 4 << 30}
MEMORY_GATE = (256 << 20, 1 << 30)
MEMORY_PROBES = (1, 3, 127, 1024, 4098, 100_003)
"""Numbers of floats: less than one float4, less than a block, whole blocks, and every length of tail."""
FMA_PROBES = (1, 3, 127, 1027)

QUADS_PER_THREAD = 4
"""Number of float4 that copy_float4_x4 moves per thread, and the least that a thread of a grid-stride launch moves."""
MAX_GRID_STRIDE_BLOCKS = 16_384
"""15 full waves on a GPU with 132 SMs: whatever the number of SMs, those that idle in the last wave cost little."""

CHAINS = 8
ROUND_PAIRS = 32
BENCH_ROUNDS, SMALL_ROUNDS = 16, 2
"""Rounds of ROUND_PAIRS pairs of FMAs per chain; with 16, a thread's one store is negligible beside 16384
operations."""

RAMP_PERIOD = 1 << 24
"""write_float4 stores each element's index modulo this; a float represents every smaller integer exactly."""

SUM_TOLERANCE = 1e-5
"""For the sum of a block in float32: a thread adds at most some hundred values before the tree, each rounded to
6e-8."""


ELEMENTS = {"tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn", "int8": "int8"}
OF_TCGEN05 = ELEMENTS | {"fp4": "uint8"}
"""Two numbers of 4 bits in a byte, the first in its lower half."""
STEP_ELEMENTS = {"tf32": 8, "bf16": 16, "fp16": 16, "fp8": 32, "int8": 32, "fp4": 64}
"""Elements of a row in one step along k, which is 32 bytes."""
MAGNITUDES_OF_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)

TILES = 32
"""Tiles of A, which all warps or warpgroups of a launch share."""

TENSOR_SIZES, TENSOR_SMALL, TENSOR_PROBES = [(8192, 320)], [(2, 2)], [(1, 1), (5, 3)]
"""Blocks and passes: 62 blocks for each of 132 SMs; a launch takes 5 ms on an H200 at its highest clock."""

FP8_TOLERANCE = 2.0**-8
"""Hopper truncates each of 33 terms of a product of e4m3 at 13 bits below the largest before it adds them: an error of
at most 2**-8 of the largest. A missing step of the four is an error of half the magnitude."""


def copied(xp: Any, values: Array) -> Array:  # noqa: ARG001  (numpy and cupy alike)
    """The input itself."""
    return values


def block_sums(xp: Any, values: Array, *, count: int | None = None) -> Array:
    """The sum that each block of a grid-stride launch with ``count`` blocks writes, in float64.

    The threads of the grid take float4 in turn; block 0 has the last ``n % 4`` floats.
    """
    count = count or grid_stride(values.size)
    sweep = count * 4 * THREADS
    sweeps = values.size // sweep + 1
    quads_end = values.size // 4 * 4
    # One more sweep takes the tail. Every sum is exact in float64; a single reduction is a single kernel for CuPy to
    # compile.
    whole = xp.zeros((sweeps + 1) * sweep, dtype=values.dtype)
    whole[:quads_end] = values[:quads_end]
    whole[sweeps * sweep : sweeps * sweep + values.size - quads_end] = values[quads_end:]
    return whole.reshape(sweeps + 1, count, -1).sum(axis=(0, 2), dtype="float64")


def block_magnitudes(xp: Any, values: Array) -> Array:
    """The root of the sum of the squares of the values that each block adds up."""
    return xp.sqrt(block_sums(xp, values**2))


def ramp(xp: Any, *, n: int) -> Array:
    """Each element's index, modulo RAMP_PERIOD."""
    period = xp.arange(min(n, RAMP_PERIOD), dtype="float32")
    return xp.tile(period, ceil(n / RAMP_PERIOD))[:n]


def chain_sums(xp: Any, *, n: int, rounds: int) -> Array:
    """Chain c of thread t starts at t % 1024 + c and gains 3 with each pair of steps; all is exact in float32."""
    starts = np.arange(1024)
    sums = CHAINS * starts + CHAINS * (CHAINS - 1) // 2 + CHAINS * 3 * rounds * ROUND_PAIRS
    return xp.tile(xp.asarray(sums.astype("float32")), ceil(n / 1024))[:n]


def normal(xp: Any, shape: tuple[int, ...]) -> Array:
    """Normally distributed values that are exact in tf32: on zeros tensor cores draw less power and run 13 % faster."""
    drawn = np.random.default_rng(shape[0]).standard_normal(shape, np.float32)
    return xp.asarray((drawn.view(np.uint32) & 0xFFFFE000).view(np.float32))


def codes(xp: Any, shape: tuple[int, ...]) -> Array:
    """Any two numbers of 4 bits in each byte."""
    return xp.asarray(np.random.default_rng(shape[0]).integers(0, 256, shape, np.uint8))


def of_codes(xp: Any, packed: Array) -> Array:
    """The numbers of 4 bits (e2m1) of each row, in float64."""
    of_all = xp.asarray([sign * number for sign in (1, -1) for number in MAGNITUDES_OF_E2M1])
    return of_all[xp.stack((packed & 15, packed >> 4), axis=-1).reshape(len(packed), -1)]


def tile_sums(xp: Any, left: Array, right: Array, *, rows: int) -> Array:
    """A.B^T in float64, tiles of A taken in turn; four sums per row, of the columns 8 n + 2 t and 8 n + 2 t + 1."""
    product = left.astype("float64") @ right.astype("float64").T
    sums = product.reshape(len(left), -1, 4, 2).sum(axis=(1, 3))
    return xp.tile(sums, (ceil(rows / len(left)), 1))[:rows]


def tile_magnitudes(xp: Any, left: Array, right: Array, *, rows: int) -> Array:
    """The root of the sum of the squares of the products that are added up for each element."""
    return xp.sqrt(tile_sums(xp, left.astype("float64") ** 2, right.astype("float64") ** 2, rows=rows))


def blocks(n: int, floats: int) -> int:
    """Number of blocks if each thread takes this many floats."""
    return ceil(n / (floats * THREADS))


def grid_stride(n: int) -> int:
    """Number of blocks of a grid-stride launch, with QUADS_PER_THREAD float4 or more per thread."""
    return min(blocks(n, 4 * QUADS_PER_THREAD), MAX_GRID_STRIDE_BLOCKS)


_MEMORY: dict[str, Any] = {
    "block": THREADS,
    "sizes": {label: nbytes // FLOAT_BYTES for label, nbytes in MEMORY_SIZES.items()},
    "gate": lambda n: n * FLOAT_BYTES in MEMORY_GATE,
    "small_sizes": {"256KiB": (256 << 10) // FLOAT_BYTES},
    "edges": MEMORY_PROBES,
}
_COPY: dict[str, Any] = _MEMORY | {
    "arguments": lambda n: [Out(n), In(n), Value(n, "uint64")],
    "bytes": lambda n: 2 * FLOAT_BYTES * n,  # every float is read once and written once
    "reference": copied,
    "tolerance": 0.0,
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A kind of tensor core instruction: the product of one tile in one pass, and how tiles are assigned to a block."""

    name: str
    rows: int
    columns: int
    steps: int
    tiles_per_block: int
    threads: int
    needs: str
    lesson: str
    shared_bytes: int = 0


MMA = Tensor("mma", 16, 64, 2, 8, 256, "8.0", "Products in {} by mma.sync, all in registers.")
WGMMA = Tensor("wgmma", 64, 256, 4, 1, 128, "9.0a", "Products in {} by wgmma, B in shared memory.")
TCGEN05 = Tensor(
    *("tcgen05", 128, 256, 4, 1, 128, "10.0a", "On Blackwell, products in {} by tcgen05.mma, sums in tensor memory."),
    shared_bytes=(128 + 256) * 128 + 3 * 8 + 4,
)


def _tensor(number: int, kind: Tensor, math: str) -> Family:
    element, depth = OF_TCGEN05[math], kind.steps * STEP_ELEMENTS[math]
    data = {"int8": None, "fp4": codes}.get(math, normal)
    width = depth // 2 if math == "fp4" else depth
    rows_per_block = kind.rows * kind.tiles_per_block
    left_bytes = TILES * kind.rows * kind.steps * 32
    right_bytes = kind.columns * kind.steps * 32

    def arguments(blocks: int, passes: int) -> list[Any]:
        return [
            Out(blocks * rows_per_block, 4, dtype="int32" if math == "int8" else "float32"),
            In(TILES * kind.rows, width, dtype=element, data=data),
            In(kind.columns, width, dtype=element, data=data),
            Value(TILES),
            Value(passes),
        ]

    def numbers(xp: Any, given: Array) -> Array:
        return of_codes(xp, given) if math == "fp4" else given

    def expected(xp: Any, left: Array, right: Array, *, blocks: int) -> Array:
        return tile_sums(xp, numbers(xp, left), numbers(xp, right), rows=blocks * rows_per_block)

    def magnitudes(xp: Any, left: Array, right: Array, *, blocks: int) -> Array:
        return tile_magnitudes(xp, numbers(xp, left), numbers(xp, right), rows=blocks * rows_per_block)

    return stage(number, f"{kind.name}_{math}", kind.lesson.format(math))(
        grid=lambda blocks, _: blocks,
        block=kind.threads,
        shared_bytes=kind.shared_bytes,
        arguments=arguments,
        # Both inputs are read once, four sums of 4 bytes written per row; a product and its sum are two operations.
        bytes=lambda blocks, _: left_bytes + right_bytes + 16 * blocks * rows_per_block,
        flops=lambda blocks, passes: 2 * blocks * rows_per_block * kind.columns * depth * passes,
        reference=expected,
        scale=None if math == "int8" else magnitudes,
        terms=depth * kind.columns // 4,
        tolerance=FP8_TOLERANCE if math == "fp8" else None,
        math=math,
        sizes=TENSOR_SIZES,
        small_sizes=None if kind is WGMMA else TENSOR_SMALL,
        edges=TENSOR_PROBES,
        gate=False,
        min_capability=kind.needs,
    )


FAMILY = family(
    stage(1, "copy_float", "One float per thread: too few bytes in flight.")(grid=lambda n: blocks(n, 1), **_COPY),
    stage(2, "copy_float4", "One float4 per thread.")(grid=lambda n: blocks(n, 4), **_COPY),
    stage(3, "copy_float4_x4", "Four float4 in flight per thread.")(
        grid=lambda n: blocks(n, 4 * QUADS_PER_THREAD),
        defines={"QUADS_PER_THREAD": QUADS_PER_THREAD},
        **_COPY,
    ),
    stage(4, "copy_float4_grid", "A fixed grid loops over the array.")(grid=grid_stride, **_COPY),
    kernel(
        operation="memcpy",
        lesson="The driver's device-to-device copy.",
        **_COPY | {"arguments": lambda n: [Out(n), In(n)]},
    ),
    stage(5, "read_float4", "Reads only; each block writes one sum.")(
        grid=grid_stride,
        arguments=lambda n: [Out(grid_stride(n)), In(n), Value(n, "uint64")],
        bytes=lambda n: FLOAT_BYTES * (n + grid_stride(n)),  # every float is read once; each block writes one sum
        reference=block_sums,
        scale=block_magnitudes,
        tolerance=SUM_TOLERANCE,
        roof="read",
        **_MEMORY,
    ),
    stage(6, "write_float4", "Writes only.")(
        grid=grid_stride,
        arguments=lambda n: [Out(n), Value(n, "uint64")],
        bytes=lambda n: FLOAT_BYTES * n,  # every float is written once
        reference=ramp,
        tolerance=0.0,
        roof="write",
        **_MEMORY,
    ),
    stage(7, "fma_chains", "Independent chains of fused multiply-adds.")(
        grid=lambda n, _: blocks(n, 1),
        block=THREADS,
        defines={"CHAINS": CHAINS, "ROUND_PAIRS": ROUND_PAIRS},
        arguments=lambda n, rounds: [Out(n), Value(n, "uint64"), Value(rounds)],
        # One float written per thread; an FMA is two operations, a pair two FMAs, and each thread has CHAINS chains.
        bytes=lambda n, _: FLOAT_BYTES * n,
        flops=lambda n, rounds: 2 * 2 * rounds * ROUND_PAIRS * CHAINS * n,
        reference=chain_sums,
        tolerance=0.0,
        roof="fma",
        sizes={"64MiB": ((64 << 20) // FLOAT_BYTES, BENCH_ROUNDS)},
        small_sizes={"4KiB": ((4 << 10) // FLOAT_BYTES, SMALL_ROUNDS)},
        edges={str(n): (n, SMALL_ROUNDS) for n in FMA_PROBES},
    ),
    *(_tensor(number, MMA, math) for number, math in enumerate(("tf32", "bf16", "fp16", "int8"), 8)),
    *(_tensor(number, WGMMA, math) for number, math in enumerate(ELEMENTS, 12)),
    *(_tensor(number, TCGEN05, math) for number, math in enumerate(OF_TCGEN05, 17)),
    summary="what the GPU reaches at best: copy, read, write, fused multiply-add and tensor cores by type",
)
