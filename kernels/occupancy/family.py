"""Bandwidth against occupancy, for one float and for four floats per thread: occupancy is a means, not the goal.

By Little's law a SM draws bandwidth in proportion to the bytes it has in flight: resident threads times the bytes each
has asked for. The stages vary the first by block size, registers and shared memory, and the second by float4. A size
label is the bytes of one array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from peakgate.judge.occupancy import KIB, max_potential_block_size

NAME = "occupancy"
HERE = Path(__file__).parent
FLOAT_BYTES = 4

BENCH_SIZE, BENCH_COUNT = "256MiB", (256 << 20) // FLOAT_BYTES
"""Over four times a 60 MB L2 in each array."""
SMALL_COUNT, REGISTERS_SMALL_COUNT = 5003, 17_003
PROBE_COUNTS = (1, 31, 127, 1000, 4099)
REGISTERS_PROBE_COUNTS = (1, 31, 257, 4099, 16_385)
"""A block of `registers` covers 16384 floats; the last count leaves one for a second block."""

BLOCK = 256
BLOCKS = (32, 64, 128, 256, 512, 768, 1024)
GATE_BLOCKS, SMALL_BLOCKS = (32, 128, 256, 1024), (64, 256)

REGISTER_VALUES = 64
MIN_BLOCKS = (1, 2, 3, 4, 5, 6, 8)
"""Blocks of 256 threads per SM that `registers` is built for: 8 are all its threads where it holds 2048."""
GATE_MIN_BLOCKS, SMALL_MIN_BLOCKS = (1, 4, 5, 8), (1, 8)

SHARED_KIB = (4, 16, 32, 48, 64, 96, 200, 227)
"""Dynamic shared memory per block. 4 is what float4 uses, 227 the most there is; above 48 a launch has to opt in, and a
GPU with less skips the case."""
GATE_SHARED_KIB, SMALL_SHARED_KIB = (4, 32, 64, 96, 227), (4, 64)

STAGED_ELEMENTS = (4, 32)
PROPOSED_FOR = (9, 0)
"""Compute capability for which a block size is proposed; the proposal is timed on every GPU."""
PROPOSED_REGISTERS = 32
"""At least what `square` (8) and `staged` (27 to 32) use a thread. A SM has 32 for each of 2048 threads, so proposals
do not depend on the exact figure, which moves with the compiler."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a stage is built and launched, whatever the problem; ``variant`` is its label in a case id."""

    block: int = BLOCK
    elements: int = 1
    """Floats a thread takes."""
    shared_bytes: int = 0
    defines: tuple[tuple[str, str], ...] = ()
    variant: str = ""
    gate: bool = True
    small: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """A stage and its shapes. The kernel takes an array of n floats for each of ``roles``, and n."""

    stage: Stage
    shapes: tuple[Shape, ...]
    reference: Reference
    roles: tuple[Role, ...] = (Role.OUT, Role.IN)
    small_count: int = SMALL_COUNT
    probe_counts: tuple[int, ...] = PROBE_COUNTS


