"""How each access pattern is launched and judged: its grid, its arguments, its reference, what is predicted of it.

Useful bytes of a kernel that changes values in place are ``2 * n * e``: n values of e bytes, each read once and written
once. What memory moves beside them, the unused rest of each sector, is not work; ``predicted`` has what the sector
model expects of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, prod
from typing import Any

import numpy as np
from peakgate.case import Argument, Array, Buffer, Launch, Reference, Role, Scalar, Work

from .sectors import bank_turns, sector_useful_fraction, tile_words, warp_useful_fraction

FLOAT, DOUBLE = "float32", "float64"

FIELDS = 4
"""Of a record in the aos and soa stages."""

BLOCK = (256, 1)
MATRIX_TILE = 32
"""Side of the square of a matrix that a block of stride_smem moves."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What a stage is put to: a count of elements or (rows, columns), and the stage's own ``knob``, if it has one."""

    extent: tuple[int, ...]
    block: tuple[int, int] = BLOCK
    knob: int = 0
    dtype: str = FLOAT
    gate: bool = False
    size: str = ""
    """Label; the type's and the extent's when empty."""

    @property
    def n(self) -> int:
        return prod(self.extent)

    @property
    def element_bytes(self) -> int:
        return int(np.dtype(self.dtype).itemsize)


