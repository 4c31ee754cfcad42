"""How the pattern of accesses decides what memory delivers: offset, stride, layout, shared tiles, the host link.

Useful bytes of a kernel that changes values in place are ``2 * n * e``: n values of e bytes, each read once and written
once. What memory moves beside them, the unused rest of each sector, is not work; ``predicted`` carries what the sector
model expects of it. A size label is the element's type, followed by the extent where it is not the benchmark's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil, prod
from typing import Any

import numpy as np

from suite.case import Argument, Array, Buffer, Case, Family, Launch, Reference, Role, Scalar, Scale, Stage, Tier, Work
from suite.families.paths import KERNELS
from suite.sectors import (
    SECTOR_BYTES,
    bank_turns,
    sector_useful_fraction,
    tile_words,
    warp_useful_fraction,
)

NAME = "access"
FLOAT, DOUBLE = "float32", "float64"
TYPE_LABELS = {FLOAT: "f32", DOUBLE: "f64"}

FIELDS = 4
"""Of a record in the aos and soa stages."""

MOVED_BYTES = 256 << 20
"""Sectors each way in a benchmark launch: over four times a 60 MB L2, and 0.13 ms at 4 TB/s."""
MATRIX_SIDE = 8192

BLOCK = (256, 1)
BLOCKS = (BLOCK, (128, 1), (512, 1))
MATRIX_BLOCK, MATRIX_TILE = (32, 8), 32
TILE, OBLONG_TILE = (32, 32), (32, 16)
"""Columns and rows of a shared tile, and the threads of the block that moves it."""

OFFSETS, ALL_OFFSETS, GATE_OFFSETS = (0, 1, 2, 4, 8, 16, 31, 32), tuple(range(33)), (0, 1, 16)
STRIDES, ALL_STRIDES, GATE_STRIDES = (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32), (1, 2, 4, 8, 32)
GRIDS, GATE_GRIDS = (264, 528, 1056, 2112, 4224), (1056,)
"""Blocks of a grid-stride launch. A case does not know its chip, so the grids are fixed: 2 to 32 blocks for each of 132
SMs, of which 8 of 256 threads are resident at once."""

TRANSFERS = {"64KiB": 64 << 10, "1MiB": 1 << 20, "16MiB": 16 << 20, "256MiB": 256 << 20}
GATE_TRANSFERS, SMALL_TRANSFERS = ("16MiB",), ("64KiB",)

PROBE_COUNTS = ((1,), (31,), (127,), (1000,), (4099,))
PROBE_SHAPES = ((1, 1), (31, 33), (33, 31), (64, 32), (3, 130), (130, 3))
SMALL_COUNT, SMALL_SHAPE = (3001,), (45, 70)


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


@dataclass(frozen=True, slots=True)
class Rung:
    """A stage, how its problems are set up, and which there are; ``knob`` is the prefix of its knob in a case id."""

    stage: Stage
    setup: Callable[[Problem], Setup]
    bench: tuple[Problem, ...]
    small: tuple[Problem, ...]
    knob: str = ""
    probe_extents: tuple[tuple[int, ...], ...] = PROBE_COUNTS


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


def _one_per_thread(problem: Problem) -> Setup:
    return _line(problem, (problem.n,), partial(plus_one, where=(slice(None),)))


def _grid_stride(problem: Problem) -> Setup:
    return replace(_one_per_thread(problem), launch=Launch((problem.knob, 1, 1), (*problem.block, 1)))


def _offset(problem: Problem) -> Setup:
    first = problem.knob
    setup = _line(problem, (problem.n + first,), partial(plus_one, where=(slice(first, None),)), Scalar(first))
    return replace(setup, predicted=_useful(problem, 1, 1, first))


def _stride(problem: Problem) -> Setup:
    step = problem.knob
    buffer = ((problem.n - 1) * step + 1,)
    setup = _line(problem, buffer, partial(plus_one, where=(slice(None, None, step),)), Scalar(step))
    return replace(setup, predicted=_useful(problem, step, step))


def _aos_one(problem: Problem) -> Setup:
    setup = _line(problem, (problem.n, FIELDS), partial(plus_one, where=(slice(None), 0)))
    return replace(setup, predicted=_useful(problem, FIELDS, FIELDS))


def _soa_one(problem: Problem) -> Setup:
    return _line(problem, (FIELDS, problem.n), partial(plus_one, where=(0,)))


def _aos_all(problem: Problem, asked: int = FIELDS) -> Setup:
    setup = _line(problem, (problem.n, FIELDS), partial(plus_field_number, axis=1))
    return replace(setup, work=_work(problem, FIELDS), predicted=_useful(problem, 1, asked))


def _soa_all(problem: Problem) -> Setup:
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


def _stride_column(problem: Problem) -> Setup:
    threads_down, threads_along = problem.block
    return _matrix(problem, (threads_along, threads_down), asked=problem.extent[1])


def _stride_smem(problem: Problem) -> Setup:
    return _matrix(problem, (MATRIX_TILE, MATRIX_TILE), asked=1)


def _shared_tile(problem: Problem, write: str, read: str, *, dynamic: bool = False) -> Setup:
    """``kernel(out, in, n[, pad])``, a block for each tile; the last may be partly filled."""
    (columns, rows), pad = problem.block, problem.knob
    # What is written by columns lies in the tile transposed already: as a (columns, rows) tile, row after row.
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


def _transfer(problem: Problem) -> Setup:
    """The device's own copy of IN to OUT; its launch is a form."""
    return Setup(
        launch=Launch((1, 1, 1), (*problem.block, 1)),
        arguments=(Buffer(Role.OUT, problem.extent), Buffer(Role.IN, problem.extent)),
        # Each byte crosses the link once.
        work=Work(bytes=problem.n * problem.element_bytes),
        reference=copied,
        roof="link",
    )


