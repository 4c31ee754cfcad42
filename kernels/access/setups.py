"""How each access pattern is launched and judged: its grid, its arguments, its reference, what is predicted of it.

A pattern is a function of a build, which gives keywords of ``peakgate.family.kernel``. Useful bytes of a kernel that
changes values in place are ``2 * n * e``: n values of e bytes, each read once and written once. What memory moves
beside them, the unused rest of each sector, is not work; ``predicted`` has what the sector model expects of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from typing import Any

import numpy as np

from peakgate.family import Array, In, InOut, Out, Value

from .sectors import bank_turns, sector_useful_fraction, tile_words, warp_useful_fraction

FLOAT, DOUBLE = "float32", "float64"
FIELDS = 4
"""Of a record in the aos and soa stages."""
BLOCK = (256,)
MATRIX_TILE = 32
"""Side of the square of a matrix that a block of stride_smem moves."""

Keywords = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Build:
    """Build parameters of a stage: a type, a block, and the stage's own ``knob``, if it has one."""

    dtype: str = FLOAT
    block: tuple[int, ...] = BLOCK
    knob: int = 0
    gate: bool = False

    @property
    def element_bytes(self) -> int:
        return int(np.dtype(self.dtype).itemsize)


def plus_one(xp: Any, values: Array, *, where: tuple[slice | int, ...] = (slice(None),)) -> Array:
    """``a[where] + 1`` and all else as it was; one rounding in the element's own type, as in the kernel."""
    result = xp.array(values)
    result[where] += 1
    return result


def plus_field_number(xp: Any, records: Array, *, axis: int = 1) -> Array:
    """Field k of every record plus k + 1; ``axis`` is the one that counts fields."""
    numbers = xp.arange(1, FIELDS + 1, dtype=records.dtype)
    return records + (numbers if axis == 1 else numbers[:, None])


def tiles_transposed(xp: Any, values: Array, *, rows: int = 1, columns: int = 1) -> Array:
    """Each run of ``rows * columns`` values transposed as a row-major tile; zeros fill up the last tile."""
    tiles = ceil(values.size / (rows * columns))
    whole = xp.zeros(tiles * rows * columns, dtype=values.dtype)
    whole[: values.size] = values
    return whole.reshape(tiles, rows, columns).swapaxes(1, 2).reshape(-1)[: values.size]


def _useful(build: Build, moved: int, asked: int, offset: int = 0) -> dict[str, float]:
    """Predictions for elements ``moved`` apart in memory, of which a request takes those ``asked`` apart."""
    return {
        "useful_fraction": sector_useful_fraction(moved, build.element_bytes),
        "warp_useful_fraction": warp_useful_fraction(asked, build.element_bytes, offset),
    }


def _added_to(build: Build, fields: int = 1) -> Keywords:
    """Each value of each element is read once, gets one addition, is written once."""
    return {
        "bytes": lambda *extent: 2 * prod(extent) * fields * build.element_bytes,
        "flops": lambda *extent: prod(extent) * fields,
        "defines": {"REAL": "double"} if build.dtype == DOUBLE else {},
    }


def line(
    build: Build,
    reference: Callable[..., Array] = plus_one,
    shape: Callable[[int], tuple[int, ...]] = lambda n: (n,),
    *scalars: int,
    fields: int = 1,
    apart: tuple[int, int] = (1, 1),
    offset: int = 0,
) -> Keywords:
    """``kernel(a, n, *scalars)`` in place, one thread for each of n elements; ``apart`` are those of ``_useful``."""
    return _added_to(build, fields) | {
        "arguments": lambda n: [InOut(*shape(n), dtype=build.dtype), Value(n, "uint64"), *map(Value, scalars)],
        "grid": lambda n: ceil(n / build.block[0]),
        "reference": reference,
        "predicted": _useful(build, *apart, offset),
    }


def _records(n: int) -> tuple[int, ...]:
    return n, FIELDS


