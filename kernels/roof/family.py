"""What this GPU reaches at best: copies, one-way traffic and fused multiply-adds.

A size label is the bytes of the array that is read (or, where nothing is read, written). The sizes from 16MiB to 1GiB
are those of square float32 matrices with sides from 2048 to 16384, so each such matrix has a copy of its own size.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from peakgate.family import Array, Family, In, Out, Value, family, kernel

THREADS = 256
FLOAT_BYTES = 4

MEMORY_SIZES = {"16MiB": 16 << 20, "64MiB": 64 << 20, "256MiB": 256 << 20, "1GiB": 1 << 30, "4GiB": 4 << 30}
MEMORY_GATE = (256 << 20, 1 << 30)
MEMORY_PROBES = (1, 3, 127, 1024, 4098, 100_003)
"""Floats: shorter than a quad, shorter than a block, whole blocks, and every length of tail."""
FMA_PROBES = (1, 3, 127, 1003)

QUADS_PER_THREAD = 4
"""float4 that copy_float4_x4 moves a thread, and that a thread of a grid-stride launch moves at least."""
MAX_GRID_STRIDE_BLOCKS = 16_384
"""15 waves of full SMs on a GPU with 132: whatever the number of SMs is, the last wave's idle ones cost little."""

CHAINS = 8
ROUND_PAIRS = 32
BENCH_ROUNDS, SMALL_ROUNDS = 16, 2
"""Rounds of ROUND_PAIRS pairs of FMAs a chain; 16 make the one store a thread vanish beside 16384 operations."""

RAMP_PERIOD = 1 << 24
"""write_float4 stores each element's index modulo this; a float holds every smaller integer exactly."""

SUM_TOLERANCE = 1e-5
"""A block's sum in float32: a thread adds at most some hundred values before the tree, each rounded to 6e-8."""


def copied(xp: Any, values: Array) -> Array:  # noqa: ARG001  (numpy and cupy alike)
    """The input itself."""
    return values


def block_sums(xp: Any, values: Array, *, count: int | None = None) -> Array:
    """The sum that each block of a grid-stride launch, of ``count`` in all, writes, in float64.

    float4 are dealt to the threads of the grid in turn; the last ``n % 4`` floats belong to block 0.
    """
    count = count or grid_stride(values.size)
    sweep = count * 4 * THREADS
    sweeps = values.size // sweep + 1
    quads_end = values.size // 4 * 4
    # One more sweep has the tail. Every sum is exact in float64, and one reduction is one kernel that CuPy compiles.
    whole = xp.zeros((sweeps + 1) * sweep, dtype=values.dtype)
    whole[:quads_end] = values[:quads_end]
    whole[sweeps * sweep : sweeps * sweep + values.size - quads_end] = values[quads_end:]
    return whole.reshape(sweeps + 1, count, -1).sum(axis=(0, 2), dtype="float64")


def block_magnitudes(xp: Any, values: Array) -> Array:
    """The root of the sum of squares of what each block adds up."""
    return xp.sqrt(block_sums(xp, values**2))


def ramp(xp: Any, *, n: int) -> Array:
    """Each element's index, modulo RAMP_PERIOD."""
    period = xp.arange(min(n, RAMP_PERIOD), dtype="float32")
    return xp.tile(period, ceil(n / RAMP_PERIOD))[:n]


def chain_sums(xp: Any, *, n: int, rounds: int) -> Array:
    """Chain c of thread t starts at t % 1024 + c and gains 3 with each pair of steps; all of it is exact in float32."""
    starts = np.arange(1024)
    sums = CHAINS * starts + CHAINS * (CHAINS - 1) // 2 + CHAINS * 3 * rounds * ROUND_PAIRS
    return xp.tile(xp.asarray(sums.astype("float32")), ceil(n / 1024))[:n]


def blocks(n: int, floats: int) -> int:
    """Blocks whose threads take so many floats each."""
    return ceil(n / (floats * THREADS))


def grid_stride(n: int) -> int:
    """Blocks that walk over the array, with QUADS_PER_THREAD float4 or more for each thread."""
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


def _stage(number: int, name: str, lesson: str, **more: Any) -> Family:
    return kernel(f"{number:02}_{name}.cu", name=name, lesson=lesson, **more)


FAMILY = family(
    _stage(1, "copy_float", "One float per thread: too few bytes in flight.", grid=lambda n: blocks(n, 1), **_COPY),
    _stage(2, "copy_float4", "One float4 per thread: the flat copy.", grid=lambda n: blocks(n, 4), **_COPY),
    _stage(
        3,
        "copy_float4_x4",
        "Four float4 in flight per thread.",
        grid=lambda n: blocks(n, 4 * QUADS_PER_THREAD),
        defines={"QUADS_PER_THREAD": QUADS_PER_THREAD},
        **_COPY,
    ),
    _stage(4, "copy_float4_grid", "A fixed grid strides over the array.", grid=grid_stride, **_COPY),
    kernel(
        operation="memcpy",
        lesson="The driver's device-to-device copy.",
        **_COPY | {"arguments": lambda n: [Out(n), In(n)]},
    ),
    _stage(
        5,
        "read_float4",
        "Reads alone; a sum per block comes out.",
        grid=grid_stride,
        arguments=lambda n: [Out(grid_stride(n)), In(n), Value(n, "uint64")],
        bytes=lambda n: FLOAT_BYTES * (n + grid_stride(n)),  # every float is read once; each block writes one sum
        reference=block_sums,
        scale=block_magnitudes,
        tolerance=SUM_TOLERANCE,
        roof="read",
        **_MEMORY,
    ),
    _stage(
        6,
        "write_float4",
        "Writes alone.",
        grid=grid_stride,
        arguments=lambda n: [Out(n), Value(n, "uint64")],
        bytes=lambda n: FLOAT_BYTES * n,  # every float is written once
        reference=ramp,
        tolerance=0.0,
        roof="write",
        **_MEMORY,
    ),
    _stage(
        7,
        "fma_chains",
        "Independent chains of fused multiply-adds.",
        grid=lambda n, _: blocks(n, 1),
        block=THREADS,
        defines={"CHAINS": CHAINS, "ROUND_PAIRS": ROUND_PAIRS},
        arguments=lambda n, rounds: [Out(n), Value(n, "uint64"), Value(rounds)],
        # One float written a thread; an FMA is two operations, a pair two FMAs, and each thread has CHAINS chains.
        bytes=lambda n, _: FLOAT_BYTES * n,
        flops=lambda n, rounds: 2 * 2 * rounds * ROUND_PAIRS * CHAINS * n,
        reference=chain_sums,
        tolerance=0.0,
        roof="fma",
        sizes={"64MiB": ((64 << 20) // FLOAT_BYTES, BENCH_ROUNDS)},
        small_sizes={"4KiB": ((4 << 10) // FLOAT_BYTES, SMALL_ROUNDS)},
        edges={str(n): (n, SMALL_ROUNDS) for n in FMA_PROBES},
    ),
    summary="what the GPU reaches at best: copy, read, write and fused multiply-add",
)