def _bench(
    spacing: int = 1, knob: int = 0, *, gate: bool, dtype: str = FLOAT, block: tuple[int, int] = BLOCK
) -> Problem:
    """As many elements, ``spacing`` apart, as make memory move MOVED_BYTES of sectors."""
    n = MOVED_BYTES // min(spacing * np.dtype(dtype).itemsize, SECTOR_BYTES)
    return Problem((n,), block, knob, dtype, gate)


def _typed(gate_types: tuple[str, ...] = (FLOAT,)) -> Iterator[tuple[str, tuple[int, int], bool]]:
    """Every type and block; the usual block belongs to the gate, for the types in ``gate_types``."""
    for dtype, block in product(TYPE_LABELS, BLOCKS):
        yield dtype, block, block == BLOCK and dtype in gate_types


_PLAIN = tuple(_bench(dtype=dtype, block=block, gate=gate) for dtype, block, gate in _typed())
_SMALL_PLAIN = (Problem(SMALL_COUNT),)

_OFFSETS = tuple(
    _bench(knob=offset, dtype=dtype, block=block, gate=gate and offset in GATE_OFFSETS)
    for dtype, block, gate in _typed((FLOAT, DOUBLE))
    for offset in (ALL_OFFSETS if (dtype, block) == (FLOAT, BLOCK) else OFFSETS)
)
_STRIDES = tuple(
    _bench(stride, stride, dtype=dtype, block=block, gate=gate and stride in GATE_STRIDES)
    for dtype, block, gate in _typed((FLOAT, DOUBLE))
    for stride in (ALL_STRIDES if (dtype, block) == (FLOAT, BLOCK) else STRIDES)
)
_GRIDS = tuple(_bench(knob=blocks, gate=blocks in GATE_GRIDS) for blocks in GRIDS)

_MATRICES = tuple(
    Problem((MATRIX_SIDE, MATRIX_SIDE), MATRIX_BLOCK, dtype=dtype, gate=dtype == FLOAT) for dtype in TYPE_LABELS
)
_SMALL_MATRICES = (Problem(SMALL_SHAPE, MATRIX_BLOCK),)


def _tiles(*pads: int) -> tuple[Problem, ...]:
    """Both tiles with each padding; square with at most one float of it is in the gate."""
    return tuple(
        _bench(knob=pad, block=tile, gate=tile == TILE and pad <= 1) for tile in (TILE, OBLONG_TILE) for pad in pads
    )


