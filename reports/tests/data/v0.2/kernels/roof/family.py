"""What this chip reaches at best: copies, one-way traffic and fused multiply-adds.

A size label is the bytes of the array that is read (or, where nothing is read, written). The sizes from 16MiB to 1GiB
are those of square float32 matrices with sides from 2048 to 16384, so each such matrix has a copy of its own size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from peakgate.case import (
    Argument,
    Array,
    Buffer,
    Case,
    Family,
    Launch,
    Reference,
    Role,
    Scalar,
    Scale,
    Stage,
    Tier,
    Work,
)

NAME = "roof"
HERE = Path(__file__).parent
THREADS = 256
FLOAT_BYTES = 4

MEMORY_SIZES = {
    Scale.BENCH: {"16MiB": 16 << 20, "64MiB": 64 << 20, "256MiB": 256 << 20, "1GiB": 1 << 30, "4GiB": 4 << 30},
    Scale.SMALL: {"256KiB": 256 << 10},
}
MEMORY_GATE = ("256MiB", "1GiB")
MEMORY_PROBES = (1, 3, 127, 1024, 4098, 100_003)
"""Floats: shorter than a quad, shorter than a block, whole blocks, and every length of tail."""

FMA_SIZES = {Scale.BENCH: {"64MiB": 64 << 20}, Scale.SMALL: {"4KiB": 4 << 10}}
FMA_GATE = ("64MiB",)
FMA_PROBES = (1, 3, 127, 1003)

QUADS_PER_THREAD = 4
"""float4 that copy_float4_x4 moves a thread, and that a thread of a grid-stride launch moves at least."""
MAX_GRID_STRIDE_BLOCKS = 16_384
"""15 waves of full SMs on a chip with 132: whatever the number of SMs is, the last wave's idle ones cost little."""

CHAINS = 8
ROUND_PAIRS = 32
FMA_ROUNDS = {Scale.BENCH: 16, Scale.SMALL: 2}
"""Rounds of ROUND_PAIRS pairs of FMAs a chain; 16 make the one store a thread vanish beside 16384 operations."""

RAMP_PERIOD = 1 << 24
"""write_float4 stores each element's index modulo this; a float holds every smaller integer exactly."""

SUM_TOLERANCE = 1e-5
"""A block's sum in float32: a thread adds at most some hundred values before the tree, each rounded to 6e-8."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What a launch over n floats is given, what it must do, and what must come out."""

    arguments: tuple[Argument, ...]
    work: Work
    reference: Reference
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class Rung:
    """A stage, the roof it measures, and its launch.

    ``blocks(n)`` is the number of blocks for ``n`` floats, ``problem(n, blocks, scale)`` what they work on.
    """

    stage: Stage
    roof: str
    blocks: Callable[[int], int]
    problem: Callable[[int, int, Scale], Problem]
    sizes: Mapping[Scale, Mapping[str, int]]
    gate: tuple[str, ...]
    probe_counts: tuple[int, ...]
    defines: tuple[tuple[str, str], ...] = ()


