"""Bandwidth against occupancy, for one float and for four floats per thread: occupancy is a means, not the goal.

By Little's law a SM draws bandwidth in proportion to the bytes it has in flight: resident threads times the bytes each
has asked for. The stages vary the first by block size, registers and shared memory, and the second by float4. A size
label is the bytes of one array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import ceil
from typing import Any

from peakgate.family import Array, Buffer, Family, In, InOut, Out, StageKernel, Value, family, stage
from peakgate.judge.occupancy import KIB, max_potential_block_size

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
"""At least as many as `square` (8) and `staged` (27 to 32) use per thread. An SM has 32 for each of 2048 threads, so
proposals do not depend on the exact figure, which changes with the compiler."""


def product_of_inputs(xp: Any, a: Array, b: Array) -> Array:  # noqa: ARG001  (numpy and cupy alike)
    """``a * b``, one rounding in float32."""
    return a * b


def squared(xp: Any, a: Array) -> Array:  # noqa: ARG001
    """``a * a``, one rounding in float32."""
    return a * a


def minus_largest(xp: Any, floats: Array, *, block: int = BLOCK, values: int = REGISTER_VALUES) -> Array:
    """Each float minus the largest of its thread's, one rounding in float32.

    A block of ``block`` threads covers ``block * values`` floats; a thread's are ``block`` apart.
    """
    blocks = ceil(floats.size / (block * values))
    whole = xp.full(blocks * block * values, xp.finfo(floats.dtype).min, dtype=floats.dtype)
    whole[: floats.size] = floats
    dealt = whole.reshape(blocks, values, block)
    return (dealt - dealt.max(axis=1, keepdims=True)).reshape(-1)[: floats.size]


def _in_steps(
    described: StageKernel,
    steps: Iterable[dict[str, Any]],
    *,
    reference: Callable[..., Array] = squared,
    arrays: tuple[Callable[[int], Buffer], ...] = (Out, In),
    elements: int = 1,
    small_count: int = SMALL_COUNT,
    probe_counts: tuple[int, ...] = PROBE_COUNTS,
) -> Iterator[Family]:
    """A stage in each of its steps: keywords of ``kernel``, and whether there is a ``small`` problem.

    The kernel takes ``arrays`` of n floats, and n; a thread takes ``elements`` floats.
    """
    # Each array is read or written once, one that is changed in place both; one operation a float that is written.
    crossings = sum(2 if array is InOut else 1 for array in arrays)
    for step in steps:
        build = {"block": BLOCK, "small": True} | step
        span, small = build["block"] * build.pop("elements", elements), build.pop("small")
        yield described(
            arguments=lambda n: [*(array(n) for array in arrays), Value(n, "uint64")],
            grid=lambda n, span=span: ceil(n / span),
            block_in_id=True,
            bytes=lambda n: crossings * n * FLOAT_BYTES,
            flops=lambda n: n,
            reference=reference,
            tolerance=0.0,
            sizes={BENCH_SIZE: BENCH_COUNT},
            small_sizes={f"n{small_count}": small_count} if small else None,
            edges={f"n{n}": n for n in probe_counts},
            **build,
        )


def _staged_steps(*, shared: bool) -> Iterator[dict[str, Any]]:
    """Few and many floats per thread; many also with the block proposed for shared memory that grows with the block."""
    few, many = STAGED_ELEMENTS
    proposed = _proposed(dynamic_shared=lambda block: block * many * FLOAT_BYTES)
    for block, elements, label in ((BLOCK, few, ""), (BLOCK, many, ""), (proposed, many, "-proposed")):
        yield {
            "block": block,
            "elements": elements,
            "shared_bytes": block * elements * FLOAT_BYTES if shared else 0,
            "defines": {"ELEMENTS": elements},
            "variant": f"e{elements}{label}",
        }


def _proposed(**uses: Any) -> int:
    return max_potential_block_size(PROPOSED_FOR, PROPOSED_REGISTERS, **uses).threads_per_block


def _tiers(value: int, gate: tuple[int, ...], small: tuple[int, ...]) -> dict[str, Any]:
    return {"gate": value in gate, "small": value in small}


_BLOCK_STEPS = [{"block": block} | _tiers(block, GATE_BLOCKS, SMALL_BLOCKS) for block in BLOCKS]
_SQUARE_STEPS = [
    {"block": _proposed(), "variant": "proposed"},
    *(step for step in _BLOCK_STEPS if step["block"] != _proposed()),
]
_REGISTER_STEPS = [
    {"defines": {"BLOCK": BLOCK, "VALUES": REGISTER_VALUES, "MIN_BLOCKS": count}, "variant": f"m{count}"}
    | _tiers(count, GATE_MIN_BLOCKS, SMALL_MIN_BLOCKS)
    for count in MIN_BLOCKS
]
_SHARED_STEPS = [
    {"shared_bytes": kib * KIB, "variant": f"s{kib}K"} | _tiers(kib, GATE_SHARED_KIB, SMALL_SHARED_KIB)
    for kib in SHARED_KIB
]
_product = partial(_in_steps, reference=product_of_inputs, arrays=(Out, In, In))

FAMILY = family(
    *_product(stage(1, "multiply", "One float per thread: bandwidth follows occupancy."), _BLOCK_STEPS),
    *_product(
        stage(2, "multiply_float4", "Four floats per thread: half the occupancy is enough."), _BLOCK_STEPS, elements=4
    ),
    *_in_steps(
        stage(3, "square", "In place, with the proposed block size and with others."), _SQUARE_STEPS, arrays=(InOut,)
    ),
    *_in_steps(
        stage(4, "registers", "Occupancy bought with spilled registers."),
        _REGISTER_STEPS,
        reference=minus_largest,
        elements=REGISTER_VALUES,
        small_count=REGISTERS_SMALL_COUNT,
        probe_counts=REGISTERS_PROBE_COUNTS,
    ),
    *_in_steps(stage(5, "shared_limited", "One float per thread, fewer and fewer blocks per SM."), _SHARED_STEPS),
    *_in_steps(
        stage(6, "shared_limited_float4", "Four floats per thread, fewer and fewer blocks per SM."),
        _SHARED_STEPS,
        elements=4,
    ),
    *_in_steps(stage(7, "direct", "Memory to registers to memory."), _staged_steps(shared=False)),
    *_in_steps(stage(8, "staged", "The same through shared memory and two barriers."), _staged_steps(shared=True)),
    summary="bandwidth against occupancy: bytes in flight are the goal",
    headlines={
        "multiply": "256MiB-256",
        "multiply_float4": "256MiB-256",
        "registers": "256MiB-256-m8",
        "shared_limited": "256MiB-256-s64K",
        "shared_limited_float4": "256MiB-256-s64K",
    },
)