_SMALL_TILES = (Problem(SMALL_COUNT, OBLONG_TILE, 2),)
_TRANSFERS = tuple(Problem((size // 4,), gate=label in GATE_TRANSFERS, size=label) for label, size in TRANSFERS.items())
_SMALL_TRANSFERS = tuple(Problem((TRANSFERS[label] // 4,), size=label) for label in SMALL_TRANSFERS)


def _stage(name: str, lesson: str) -> Stage:
    return Stage(name, lesson, source=KERNELS / NAME / f"{name}.cu")


def _tile_rung(name: str, lesson: str, write: str, read: str, *pads: int, dynamic: bool = False) -> Rung:
    setup = partial(_shared_tile, write=write, read=read, dynamic=dynamic)
    return Rung(_stage(name, lesson), setup, _tiles(*pads), _SMALL_TILES, "pad")


def _transfer_rung(name: str, lesson: str, *, host_bound: bool = False) -> Rung:
    stage = Stage(f"transfer_{name}", lesson, operation=name, host_bound=host_bound)
    problems = tuple(replace(problem, gate=problem.gate and not host_bound) for problem in _TRANSFERS)
    return Rung(stage, _transfer, problems, _SMALL_TRANSFERS)


RUNGS = (
    Rung(_stage("one_per_thread", "One element a thread, side by side."), _one_per_thread, _PLAIN, _SMALL_PLAIN),
    Rung(
        _stage("grid_stride", "A fixed grid walks over the array."),
        _grid_stride,
        _GRIDS,
        (Problem(SMALL_COUNT, knob=3),),
        "g",
    ),
    Rung(
        _stage("offset", "Warps begin inside a sector: one more each, shared with the neighbour."),
        _offset,
        _OFFSETS,
        (Problem(SMALL_COUNT, knob=1), Problem(SMALL_COUNT, knob=31), Problem(SMALL_COUNT, knob=1, dtype=DOUBLE)),
        "o",
    ),
    Rung(
        _stage("stride", "Sectors are moved whole: 1 / stride of them is useful, down to one element each."),
        _stride,
        _STRIDES,
        (Problem(SMALL_COUNT, knob=3), Problem(SMALL_COUNT, knob=8), Problem(SMALL_COUNT, knob=4, dtype=DOUBLE)),
        "s",
    ),
    Rung(
        _stage("stride_column", "A matrix walked down its columns."),
        _stride_column,
        _MATRICES,
        _SMALL_MATRICES,
        probe_extents=PROBE_SHAPES,
    ),
    Rung(
        _stage("stride_smem", "The same walk inside a shared tile: rows to and from memory."),
        _stride_smem,
        _MATRICES,
        _SMALL_MATRICES,
        probe_extents=PROBE_SHAPES,
    ),
    _tile_rung("shared_tile_row_row", "Written and read by rows: no bank conflict.", "row", "row", 0),
    _tile_rung("shared_tile_col_col", "Written and read by columns: conflicts on both sides.", "col", "col", 0, 1, 2),
    _tile_rung("shared_tile_row_col", "Written by rows, read by columns: transposed.", "row", "col", 0, 1, 2),
    _tile_rung("shared_tile_col_row", "Written by columns, read by rows: the inverse.", "col", "row", 0, 1, 2),
    _tile_rung("shared_tile_dynamic", "shared_tile_row_col, shaped at launch.", "row", "col", 0, 1, 2, dynamic=True),
    Rung(_stage("aos_one", "One field of four in an array of structures."), _aos_one, _PLAIN, _SMALL_PLAIN),
    Rung(_stage("soa_one", "One field of four in a structure of arrays."), _soa_one, _PLAIN, _SMALL_PLAIN),
    Rung(_stage("aos_all", "All fields in an array of structures."), _aos_all, _PLAIN, _SMALL_PLAIN),
    Rung(
        _stage("aos_all_aligned", "The same, aligned: a record in 16-byte pieces."),
        partial(_aos_all, asked=1),
        _PLAIN,
        _SMALL_PLAIN,
    ),
    Rung(_stage("soa_all", "All fields in a structure of arrays."), _soa_all, _PLAIN, _SMALL_PLAIN),
    _transfer_rung("h2d_pageable", "Host to device; pageable memory is staged through a pinned one.", host_bound=True),
    _transfer_rung("h2d_pinned", "Host to device; the copy engine reads pinned memory itself."),
    _transfer_rung("d2h_pageable", "Device to host, staged.", host_bound=True),
    _transfer_rung("d2h_pinned", "Device to host, straight into pinned memory."),
)
_RUNGS = {rung.stage.name: rung for rung in RUNGS}


def _case(rung: Rung, problem: Problem) -> Case:
    setup = rung.setup(problem)
    x, y = problem.block
    return Case(
        family=NAME,
        stage=rung.stage,
        launch=setup.launch,
        arguments=setup.arguments,
        work=setup.work,
        reference=setup.reference,
        size=problem.size or TYPE_LABELS[problem.dtype],
        block="" if problem.block == BLOCK else str(x) if y == 1 else f"{x}x{y}",
        variant=f"{rung.knob}{problem.knob}" if rung.knob else "",
        defines=setup.defines,
        dtype=problem.dtype,
        roof=setup.roof,
        tier=Tier.GATE if problem.gate else Tier.FULL,
        predicted=setup.predicted,
    )


def cases(scale: Scale) -> Iterator[Case]:
    """Every stage on its problems."""
    for rung in RUNGS:
        if scale is Scale.SMALL:
            yield from (_case(rung, _labelled(problem)) for problem in rung.small)
        else:
            yield from (_case(rung, problem) for problem in rung.bench)


def probes(case: Case) -> Iterator[Case]:
    """The case's build, block and knob on ragged extents: shorter than a warp, off every block and tile by some."""
    rung = _RUNGS[case.stage.name]
    x, y, _ = case.launch.block
    knob = int(case.variant.removeprefix(rung.knob)) if rung.knob else 0
    for extent in rung.probe_extents:
        yield _case(rung, _labelled(Problem(extent, (x, y), knob, case.dtype)))


def _labelled(problem: Problem) -> Problem:
    """With its type and extent for a size label, f32n45x70, if it has none."""
    extent = "x".join(map(str, problem.extent))
    return problem if problem.size else replace(problem, size=f"{TYPE_LABELS[problem.dtype]}n{extent}")


FAMILY = Family(
    name=NAME,
    summary="how the pattern of accesses decides what memory delivers",
    stages=tuple(rung.stage for rung in RUNGS),
    cases=cases,
    probes=probes,
)