def _arrays(n: int) -> tuple[int, ...]:
    return FIELDS, n


aos_one = partial(line, reference=partial(plus_one, where=(slice(None), 0)), shape=_records, apart=(FIELDS, FIELDS))
"""Field 0 of each of n records."""
soa_one = partial(line, reference=partial(plus_one, where=(0,)), shape=_arrays)
"""The first of the arrays, one for each field."""
aos_all = partial(line, reference=plus_field_number, shape=_records, fields=FIELDS, apart=(1, FIELDS))
"""All fields of each record."""
aos_all_aligned = partial(aos_all, apart=(1, 1))
"""The same; neighbouring words of a request are neighbours in memory."""
soa_all = partial(line, reference=partial(plus_field_number, axis=0), shape=_arrays, fields=FIELDS)
"""All arrays, one for each field."""


def grid_stride(build: Build) -> Keywords:
    """``knob`` blocks walk over the array."""
    return line(build) | {"grid": build.knob}


def offset(build: Build) -> Keywords:
    """The first ``knob`` values are left out."""
    first = build.knob
    return line(build, partial(plus_one, where=(slice(first, None),)), lambda n: (n + first,), first, offset=first)


def stride(build: Build) -> Keywords:
    """Every ``knob``-th value, from the first to the n-th of them."""
    step = build.knob
    every = partial(plus_one, where=(slice(None, None, step),))
    return line(build, every, lambda n: ((n - 1) * step + 1,), step, apart=(step, step))


def _matrix(build: Build, span: tuple[int, int], asked: Callable[[int], int]) -> Keywords:
    """``kernel(matrix, rows, columns)`` in place; a block covers ``span`` columns and rows."""
    return _added_to(build) | {
        "arguments": lambda rows, columns: [InOut(rows, columns, dtype=build.dtype), Value(rows), Value(columns)],
        "grid": lambda rows, columns: (ceil(columns / span[0]), ceil(rows / span[1])),
        "reference": plus_one,
        "predicted": lambda _, columns: _useful(build, 1, asked(columns)),
    }


def stride_column(build: Build) -> Keywords:
    """Neighbouring threads take neighbouring rows: a block is across the matrix turned around."""
    threads_down, threads_along = build.block
    return _matrix(build, (threads_along, threads_down), asked=lambda columns: columns)


def stride_smem(build: Build) -> Keywords:
    """A block brings in a square tile by its rows."""
    return _matrix(build, (MATRIX_TILE, MATRIX_TILE), asked=lambda _: 1)


def shared_tile(build: Build, write: str, read: str, *, dynamic: bool = False) -> Keywords:
    """``kernel(out, in, n[, pad])``, a block for each tile; the last may be partly filled."""
    (columns, rows), pad = build.block, build.knob
    # What is written by columns is in the tile transposed already: as a (columns, rows) tile, row after row.
    shape = (rows, columns) if write == "row" else (columns, rows)
    return {
        "arguments": lambda n: [Out(n), In(n), Value(n, "uint64"), *([Value(pad)] if dynamic else [])],
        "grid": lambda n: ceil(n / (columns * rows)),
        "shared_bytes": rows * (columns + pad) * build.element_bytes if dynamic else 0,
        # Each value is read once and written once; shared memory's own traffic is no work.
        "bytes": lambda n: 2 * n * build.element_bytes,
        "reference": copied if write == read else partial(tiles_transposed, rows=shape[0], columns=shape[1]),
        "predicted": {
            f"shared_{way}_turns": bank_turns(tile_words((columns, rows), pad, by=by))
            for way, by in (("write", write), ("read", read))
        },
        "defines": {} if dynamic else {"TILE_X": columns, "TILE_Y": rows, "PAD": pad},
    }


def copied(xp: Any, values: Array) -> Array:  # noqa: ARG001  (numpy and cupy alike)
    """The input itself."""
    return values
