"""bfloat16 to 8 bits and back, with a scale for each row or for each 128 elements of a row.

The largest magnitude of a group becomes the largest number of the 8-bit type: 448 in e4m3, 127 in int8. Everything is a
product or a quotient of float32, rounded once, so that codes and scales are equal to the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from peakgate.family import Array, Family, In, Out, StageKernel, Value, family, stage

MIB = 1 << 20
IN_BYTES, CODE_BYTES, SCALE_BYTES = 2, 1, 4
SIZES_MIB = (64, 256)
"""Of the matrix in bfloat16."""
USUAL = 4096
ROWS = (1024, USUAL, 16384)
GROUP = 128
WARP, BLOCK, LEAST_BLOCK = 32, 256, 128
PER_VECTOR, LANES = 8, GROUP // 8
OF_GROUP = 2
"""Vectors of a group that a thread of blocks has."""
UNDER_WAY = 2
"""Vectors of eight codes that a thread of restore has on their way."""
RESIDENT = 1024
"""Threads for which an SM is to have registers, in several blocks."""
SMALLEST = 1e-30
"""A group's largest magnitude is taken for no less."""
SMALL, SMALL_LONG = (19, 200), (3, 3992)
PROBES: tuple[tuple[int, int], ...] = ((1, 1), (3, 127), (521, 136), (5, 1000))
LONG_ROWS = (3, 1030)
"""Their last part is of a block that four whole ones are before."""
THREE_GROUPS = (7, 300)
"""Rows of so many groups that a division by them is no shift."""
RESTORED_TOLERANCE = 2.0**-24
"""One product in float32, besides the rounding to bfloat16."""


def in_gate(rows: int, n: int) -> bool:
    """Rows of the usual length, in the largest matrix."""
    return n == USUAL and rows * n * IN_BYTES == max(SIZES_MIB) * MIB


def nearest_e4m3(xp: Any, values: Array) -> Array:
    """To three bits behind the leading one, fewer below 2^-6; at most 448."""
    _, exponents = xp.frexp(values)
    steps = xp.ldexp(xp.ones_like(values), xp.maximum(exponents - 1, -6) - 3)
    return xp.clip(xp.rint(values / steps) * steps, -448, 448)


def nearest_int8(xp: Any, values: Array) -> Array:
    """To nearest, halves to even."""
    return xp.rint(values).astype("int8")


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of 8 bits: Peakgate's name, the kernels' name, its largest number and how values are rounded to it."""

    dtype: str
    name: str
    largest: float
    nearest: Callable[..., Array]


KINDS = {
    "fp8": Kind("float8_e4m3fn", "E4m3", 448.0, nearest_e4m3),
    "int8": Kind("int8", "Int8", 127.0, nearest_int8),
}


def groups_of(n: int, group: int) -> int:
    """Scales of a row; a group of 0 elements is the row."""
    return ceil(n / group) if group else 1


def quantized(xp: Any, values: Array, *, kind: Kind, group: int) -> tuple[Array, Array]:
    """Codes and scales, in the kernels' float32 operations."""
    rows, n = values.shape
    groups, length = groups_of(n, group), group or n
    padded = xp.zeros((rows, groups * length), dtype="float32")
    padded[:, :n] = values
    dealt = padded.reshape(rows, groups, length)
    largest = xp.maximum(xp.abs(dealt).max(axis=2), xp.float32(SMALLEST))
    inverse = xp.float32(kind.largest) / largest
    codes = kind.nearest(xp, dealt * inverse[:, :, None]).reshape(rows, -1)[:, :n]
    return codes, largest / xp.float32(kind.largest)


def restored(xp: Any, codes: Array, scales: Array, *, group: int) -> Array:
    """Each code times its group's scale."""
    n = codes.shape[1]
    return codes * xp.repeat(scales, group or n, axis=1)[:, :n]


