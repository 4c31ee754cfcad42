"""Bandwidth against occupancy, for one float and for four floats per thread: occupancy is a means, not the goal.

By Little's law the bandwidth of an SM is proportional to the bytes that it has in flight: resident threads times the
bytes that each has requested. The stages vary the first by block size, registers and shared memory, and the second by
float4. A size label is the bytes of one array.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from peakgate.family import Array, Buffer, Family, In, InOut, Out, StageKernel, Value, family, stage
from peakgate.judge.occupancy import KIB, max_potential_block_size

FLOAT_BYTES = 4

BENCH_SIZE, BENCH_COUNT = "256MiB", (256 << 20) // FLOAT_BYTES
"""Each array is over four times as large as an L2 of 60 MB."""
SMALL, REGISTERS_SMALL_COUNT = {"n5003": 5003}, 17_003
PROBE_COUNTS = (1, 31, 127, 1000, 4099)
REGISTERS_PROBE_COUNTS = (1, 31, 257, 4099, 16_385)
"""A block of `registers` covers 16384 floats; the last count leaves one float for a second block."""

BLOCK = 256
BLOCKS = (32, 64, 128, 256, 512, 768, 1024)
GATE_BLOCKS, SMALL_BLOCKS = (32, 128, 256, 1024), (64, 256)

REGISTER_VALUES = 64
MIN_BLOCKS = (1, 2, 3, 4, 5, 6, 8)
"""Blocks of 256 threads per SM that `registers` is built for: 8 blocks are all threads of an SM that holds 2048."""
GATE_MIN_BLOCKS, SMALL_MIN_BLOCKS = (1, 4, 5, 8), (1, 8)

SHARED_KIB = (4, 16, 32, 48, 64, 96, 200, 227)
"""Dynamic shared memory per block in KiB. float4 needs 4, and 227 is the maximum; a launch with more than 48 has to opt
in, and a GPU with less skips the case."""
GATE_SHARED_KIB, SMALL_SHARED_KIB = (4, 32, 64, 96, 227), (4, 64)

PROPOSED_FOR = (9, 0)
"""Compute capability for which a block size is proposed. The proposal is calculated here without a GPU, so that a case
has the same id everywhere; on a GPU a test asks the driver for the same."""
PROPOSED_REGISTERS = 32
"""At least as many as `square` (8) and `staged` (27 to 32) use per thread. An SM has 32 for each of 2048 threads, so
proposals do not depend on the exact number, which changes with the compiler."""


def product_of_inputs(xp: Any, a: Array, b: Array) -> Array:  # noqa: ARG001  (numpy and cupy alike)
    """``a * b``, one rounding in float32."""
    return a * b


def squared(xp: Any, a: Array) -> Array:  # noqa: ARG001
    """``a * a``, one rounding in float32."""
    return a * a


def minus_largest(xp: Any, floats: Array, *, block: int = BLOCK, values: int = REGISTER_VALUES) -> Array:
    """Each float minus the largest float of its thread, one rounding in float32.

    A block of ``block`` threads covers ``block * values`` floats; those of a thread are ``block`` apart.
    """
    blocks = ceil(floats.size / (block * values))
    whole = xp.full(blocks * block * values, xp.finfo(floats.dtype).min, dtype=floats.dtype)
    whole[: floats.size] = floats
    dealt = whole.reshape(blocks, values, block)
    return (dealt - dealt.max(axis=1, keepdims=True)).reshape(-1)[: floats.size]


def _stage(
    described: StageKernel,
    *,
    reference: Callable[..., Array] = squared,
    arrays: tuple[Callable[[int], Buffer], ...] = (Out, In),
    grid: Callable[..., int] = lambda n, block: ceil(n / block),
    probe_counts: tuple[int, ...] = PROBE_COUNTS,
    **more: Any,
) -> Family:
    """A stage whose kernel takes ``arrays`` of n floats, and n."""
    # Each array is read or written once, or both if it is changed in place; one operation per float written.
    crossings = sum(2 if array is InOut else 1 for array in arrays)
    return described(
        arguments=lambda n: [*(array(n) for array in arrays), Value(n, "uint64")],
        grid=grid,
        block_in_id=True,
        bytes=lambda n: crossings * n * FLOAT_BYTES,
        flops=lambda n: n,
        reference=reference,
        tolerance=0.0,
        sizes={BENCH_SIZE: BENCH_COUNT},
        edges={f"n{n}": n for n in probe_counts},
        **{"block": BLOCK, "small_sizes": SMALL} | more,
    )


def by_quads(n: int, block: int) -> int:
    """Number of blocks if each thread takes four floats."""
    return ceil(n / (4 * block))


def proposed(**uses: Any) -> int:
    """Threads of the proposed block."""
    return max_potential_block_size(PROPOSED_FOR, PROPOSED_REGISTERS, **uses).threads_per_block


PROPOSED = proposed()
FEW, MANY = 4, 32
"""Floats per thread of direct and staged."""


def staged_shared_bytes(block: int) -> int:
    """Dynamic shared memory of a block of staged whose threads take MANY floats each."""
    return block * MANY * FLOAT_BYTES


PROPOSED_STAGED = proposed(dynamic_shared=staged_shared_bytes)
"""The proposal for shared memory that grows with the block."""

_BLOCKS: dict[str, Any] = {
    "axes": {"block": BLOCKS},
    "gate": lambda block: block in GATE_BLOCKS,
    "small_sizes": lambda block: SMALL if block in SMALL_BLOCKS else None,
}
_SHARED: dict[str, Any] = {
    "axes": {"shared_bytes": {f"s{kib}K": kib * KIB for kib in SHARED_KIB}},
    "gate": lambda shared_bytes: shared_bytes // KIB in GATE_SHARED_KIB,
    "small_sizes": lambda shared_bytes: SMALL if shared_bytes // KIB in SMALL_SHARED_KIB else None,
}
_STAGED: dict[str, Any] = {
    "axes": {"build": {"e4": (BLOCK, FEW), "e32": (BLOCK, MANY), "e32-proposed": (PROPOSED_STAGED, MANY)}},
    "block": lambda build: build[0],
    "grid": lambda n, build: ceil(n / (build[0] * build[1])),
    "defines": lambda build: {"ELEMENTS": build[1]},
}
_product: dict[str, Any] = {"reference": product_of_inputs, "arrays": (Out, In, In)}

FAMILY = family(
    _stage(stage(1, "multiply", "One float per thread: bandwidth follows occupancy."), **_BLOCKS, **_product),
    _stage(
        stage(2, "multiply_float4", "Four floats per thread: half the occupancy is enough."),
        grid=by_quads,
        **_BLOCKS,
        **_product,
    ),
    _stage(
        stage(3, "square", "In place, with the block size that the API proposes and with others."),
        arrays=(InOut,),
        axes={"block": (PROPOSED, *(block for block in BLOCKS if block != PROPOSED))},
        variant=lambda block: "proposed" if block == PROPOSED else "",
        gate=lambda block: block in (PROPOSED, *GATE_BLOCKS),
        small_sizes=lambda block: SMALL if block in (PROPOSED, *SMALL_BLOCKS) else None,
    ),
    _stage(
        stage(4, "registers", "Higher occupancy at the cost of spilled registers."),
        reference=minus_largest,
        grid=lambda n, block: ceil(n / (block * REGISTER_VALUES)),
        axes={"m": MIN_BLOCKS},
        defines=lambda m: {"BLOCK": BLOCK, "VALUES": REGISTER_VALUES, "MIN_BLOCKS": m},
        gate=lambda m: m in GATE_MIN_BLOCKS,
        small_sizes=lambda m: {f"n{REGISTERS_SMALL_COUNT}": REGISTERS_SMALL_COUNT} if m in SMALL_MIN_BLOCKS else None,
        probe_counts=REGISTERS_PROBE_COUNTS,
    ),
    _stage(stage(5, "shared_limited", "One float per thread, fewer and fewer blocks per SM."), **_SHARED),
    _stage(
        stage(6, "shared_limited_float4", "Four floats per thread, fewer and fewer blocks per SM."),
        grid=by_quads,
        **_SHARED,
    ),
    _stage(stage(7, "direct", "From global memory to registers and back."), **_STAGED),
    _stage(
        stage(8, "staged", "The same through shared memory and two barriers."),
        shared_bytes=lambda build: build[0] * build[1] * FLOAT_BYTES,
        **_STAGED,
    ),
    summary="bandwidth against occupancy: bytes in flight are the goal",
    headlines={
        "multiply": "256MiB-256",
        "multiply_float4": "256MiB-256",
        "registers": "256MiB-256-m8",
        "shared_limited": "256MiB-256-s64K",
        "shared_limited_float4": "256MiB-256-s64K",
    },
)