def product_of_inputs(xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG001  (numpy and cupy alike)
    """``a * b``, one rounding in float32."""
    a, b = inputs
    return (a * b,)


def squared(xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG001
    """``a * a``, one rounding in float32."""
    return (inputs[0] * inputs[0],)


def minus_largest(xp: Any, inputs: Sequence[Array], *, block: int, values: int) -> Sequence[Array]:
    """Each float minus the largest of its thread's, one rounding in float32.

    A block of ``block`` threads covers ``block * values`` floats; a thread's are ``block`` apart.
    """
    (floats,) = inputs
    blocks = ceil(floats.size / (block * values))
    whole = xp.full(blocks * block * values, xp.finfo(floats.dtype).min, dtype=floats.dtype)
    whole[: floats.size] = floats
    dealt = whole.reshape(blocks, values, block)
    return ((dealt - dealt.max(axis=1, keepdims=True)).reshape(-1)[: floats.size],)


def _stage(name: str, lesson: str) -> Stage:
    return Stage(name, lesson, source=HERE / f"{name}.cu")


def _block_steps(elements: int) -> tuple[Shape, ...]:
    return tuple(Shape(block, elements, gate=block in GATE_BLOCKS, small=block in SMALL_BLOCKS) for block in BLOCKS)


def _square_shapes() -> tuple[Shape, ...]:
    """The proposed block size and all others."""
    proposed = max_potential_block_size(PROPOSED_FOR, PROPOSED_REGISTERS).threads_per_block
    others = tuple(shape for shape in _block_steps(1) if shape.block != proposed)
    return (Shape(proposed, variant="proposed"), *others)


def _register_steps() -> tuple[Shape, ...]:
    return tuple(
        Shape(
            elements=REGISTER_VALUES,
            defines=(("BLOCK", str(BLOCK)), ("VALUES", str(REGISTER_VALUES)), ("MIN_BLOCKS", str(count))),
            variant=f"m{count}",
            gate=count in GATE_MIN_BLOCKS,
            small=count in SMALL_MIN_BLOCKS,
        )
        for count in MIN_BLOCKS
    )


def _shared_steps(elements: int) -> tuple[Shape, ...]:
    return tuple(
        Shape(
            elements=elements,
            shared_bytes=kib * KIB,
            variant=f"s{kib}K",
            gate=kib in GATE_SHARED_KIB,
            small=kib in SMALL_SHARED_KIB,
        )
        for kib in SHARED_KIB
    )


def _staged_shapes(*, shared: bool) -> tuple[Shape, ...]:
    """Few and many floats per thread; many also with the block proposed for shared memory that grows with the block."""
    few, many = STAGED_ELEMENTS
    proposed = max_potential_block_size(
        PROPOSED_FOR, PROPOSED_REGISTERS, dynamic_shared=lambda block: _staged_bytes(block, many)
    ).threads_per_block
    return tuple(
        Shape(
            block,
            elements,
            shared_bytes=_staged_bytes(block, elements) if shared else 0,
            defines=(("ELEMENTS", str(elements)),),
            variant=f"e{elements}{label}",
        )
        for block, elements, label in ((BLOCK, few, ""), (BLOCK, many, ""), (proposed, many, "-proposed"))
    )


def _staged_bytes(block: int, elements: int) -> int:
    return block * elements * FLOAT_BYTES


ENTRIES = (
    Entry(
        _stage("multiply", "One float per thread: bandwidth follows occupancy."),
        _block_steps(1),
        product_of_inputs,
        (Role.OUT, Role.IN, Role.IN),
    ),
    Entry(
        _stage("multiply_float4", "Four floats per thread: half the occupancy is enough."),
        _block_steps(4),
        product_of_inputs,
        (Role.OUT, Role.IN, Role.IN),
    ),
    Entry(
        _stage("square", "In place, with the proposed block size and with others."),
        _square_shapes(),
        squared,
        (Role.INOUT,),
    ),
    Entry(
        _stage("registers", "Occupancy bought with spilled registers."),
        _register_steps(),
        partial(minus_largest, block=BLOCK, values=REGISTER_VALUES),
        small_count=REGISTERS_SMALL_COUNT,
        probe_counts=REGISTERS_PROBE_COUNTS,
    ),
    Entry(
        _stage("shared_limited", "One float per thread, fewer and fewer blocks per SM."),
        _shared_steps(1),
        squared,
    ),
    Entry(
        _stage("shared_limited_float4", "Four floats per thread, fewer and fewer blocks per SM."),
        _shared_steps(4),
        squared,
    ),
    Entry(_stage("direct", "Memory to registers to memory."), _staged_shapes(shared=False), squared),
    Entry(_stage("staged", "The same through shared memory and two barriers."), _staged_shapes(shared=True), squared),
)


def _case(entry: Entry, shape: Shape, n: int, size: str, *, gate: bool = False) -> Case:
    arguments: tuple[Argument, ...] = tuple(Buffer(role, (n,)) for role in entry.roles)
    # Each array is read or written once, one that is changed in place both; one operation a float that is written.
    crossings = sum(2 if role is Role.INOUT else 1 for role in entry.roles)
    return Case(
        family=NAME,
        stage=entry.stage,
        launch=Launch((ceil(n / (shape.block * shape.elements)), 1, 1), (shape.block, 1, 1), shape.shared_bytes),
        arguments=(*arguments, Scalar(n, "uint64")),
        work=Work(bytes=crossings * n * FLOAT_BYTES, flops=n),
        reference=entry.reference,
        size=size,
        block=str(shape.block),
        variant=shape.variant,
        defines=shape.defines,
        tier=Tier.GATE if gate else Tier.FULL,
    )


def cases(scale: Scale) -> Iterator[Case]:
    """Every stage in every shape; at small scale in few."""
    for entry in ENTRIES:
        for shape in entry.shapes:
            if scale is Scale.BENCH:
                yield _case(entry, shape, BENCH_COUNT, BENCH_SIZE, gate=shape.gate)
            elif shape.small:
                yield _case(entry, shape, entry.small_count, f"n{entry.small_count}")


def probes(case: Case) -> Iterator[Case]:
    """The case's shape on counts shorter than a warp, off every block by some, and over a block's end."""
    entry = next(entry for entry in ENTRIES if entry.stage == case.stage)
    shape = next(
        shape for shape in entry.shapes if (shape.block, shape.variant) == (case.launch.block[0], case.variant)
    )
    yield from (_case(entry, shape, n, f"n{n}") for n in entry.probe_counts)


FAMILY = Family(
    name=NAME,
    summary="bandwidth against occupancy: bytes in flight are the goal",
    stages=tuple(entry.stage for entry in ENTRIES),
    cases=cases,
    probes=probes,
    headlines={
        "multiply": "256MiB-256",
        "multiply_float4": "256MiB-256",
        "registers": "256MiB-256-m8",
        "shared_limited": "256MiB-256-s64K",
        "shared_limited_float4": "256MiB-256-s64K",
    },
)
