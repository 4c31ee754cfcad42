"""How each access pattern is launched and judged: its grid, its arguments, its reference, and what a model predicts.

A pattern is keywords of ``peakgate.family.kernel``. The useful bytes of a kernel that changes values in place are ``2 *
n * e``: n values of e bytes, each read once and written once. The unused rest of each sector, which memory moves too,
is not counted as work; ``predicted`` has what the sector model expects of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, prod
from typing import Any

from peakgate.family import Array, In, InOut, Out, Value

from .sectors import bank_turns, sector_useful_fraction, tile_words, warp_useful_fraction

FLOAT, DOUBLE = "float32", "float64"
FIELDS = 4
"""Fields of a record in the aos and soa stages."""
BLOCK = (256,)
MATRIX_TILE = 32
"""Side of the square part of a matrix that a block of stride_smem moves."""

Keywords = dict[str, Any]


def element_bytes(dtype: str) -> int:
    """Bytes of an element of one of the two types."""
    return 8 if dtype == DOUBLE else 4


def plus_one(xp: Any, values: Array, *, where: tuple[slice | int, ...] = (slice(None),)) -> Array:
    """``a[where] + 1``, all other elements unchanged; one rounding in the element's own type, as in the kernel."""
    result = xp.array(values)
    result[where] += 1
    return result


def plus_field_number(xp: Any, records: Array, *, axis: int = 1) -> Array:
    """Field k of every record plus k + 1; ``axis`` is the axis of the fields."""
    numbers = xp.arange(1, FIELDS + 1, dtype=records.dtype)
    return records + (numbers if axis == 1 else numbers[:, None])


def tiles_transposed(xp: Any, values: Array, *, rows: int = 1, columns: int = 1) -> Array:
    """Each run of ``rows * columns`` values transposed as a row-major tile; zeros fill up the last tile."""
    tiles = ceil(values.size / (rows * columns))
    whole = xp.zeros(tiles * rows * columns, dtype=values.dtype)
    whole[: values.size] = values
    return whole.reshape(tiles, rows, columns).swapaxes(1, 2).reshape(-1)[: values.size]


def _useful(dtype: str, moved: int, asked: int, offset: int = 0) -> dict[str, float]:
    """Predictions for elements ``moved`` apart in memory, where the elements of one request are ``asked`` apart."""
    return {
        "useful_fraction": sector_useful_fraction(moved, element_bytes(dtype)),
        "warp_useful_fraction": warp_useful_fraction(asked, element_bytes(dtype), offset),
    }


def _added_to(fields: int = 1) -> Keywords:
    """Each value of each element is read once, incremented once and written once."""
    return {
        "bytes": lambda *extent, dtype: 2 * prod(extent) * fields * element_bytes(dtype),
        "flops": lambda *extent: prod(extent) * fields,
        "defines": lambda dtype: {"REAL": "double"} if dtype == DOUBLE else {},
    }


def line(
    reference: Callable[..., Array] = plus_one,
    shape: Callable[[int], tuple[int, ...]] = lambda n: (n,),
    *,
    fields: int = 1,
    apart: tuple[int, int] = (1, 1),
) -> Keywords:
    """``kernel(a, n)`` in place, one thread for each of n elements; ``apart`` is passed to ``_useful``."""
    return _added_to(fields) | {
        "arguments": lambda n, dtype: [InOut(*shape(n), dtype=dtype), Value(n, "uint64")],
        "grid": lambda n, block: ceil(n / block[0]),
        "reference": reference,
        "predicted": lambda dtype: _useful(dtype, *apart),
    }


def _records(n: int) -> tuple[int, ...]:
    return n, FIELDS


def _arrays(n: int) -> tuple[int, ...]:
    return FIELDS, n


