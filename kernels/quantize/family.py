"""bfloat16 to 8 bits and back, with a scale for each row or for each 128 elements of a row.

The largest magnitude of a group becomes the largest number of the 8-bit type: 448 in e4m3, 127 in int8. Every operation
is a product or a quotient of float32, rounded once, so that codes and scales are equal to the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from peakgate.family import Array, Family, In, Out, StageKernel, Value, family, stage

MIB = 1 << 20
IN_BYTES, CODE_BYTES, SCALE_BYTES = 2, 1, 4
SIZES_MIB = (64, 256)
"""Size of the matrix in bfloat16."""
USUAL = 4096
ROWS = (1024, USUAL, 16384)
GROUP = 128
WARP, BLOCK, LEAST_BLOCK = 32, 256, 128
PER_VECTOR, LANES = 8, GROUP // 8
OF_GROUP = 2
"""Vectors of a group that a thread of blocks has."""
UNDER_WAY = 2
"""Vectors of eight codes that a thread of restore has in flight."""
RESIDENT = 1024
"""Threads resident on an SM that registers have to suffice for, in several blocks."""
SMALLEST = 1e-30
"""Lower bound for the largest magnitude of a group."""
SMALL, SMALL_LONG = (19, 200), (3, 3992)
PROBES: tuple[tuple[int, int], ...] = ((1, 1), (3, 127), (521, 136), (5, 1000))
LONG_ROWS = (3, 1030)
"""Rows whose last part belongs to a block after four whole ones."""
THREE_GROUPS = (7, 300)
"""Rows with a number of groups that is no power of two, so that a division by it is not a shift."""
RESTORED_TOLERANCE = 2.0**-24
"""Error of one product in float32, besides the rounding to bfloat16."""


def in_gate(rows: int, n: int) -> bool:
    """Rows of the usual length, in the largest matrix."""
    return n == USUAL and rows * n * IN_BYTES == max(SIZES_MIB) * MIB


def nearest_e4m3(xp: Any, values: Array) -> Array:
    """Rounded to the nearest e4m3: three bits after the leading one, fewer below 2^-6; at most 448."""
    _, exponents = xp.frexp(values)
    steps = xp.ldexp(xp.ones_like(values), xp.maximum(exponents - 1, -6) - 3)
    return xp.clip(xp.rint(values / steps) * steps, -448, 448)


def nearest_int8(xp: Any, values: Array) -> Array:
    """Rounded to the nearest integer, halves to even."""
    return xp.rint(values).astype("int8")


@dataclass(frozen=True, slots=True)
class Kind:
    """An 8-bit type: label, Peakgate's name, the kernels' name, its largest number, and how values are rounded."""

    label: str
    dtype: str
    name: str
    largest: float
    nearest: Callable[..., Array]


KINDS = {
    "fp8": Kind("fp8", "float8_e4m3fn", "E4m3", 448.0, nearest_e4m3),
    "int8": Kind("int8", "int8", "Int8", 127.0, nearest_int8),
}


def groups_of(n: int, group: int) -> int:
    """Scales of a row; with a group of 0 elements the group is the row."""
    return ceil(n / group) if group else 1


def quantized(xp: Any, values: Array, *, kind: Kind, group: int) -> tuple[Array, Array]:
    """Codes and scales, in the float32 operations of the kernels."""
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


def _stage(described: StageKernel, groups: Mapping[str, int], **more: Any) -> Family:
    """A stage for each type of code, with a scale for each of ``groups``."""

    def byte_count(rows: int, n: int, group: int) -> int:
        # An element is 2 bytes on one side and 1 on the other, a scale 4; each is read once or written once.
        return rows * ((IN_BYTES + CODE_BYTES) * n + SCALE_BYTES * groups_of(n, group))

    usual: dict[str, Any] = {
        "axes": {"kind": KINDS, "group": groups},
        "bytes": byte_count,
        "sizes": [(size * MIB // (length * IN_BYTES), length) for length in ROWS for size in SIZES_MIB],
        "small_sizes": [SMALL],
        "edges": (*PROBES, LONG_ROWS),
        "gate": in_gate,
        "block": BLOCK,
        "min_capability": (8, 0),
    }
    return described(**usual | more)


def _quantize(described: StageKernel, groups: Mapping[str, int], **more: Any) -> Family:
    """A stage from bfloat16 to codes and scales; a build on an axis ``longest`` takes no longer rows."""

    def arguments(rows: int, n: int, *, kind: Kind, group: int, longest: int = 1 << 20) -> list[Any]:
        if n > longest:
            raise ValueError(f"rows of {n} elements; this build holds {longest}")
        codes, scales = Out(rows, n, dtype=kind.dtype), Out(rows, groups_of(n, group))
        return [codes, scales, In(rows, n, dtype="bfloat16"), Value(rows), Value(n)]

    return _stage(described, groups, arguments=arguments, reference=quantized, tolerance=0.0, **more)


def _restore(described: StageKernel, **more: Any) -> Family:
    """A stage from codes and scales to bfloat16, for each type of code and each group."""

    def arguments(rows: int, n: int, *, kind: Kind, group: int) -> list[Any]:
        codes = In(rows, n, dtype=kind.dtype, data=(-kind.largest, kind.largest))
        scales = In(rows, groups_of(n, group), data=(0.001, 0.1))
        return [Out(rows, n, dtype="bfloat16"), codes, scales, Value(rows), Value(n), Value(group or n)]

    return _stage(
        described,
        _OF_ROW | _OF_BLOCK,
        arguments=arguments,
        reference=restored,
        tolerance=RESTORED_TOLERANCE,
        **more
        | {
            "small_sizes": lambda group: [SMALL] if group else None,
            "gate": lambda rows, n, group: bool(group) and in_gate(rows, n),
        },
    )


def threads_of(longest: int) -> int:
    """Threads that have a row in registers: up to 128 vectors one warp, then two to four vectors per thread."""
    vectors = longest // PER_VECTOR
    return WARP if vectors <= 128 else vectors // (2 if vectors <= 1024 else 4)


def rows_of_block(longest: int) -> int:
    """Rows that a block has in registers."""
    return max(threads_of(longest), LEAST_BLOCK) // threads_of(longest)


def held(kind: Kind, longest: int, block: int) -> dict[str, Any]:
    """Macros of a build for rows of up to ``longest`` elements."""
    threads = threads_of(longest)
    vectors, blocks = longest // PER_VECTOR // threads, RESIDENT // block
    return {"KIND": kind.name, "THREADS": threads, "VECTORS": vectors, "BLOCK": block, "MIN_BLOCKS": blocks}


_OF_ROW, _OF_BLOCK = {"row": 0}, {"block": GROUP}

FAMILY = family(
    _quantize(
        stage(1, "naive", "A scale per row: one element at a time, two reads."),
        _OF_ROW,
        defines=lambda kind: {"KIND": kind.name, "BLOCK": BLOCK},
        grid=lambda rows: rows,
    ),
    _quantize(
        stage(2, "registers", "A scale per row, which is kept in registers."),
        _OF_ROW,
        axes={"kind": KINDS, "group": _OF_ROW, "longest": ROWS},
        where=lambda rows, n, longest: n == longest or (rows, n) == {min(ROWS): SMALL, USUAL: SMALL_LONG}.get(longest),
        variant=lambda kind: f"{kind.label}-row",
        small_sizes=[SMALL, SMALL_LONG],
        edges=lambda longest: [
            *PROBES,
            (rows_of_block(longest) + 1, longest),
            (rows_of_block(longest), longest - 1),
        ],
        defines=held,
        grid=lambda rows, longest: ceil(rows / rows_of_block(longest)),
        block=lambda longest: max(threads_of(longest), LEAST_BLOCK),
    ),
    _quantize(
        stage(3, "blocks", "A scale for 128 elements: 16 lanes, no barrier."),
        _OF_BLOCK,
        edges=(*PROBES, THREE_GROUPS),
        defines=lambda kind: {"KIND": kind.name, "BLOCK": LEAST_BLOCK, "VECTORS": OF_GROUP},
        grid=lambda rows, n: ceil(rows * groups_of(n, GROUP) * LANES / (LEAST_BLOCK * OF_GROUP)),
        block=LEAST_BLOCK,
    ),
    _restore(
        stage(4, "restore_naive", "Back to bfloat16, one element per thread."),
        defines=lambda kind: {"KIND": kind.name, "BLOCK": BLOCK},
        grid=lambda rows, n: rows * ceil(n / BLOCK),
    ),
    _restore(
        stage(5, "restore", "Back to bfloat16, 16 bytes per store."),
        defines=lambda kind: {"KIND": kind.name, "BLOCK": LEAST_BLOCK, "VECTORS": UNDER_WAY},
        grid=lambda rows, n: ceil(rows * ceil(n / PER_VECTOR) / (LEAST_BLOCK * UNDER_WAY)),
        block=LEAST_BLOCK,
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
