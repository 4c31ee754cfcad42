"""bfloat16 to 8 or 4 bits and back, with a scale for each row, or for each 128, 32 or 16 elements of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from peakgate.family import Family, In, Out, StageKernel, Value, family, stage

from .codes import (
    FACTORS,
    FORMATS,
    FP4,
    KINDS,
    Format,
    Kind,
    groups_of,
    micro_quantized,
    micro_restored,
    quantized,
    restored,
    special_powers,
    special_rows,
    special_scales,
    two_levels,
)

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
"""Vectors of a group that a thread of blocks or micro has."""
UNDER_WAY = 2
"""Vectors of eight codes that a thread of restore has in flight."""
RESIDENT = 1024
"""Threads resident on an SM that registers have to suffice for, in several blocks."""
SMALL, SMALL_LONG = (19, 200), (3, 3992)
PROBES: tuple[tuple[int, int], ...] = ((1, 1), (3, 127), (521, 136), (5, 1000))
LONG_ROWS = (3, 1030)
"""Rows whose last part belongs to a block after four whole ones."""
THREE_GROUPS = (7, 300)
"""Rows with a number of groups that is no power of two, so that a division by it is not a shift."""
SPECIAL_ROWS = (48, 96)
"""Rows with numbers that random ones rarely are: at least as many as there are kinds, each of whole groups."""
EVEN_ROWS = ((1, 2), (3, 126), *PROBES[2:], LONG_ROWS, THREE_GROUPS, SPECIAL_ROWS)
"""Probes of the microscaling formats, of which some store two codes per byte."""
RESTORED_TOLERANCE = 2.0**-24
"""Error of one product in float32, besides the rounding to bfloat16."""
MICRO_TOLERANCE = 3 * RESTORED_TOLERANCE
"""With two levels of scales there are two products and a quotient."""
GROUPS_UNDER_WAY = 2
"""Groups of which a thread of micro has some vectors."""
CODES_UNDER_WAY = 4
"""Vectors of eight codes that a thread of micro_restore has in flight."""


def in_gate(rows: int, n: int) -> bool:
    """Rows of the usual length, in the largest matrix."""
    return n == USUAL and rows * n * IN_BYTES == max(SIZES_MIB) * MIB


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


def _micro(described: StageKernel, of_thread: Callable[[Format], int], **more: Any) -> Family:
    """A stage for each microscaling format, whose threads have so many elements."""

    def byte_count(rows: int, n: int, form: Format) -> int:
        # An element is 2 bytes on one side, and 1 or a half on the other, a scale 1.
        return rows * (IN_BYTES * n + n * form.bits // 8 + groups_of(n, form.group))

    usual: dict[str, Any] = {
        "axes": {"form": FORMATS},
        "defines": lambda form: {"FORMAT": form.name, "BLOCK": LEAST_BLOCK},
        "grid": lambda rows, n, form: ceil(
            rows * groups_of(n, form.group) * form.group / (LEAST_BLOCK * of_thread(form))
        ),
        "block": LEAST_BLOCK,
        "bytes": byte_count,
        "edges": lambda form: [*EVEN_ROWS, *(PROBES[:2] if form.bits == 8 else ())],
        "gate": lambda rows, n, form: form.scales is two_levels and in_gate(rows, n),
        "arguments": _micro_arguments,
        "reference": micro_quantized,
        "tolerance": 0.0,
    }
    return _stage(described, {}, **usual | more)


def _micro_arguments(rows: int, n: int, *, form: Format) -> list[Any]:
    special = (rows, n) == SPECIAL_ROWS
    codes, scales = Out(rows, n, dtype=form.codes.dtype), Out(rows, groups_of(n, form.group), dtype=form.scale)
    matrix = In(rows, n, dtype="bfloat16", data=special_rows if special else None)
    return [codes, scales, matrix, In(1, data=1.0 if special else FACTORS), Value(rows), Value(n)]


def _micro_restore_arguments(rows: int, n: int, *, form: Format) -> list[Any]:
    powers = form.scales is not two_levels
    special = special_powers if powers else special_scales
    codes = In(rows, n, dtype=form.codes.dtype, data=None if form.codes is FP4 else (-448, 448))
    scales = In(
        rows,
        groups_of(n, form.group),
        dtype=form.scale,
        data=special if (rows, n) == SPECIAL_ROWS else None if powers else (0, 448),
    )
    return [Out(rows, n, dtype="bfloat16"), codes, scales, In(1, data=FACTORS), Value(rows), Value(n)]


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
    _micro(
        stage(6, "micro_naive", "A scale for 16 or 32 elements, in 8 bits: a group per thread."),
        lambda form: form.group,
    ),
    _micro(
        stage(7, "micro", "A scale for 16 or 32 elements: in registers, 16 bytes per load."),
        lambda _: OF_GROUP * GROUPS_UNDER_WAY * PER_VECTOR,
        defines=lambda form: {
            "FORMAT": form.name,
            "BLOCK": LEAST_BLOCK,
            "VECTORS": OF_GROUP,
            "ROUNDS": GROUPS_UNDER_WAY,
        },
        gate=in_gate,
    ),
    _micro(
        stage(8, "micro_restore", "Back to bfloat16 from these, 16 bytes per store."),
        lambda _: CODES_UNDER_WAY * PER_VECTOR,
        arguments=_micro_restore_arguments,
        reference=micro_restored,
        tolerance=MICRO_TOLERANCE,
    ),
    summary="bfloat16 to floats of 8 and 4 bits and integers, and back",
    headlines={
        "naive": "32768x4096-fp8-row",
        "registers": "32768x4096-fp8-row",
        "blocks": "32768x4096-fp8-block",
        "restore_naive": "32768x4096-fp8-block",
        "restore": "32768x4096-fp8-block",
        "micro_naive": "32768x4096-nvfp4",
        "micro": "32768x4096-nvfp4",
        "micro_restore": "32768x4096-nvfp4",
    },
)