AOS_ONE = line(partial(plus_one, where=(slice(None), 0)), _records, apart=(FIELDS, FIELDS))
"""Field 0 of each of n records."""
SOA_ONE = line(partial(plus_one, where=(0,)), _arrays)
"""The first of the arrays, of which each has one field."""
AOS_ALL = line(plus_field_number, _records, fields=FIELDS, apart=(1, FIELDS))
"""All fields of each record."""
AOS_ALL_ALIGNED = line(plus_field_number, _records, fields=FIELDS)
"""All fields of each record; neighbouring words of a request are neighbours in memory."""
SOA_ALL = line(partial(plus_field_number, axis=0), _arrays, fields=FIELDS)
"""All arrays, of which each has one field."""
GRID_STRIDE = line() | {"grid": lambda blocks: blocks}
"""A grid of ``blocks`` blocks that loops over the array."""
OFFSET = line() | {
    "arguments": lambda n, dtype, offset: [
        InOut(n + offset, dtype=dtype),
        Value(n, "uint64"),
        Value(offset),
    ],
    "reference": lambda xp, values, *, offset: plus_one(xp, values, where=(slice(offset, None),)),
    "predicted": lambda dtype, offset: _useful(dtype, 1, 1, offset),
}
"""All values but the first ``offset``."""
STRIDE = line() | {
    "arguments": lambda n, dtype, stride: [
        InOut((n - 1) * stride + 1, dtype=dtype),
        Value(n, "uint64"),
        Value(stride),
    ],
    "reference": lambda xp, values, *, stride: plus_one(xp, values, where=(slice(None, None, stride),)),
    "predicted": lambda dtype, stride: _useful(dtype, stride, stride),
}
"""Every ``stride``-th value, from the first to the n-th of them."""
_MATRIX = _added_to() | {
    "arguments": lambda rows, columns, dtype: [InOut(rows, columns, dtype=dtype), Value(rows), Value(columns)],
    "reference": plus_one,
}
STRIDE_COLUMN = _MATRIX | {
    "grid": lambda rows, columns, block: (ceil(columns / block[1]), ceil(rows / block[0])),
    "predicted": lambda columns, dtype: _useful(dtype, 1, columns),
}
"""Neighbouring threads access neighbouring rows: the x axis of a block runs down the matrix."""
STRIDE_SMEM = _MATRIX | {
    "grid": lambda rows, columns: (ceil(columns / MATRIX_TILE), ceil(rows / MATRIX_TILE)),
    "predicted": lambda dtype: _useful(dtype, 1, 1),
}
"""A block loads a square tile by rows."""


def shared_tile(write: str, read: str, *, dynamic: bool = False) -> Keywords:
    """``kernel(out, in, n[, pad])``, one block for each tile; the last tile may be partly filled."""

    def transposed(xp: Any, values: Array, *, block: tuple[int, int]) -> Array:
        # A tile that is written by columns is transposed already: it is a (columns, rows) tile, row after row.
        rows, columns = block[::-1] if write == "row" else block
        return tiles_transposed(xp, values, rows=rows, columns=columns)

    def predicted(block: tuple[int, int], pad: int) -> dict[str, float]:
        ways = (("write", write), ("read", read))
        return {f"shared_{way}_turns": bank_turns(tile_words(block, pad, by=by)) for way, by in ways}

    return {
        "arguments": lambda n, pad: [Out(n), In(n), Value(n, "uint64"), *([Value(pad)] if dynamic else [])],
        "grid": lambda n, block: ceil(n / prod(block)),
        "shared_bytes": lambda block, pad: block[1] * (block[0] + pad) * 4 if dynamic else 0,
        # Each value is read once and written once; accesses to shared memory are not counted as work.
        "bytes": lambda n: 2 * n * 4,
        "reference": copied if write == read else transposed,
        "predicted": predicted,
        "defines": lambda block, pad: {} if dynamic else {"TILE_X": block[0], "TILE_Y": block[1], "PAD": pad},
    }


def copied(xp: Any, values: Array) -> Array:  # noqa: ARG001  (numpy and cupy alike)
    """The input itself."""
    return values