@dataclass(frozen=True, slots=True)
class Setup:
    """How a problem is launched and judged."""

    launch: Launch
    arguments: tuple[Argument, ...]
    work: Work
    reference: Reference
    predicted: tuple[tuple[str, float], ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    roof: str = "copy"


def plus_one(xp: Any, inputs: Sequence[Array], *, where: tuple[slice | int, ...]) -> Sequence[Array]:
    """``a[where] + 1`` and all else as it was; one rounding in the element's own type, as in the kernel."""
    result = xp.array(inputs[0])
    result[where] += 1
    return (result,)


def plus_field_number(xp: Any, inputs: Sequence[Array], *, axis: int) -> Sequence[Array]:
    """Field k of every record plus k + 1; ``axis`` is the one that counts fields."""
    (records,) = inputs
    numbers = xp.arange(1, FIELDS + 1, dtype=records.dtype)
    return (records + (numbers if axis == 1 else numbers[:, None]),)


def tiles_transposed(xp: Any, inputs: Sequence[Array], *, rows: int, columns: int) -> Sequence[Array]:
    """Each run of ``rows * columns`` values transposed as a row-major tile; zeros fill up the last tile."""
    (values,) = inputs
    tiles = ceil(values.size / (rows * columns))
    whole = xp.zeros(tiles * rows * columns, dtype=values.dtype)
    whole[: values.size] = values
    return (whole.reshape(tiles, rows, columns).swapaxes(1, 2).reshape(-1)[: values.size],)


def copied(xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG001  (numpy and cupy alike)
    """The input itself."""
    return (inputs[0],)


def _work(problem: Problem, fields: int = 1) -> Work:
    # Each value is read once, gets one addition, is written once.
    return Work(bytes=2 * problem.n * fields * problem.element_bytes, flops=problem.n * fields)


def _real(problem: Problem) -> tuple[tuple[str, str], ...]:
    return (("REAL", "double"),) if problem.dtype == DOUBLE else ()


def _useful(problem: Problem, moved: int, asked: int, offset: int = 0) -> tuple[tuple[str, float], ...]:
    """Predictions for elements ``moved`` apart in memory, of which a request takes those ``asked`` apart."""
    return (
        ("useful_fraction", sector_useful_fraction(moved, problem.element_bytes)),
        ("warp_useful_fraction", warp_useful_fraction(asked, problem.element_bytes, offset)),
    )


def _line(problem: Problem, buffer: tuple[int, ...], reference: Reference, *scalars: Scalar) -> Setup:
    """``kernel(a, n, *scalars)`` in place, one thread for each of n elements."""
    return Setup(
        launch=Launch((ceil(problem.n / problem.block[0]), 1, 1), (*problem.block, 1)),
        arguments=(Buffer(Role.INOUT, buffer, problem.dtype), Scalar(problem.n, "uint64"), *scalars),
        work=_work(problem),
        reference=reference,
        predicted=_useful(problem, 1, 1),
        defines=_real(problem),
    )


def one_per_thread(problem: Problem) -> Setup:
    """A thread an element."""
    return _line(problem, (problem.n,), partial(plus_one, where=(slice(None),)))


def grid_stride(problem: Problem) -> Setup:
    """``knob`` blocks walk over the array."""
    return replace(one_per_thread(problem), launch=Launch((problem.knob, 1, 1), (*problem.block, 1)))


def offset(problem: Problem) -> Setup:
    """The first ``knob`` values are left out."""
    first = problem.knob
    setup = _line(problem, (problem.n + first,), partial(plus_one, where=(slice(first, None),)), Scalar(first))
    return replace(setup, predicted=_useful(problem, 1, 1, first))


def stride(problem: Problem) -> Setup:
    """Every ``knob``-th value, from the first to the n-th of them."""
    step = problem.knob
    buffer = ((problem.n - 1) * step + 1,)
    setup = _line(problem, buffer, partial(plus_one, where=(slice(None, None, step),)), Scalar(step))
    return replace(setup, predicted=_useful(problem, step, step))


def aos_one(problem: Problem) -> Setup:
    """Field 0 of each of n records."""
    setup = _line(problem, (problem.n, FIELDS), partial(plus_one, where=(slice(None), 0)))
    return replace(setup, predicted=_useful(problem, FIELDS, FIELDS))


def soa_one(problem: Problem) -> Setup:
    """The first of the arrays, one for each field."""
    return _line(problem, (FIELDS, problem.n), partial(plus_one, where=(0,)))


def aos_all(problem: Problem, asked: int = FIELDS) -> Setup:
    """All fields of each record; a request takes those ``asked`` apart."""
    setup = _line(problem, (problem.n, FIELDS), partial(plus_field_number, axis=1))
    return replace(setup, work=_work(problem, FIELDS), predicted=_useful(problem, 1, asked))


def soa_all(problem: Problem) -> Setup:
    """All arrays, one for each field."""
    setup = _line(problem, (FIELDS, problem.n), partial(plus_field_number, axis=0))
    return replace(setup, work=_work(problem, FIELDS))


def _matrix(problem: Problem, span: tuple[int, int], asked: int) -> Setup:
    """``kernel(matrix, rows, columns)`` in place; a block covers ``span`` columns and rows."""
    rows, columns = problem.extent
    return Setup(
        launch=Launch((ceil(columns / span[0]), ceil(rows / span[1]), 1), (*problem.block, 1)),
        arguments=(Buffer(Role.INOUT, problem.extent, problem.dtype), Scalar(rows), Scalar(columns)),
        work=_work(problem),
        reference=partial(plus_one, where=(slice(None),)),
        predicted=_useful(problem, 1, asked),
        defines=_real(problem),
    )


def stride_column(problem: Problem) -> Setup:
    """Neighbouring threads take neighbouring rows: a block is across the matrix turned around."""
    threads_down, threads_along = problem.block
    return _matrix(problem, (threads_along, threads_down), asked=problem.extent[1])


def stride_smem(problem: Problem) -> Setup:
    """A block brings in a square tile by its rows."""
    return _matrix(problem, (MATRIX_TILE, MATRIX_TILE), asked=1)


def shared_tile(problem: Problem, write: str, read: str, *, dynamic: bool = False) -> Setup:
    """``kernel(out, in, n[, pad])``, a block for each tile; the last may be partly filled."""
    (columns, rows), pad = problem.block, problem.knob
    # What is written by columns is in the tile transposed already: as a (columns, rows) tile, row after row.
    shape = (rows, columns) if write == "row" else (columns, rows)
    buffers = (Buffer(Role.OUT, problem.extent), Buffer(Role.IN, problem.extent))
    shared_bytes = rows * (columns + pad) * problem.element_bytes if dynamic else 0
    return Setup(
        launch=Launch((ceil(problem.n / (columns * rows)), 1, 1), (columns, rows, 1), shared_bytes),
        arguments=(*buffers, Scalar(problem.n, "uint64"), *([Scalar(pad)] if dynamic else [])),
        # Each value is read once and written once; shared memory's own traffic is no work.
        work=Work(bytes=2 * problem.n * problem.element_bytes),
        reference=copied if write == read else partial(tiles_transposed, rows=shape[0], columns=shape[1]),
        predicted=(
            ("shared_write_turns", bank_turns(tile_words(problem.block, pad, by=write))),
            ("shared_read_turns", bank_turns(tile_words(problem.block, pad, by=read))),
        ),
        defines=() if dynamic else (("TILE_X", str(columns)), ("TILE_Y", str(rows)), ("PAD", str(pad))),
    )


def transfer(problem: Problem) -> Setup:
    """The device's own copy of IN to OUT; its launch is a form."""
    return Setup(
        launch=Launch((1, 1, 1), (*problem.block, 1)),
        arguments=(Buffer(Role.OUT, problem.extent), Buffer(Role.IN, problem.extent)),
        # Each byte crosses the link once.
        work=Work(bytes=problem.n * problem.element_bytes),
        reference=copied,
        roof="link",
    )