def copied(xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG001  (numpy and cupy alike)
    """The input itself."""
    return (inputs[0],)


def block_sums(xp: Any, inputs: Sequence[Array], *, blocks: int) -> Sequence[Array]:
    """The sum each block of a grid-stride launch writes, in float64.

    float4 are dealt to the threads of the grid in turn; the last ``n % 4`` floats belong to block 0.
    """
    values = inputs[0]
    block_floats = 4 * THREADS
    sweep = blocks * block_floats
    swept = values.size // sweep * sweep
    quads_end = values.size // 4 * 4
    sums = values[:swept].reshape(-1, blocks, block_floats).sum(axis=(0, 2), dtype="float64")
    rest = xp.zeros(sweep, dtype=values.dtype)
    rest[: quads_end - swept] = values[swept:quads_end]
    sums += rest.reshape(blocks, block_floats).sum(axis=1, dtype="float64")
    sums[0] += values[quads_end:].sum(dtype="float64")
    return (sums,)


def ramp(xp: Any, inputs: Sequence[Array], *, n: int) -> Sequence[Array]:  # noqa: ARG001  (nothing is read)
    """Each element's index, modulo RAMP_PERIOD."""
    period = xp.arange(min(n, RAMP_PERIOD), dtype="float32")
    return (xp.tile(period, ceil(n / RAMP_PERIOD))[:n],)


def chain_sums(xp: Any, inputs: Sequence[Array], *, n: int, pairs: int) -> Sequence[Array]:  # noqa: ARG001
    """Chain c of thread t starts at t % 1024 + c and gains 3 with each pair of steps; all of it is exact in float32."""
    starts = xp.arange(n, dtype="int64") % 1024
    sums = CHAINS * starts + CHAINS * (CHAINS - 1) // 2 + CHAINS * 3 * pairs
    return (sums.astype("float32"),)


def _copy(n: int, blocks: int, scale: Scale) -> Problem:  # noqa: ARG001
    arguments = (Buffer(Role.OUT, (n,)), Buffer(Role.IN, (n,)), Scalar(n, "uint64"))
    # Every float is read once and written once.
    return Problem(arguments, Work(bytes=2 * FLOAT_BYTES * n), copied)


def _memcpy(n: int, blocks: int, scale: Scale) -> Problem:
    copy = _copy(n, blocks, scale)
    return Problem(copy.arguments[:2], copy.work, copy.reference)


def _read(n: int, blocks: int, scale: Scale) -> Problem:  # noqa: ARG001
    arguments = (Buffer(Role.OUT, (blocks,)), Buffer(Role.IN, (n,)), Scalar(n, "uint64"))
    # Every float is read once; each block writes one sum.
    work = Work(bytes=FLOAT_BYTES * (n + blocks))
    return Problem(arguments, work, partial(block_sums, blocks=blocks), SUM_TOLERANCE)


def _write(n: int, blocks: int, scale: Scale) -> Problem:  # noqa: ARG001
    # Every float is written once.
    return Problem((Buffer(Role.OUT, (n,)), Scalar(n, "uint64")), Work(bytes=FLOAT_BYTES * n), partial(ramp, n=n))


def _fma(n: int, blocks: int, scale: Scale) -> Problem:  # noqa: ARG001
    pairs = FMA_ROUNDS[scale] * ROUND_PAIRS
    arguments = (Buffer(Role.OUT, (n,)), Scalar(n, "uint64"), Scalar(FMA_ROUNDS[scale]))
    # One float written a thread; an FMA is two operations, a pair two FMAs, and each thread has CHAINS chains.
    work = Work(bytes=FLOAT_BYTES * n, flops=2 * 2 * pairs * CHAINS * n)
    return Problem(arguments, work, partial(chain_sums, n=n, pairs=pairs))


def _one_float(n: int) -> int:
    return ceil(n / THREADS)


def _one_quad(n: int) -> int:
    return ceil(n / (4 * THREADS))


def _some_quads(n: int) -> int:
    return ceil(n / (4 * QUADS_PER_THREAD * THREADS))


def _grid_stride(n: int) -> int:
    return min(_some_quads(n), MAX_GRID_STRIDE_BLOCKS)


def _one_block(n: int) -> int:  # noqa: ARG001  (an operation of the device launches itself)
    return 1


def _stage(name: str, lesson: str) -> Stage:
    return Stage(name, lesson, source=HERE / f"{name}.cu")


_memory = partial(Rung, sizes=MEMORY_SIZES, gate=MEMORY_GATE, probe_counts=MEMORY_PROBES)
_arithmetic = partial(Rung, sizes=FMA_SIZES, gate=FMA_GATE, probe_counts=FMA_PROBES)

RUNGS: tuple[Rung, ...] = (
    _memory(_stage("copy_float", "One float a thread: too few bytes in flight."), "copy", _one_float, _copy),
    _memory(_stage("copy_float4", "One float4 a thread: the flat copy."), "copy", _one_quad, _copy),
    _memory(
        _stage("copy_float4_x4", "Four float4 in flight a thread."),
        "copy",
        _some_quads,
        _copy,
        defines=(("QUADS_PER_THREAD", str(QUADS_PER_THREAD)),),
    ),
    _memory(_stage("copy_float4_grid", "A fixed grid strides over the array."), "copy", _grid_stride, _copy),
    _memory(Stage("memcpy", "The driver's device-to-device copy.", operation="memcpy"), "copy", _one_block, _memcpy),
    _memory(_stage("read_float4", "Reads alone; a sum a block comes out."), "read", _grid_stride, _read),
    _memory(_stage("write_float4", "Writes alone."), "write", _grid_stride, _write),
    _arithmetic(
        _stage("fma_chains", "Independent chains of fused multiply-adds."),
        "fma",
        _one_float,
        _fma,
        defines=(("CHAINS", str(CHAINS)), ("ROUND_PAIRS", str(ROUND_PAIRS))),
    ),
)


def _case(rung: Rung, n: int, size: str, scale: Scale, *, tier: Tier = Tier.FULL) -> Case:
    blocks = rung.blocks(n)
    problem = rung.problem(n, blocks, scale)
    return Case(
        family=NAME,
        stage=rung.stage,
        launch=Launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1)),
        arguments=problem.arguments,
        work=problem.work,
        reference=problem.reference,
        size=size,
        defines=rung.defines,
        tolerance=problem.tolerance,
        roof=rung.roof,
        tier=tier,
    )


def cases(scale: Scale) -> Iterator[Case]:
    """Every stage on each of its sizes."""
    for rung in RUNGS:
        for size, nbytes in rung.sizes[scale].items():
            tier = Tier.GATE if size in rung.gate else Tier.FULL
            yield _case(rung, nbytes // FLOAT_BYTES, size, scale, tier=tier)


def probes(case: Case) -> Iterator[Case]:
    """Short and ragged arrays through the case's own build; the size label is the number of floats."""
    rung = next(rung for rung in RUNGS if rung.stage == case.stage)
    for n in rung.probe_counts:
        yield _case(rung, n, str(n), Scale.SMALL)


FAMILY = Family(
    name=NAME,
    summary="what the chip reaches at best: copy, read, write and fused multiply-add",
    stages=tuple(rung.stage for rung in RUNGS),
    cases=cases,
    probes=probes,
)