def _rows(described: StageKernel, *, kind: Kind, group: int, lengths: Iterable[int] = ROWS, **more: Any) -> Family:
    """A stage on rows of ``lengths``, with a scale for ``group`` elements."""

    def byte_count(rows: int, n: int) -> int:
        # An element is 2 bytes on one side and 1 on the other, a scale 4; each is read once or written once.
        return rows * ((IN_BYTES + CODE_BYTES) * n + SCALE_BYTES * groups_of(n, group))

    return described(
        bytes=byte_count,
        sizes=[(size * MIB // (length * IN_BYTES), length) for length in lengths for size in SIZES_MIB],
        variant=f"{'fp8' if kind.name == 'E4m3' else 'int8'}-{'block' if group else 'row'}",
        min_capability=(8, 0),
        **more,
    )


def _quantize(described: StageKernel, *, kind: Kind, group: int, longest: int = 1 << 20, **more: Any) -> Family:
    """A stage from bfloat16 to codes and scales; a build holds rows of up to ``longest`` elements."""

    def arguments(rows: int, n: int) -> list[Any]:
        if n > longest:
            raise ValueError(f"rows of {n} elements; this build holds {longest}")
        codes, scales = Out(rows, n, dtype=kind.dtype), Out(rows, groups_of(n, group))
        return [codes, scales, In(rows, n, dtype="bfloat16"), Value(rows), Value(n)]

    return _rows(
        described,
        kind=kind,
        group=group,
        arguments=arguments,
        reference=partial(quantized, kind=kind, group=group),
        tolerance=0.0,
        **more,
    )


def _restore(described: StageKernel, **more: Any) -> Iterator[Family]:
    """A stage from codes and scales to bfloat16, for each kind of code and group."""
    for kind in KINDS.values():
        for group in (0, GROUP):

            def arguments(rows: int, n: int, kind: Kind = kind, group: int = group) -> list[Any]:
                largest = kind.largest
                codes = In(rows, n, dtype=kind.dtype, data=(-largest, largest))
                scales = In(rows, groups_of(n, group), data=(0.001, 0.1))
                return [Out(rows, n, dtype="bfloat16"), codes, scales, Value(rows), Value(n), Value(group or n)]

            yield _rows(
                described,
                kind=kind,
                group=group,
                arguments=arguments,
                reference=partial(restored, group=group),
                tolerance=RESTORED_TOLERANCE,
                small_sizes=[SMALL] if group else None,
                edges=(*PROBES, LONG_ROWS),
                gate=in_gate if group else False,
                **{"block": BLOCK} | more | {"defines": {"KIND": kind.name, "BLOCK": BLOCK} | more.get("defines", {})},
            )


def _held(described: StageKernel) -> Iterator[Family]:
    """Rows held in registers, with a build for each length: up to 128 vectors per warp, then two to four per thread."""
    for kind in KINDS.values():
        for n in ROWS:
            vectors = n // PER_VECTOR
            threads = WARP if vectors <= 128 else vectors // (2 if vectors <= 1024 else 4)
            block = max(threads, LEAST_BLOCK)
            per_block = block // threads
            yield _quantize(
                described,
                kind=kind,
                group=0,
                lengths=(n,),
                longest=n,
                small_sizes={min(ROWS): [SMALL], USUAL: [SMALL_LONG]}.get(n),
                edges=(*PROBES, (per_block + 1, n), (per_block, n - 1)),
                gate=in_gate,
                defines={
                    "KIND": kind.name,
                    "THREADS": threads,
                    "VECTORS": vectors // threads,
                    "BLOCK": block,
                    "MIN_BLOCKS": RESIDENT // block,
                },
                grid=lambda rows, _, per_block=per_block: ceil(rows / per_block),
                block=block,
            )


FAMILY = family(
    *(
        _quantize(
            stage(1, "naive", "A scale a row: an element at a time, two reads."),
            kind=kind,
            group=0,
            small_sizes=[SMALL],
            edges=(*PROBES, LONG_ROWS),
            gate=in_gate,
            defines={"KIND": kind.name, "BLOCK": BLOCK},
            grid=lambda rows, _: rows,
            block=BLOCK,
        )
        for kind in KINDS.values()
    ),
    *_held(stage(2, "registers", "A scale a row: the row waits in registers.")),
    *(
        _quantize(
            stage(3, "blocks", "A scale for 128 elements: 16 lanes, no barrier."),
            kind=kind,
            group=GROUP,
            small_sizes=[SMALL],
            edges=(*PROBES, THREE_GROUPS),
            gate=in_gate,
            defines={"KIND": kind.name, "BLOCK": LEAST_BLOCK, "VECTORS": OF_GROUP},
            grid=lambda rows, n: ceil(rows * groups_of(n, GROUP) * LANES / (LEAST_BLOCK * OF_GROUP)),
            block=LEAST_BLOCK,
        )
        for kind in KINDS.values()
    ),
    *_restore(
        stage(4, "restore_naive", "Back to bfloat16, one element per thread."),
        grid=lambda rows, n: rows * ceil(n / BLOCK),
    ),
    *_restore(
        stage(5, "restore", "Back to bfloat16, 16 bytes per store."),
        grid=lambda rows, n: ceil(rows * ceil(n / PER_VECTOR) / (LEAST_BLOCK * UNDER_WAY)),
        block=LEAST_BLOCK,
        defines={"BLOCK": LEAST_BLOCK, "VECTORS": UNDER_WAY},
    ),
    summary="bfloat16 to 8-bit floats and integers, and back",
    headlines={
        "naive": "32768x4096-fp8-row",
        "registers": "32768x4096-fp8-row",
        "blocks": "32768x4096-fp8-block",
        "restore_naive": "32768x4096-fp8-block",
        "restore": "32768x4096-fp8-block",
    },
)
