"""How the pattern of accesses decides what memory delivers: offset, stride, layout, shared tiles, the host link.

Here is which problems each stage is put to; how they are launched and judged is in ``setups``. A size label is
the element's type, followed by the extent where it is not the benchmark's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from peakgate.case import Case, Family, Scale, Stage, Tier

from . import setups
from .sectors import SECTOR_BYTES
from .setups import BLOCK, DOUBLE, FLOAT, Problem, Setup

NAME = "access"
HERE = Path(__file__).parent
TYPE_LABELS = {FLOAT: "f32", DOUBLE: "f64"}

MOVED_BYTES = 256 << 20
"""Sectors each way in a benchmark launch: over four times a 60 MB L2, and 0.13 ms at 4 TB/s."""
MATRIX_SIDE = 8192

BLOCKS = (BLOCK, (128, 1), (512, 1))
MATRIX_BLOCK = (32, 8)
TILE, OBLONG_TILE = (32, 32), (32, 16)
"""Columns and rows of a shared tile, and the threads of the block that moves it."""

OFFSETS, ALL_OFFSETS, GATE_OFFSETS = (0, 1, 2, 4, 8, 16, 31, 32), tuple(range(33)), (0, 1, 16)
STRIDES, ALL_STRIDES, GATE_STRIDES = (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32), (1, 2, 4, 8, 32)
GRIDS, GATE_GRIDS = (264, 528, 1056, 2112, 4224), (1056,)
"""Blocks of a grid-stride launch. A case does not know its GPU, so the grids are fixed: 2 to 32 blocks for each of 132
SMs, of which 8 of 256 threads are resident at once."""

TRANSFERS = {"64KiB": 64 << 10, "1MiB": 1 << 20, "16MiB": 16 << 20, "256MiB": 256 << 20}
GATE_TRANSFERS, SMALL_TRANSFERS = ("16MiB",), ("64KiB",)

PROBE_COUNTS = ((1,), (31,), (127,), (1000,), (4099,))
PROBE_SHAPES = ((1, 1), (31, 33), (33, 31), (64, 32), (3, 130), (130, 3))
SMALL_COUNT, SMALL_SHAPE = (3001,), (45, 70)


@dataclass(frozen=True, slots=True)
class Entry:
    """A stage, how its problems are set up, and which there are; ``knob`` is the prefix of its knob in a case id."""

    stage: Stage
    setup: Callable[[Problem], Setup]
    bench: tuple[Problem, ...]
    small: tuple[Problem, ...]
    knob: str = ""
    probe_extents: tuple[tuple[int, ...], ...] = PROBE_COUNTS


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
    return Stage(name, lesson, source=HERE / f"{name}.cu")


def _tile_entry(name: str, lesson: str, write: str, read: str, *pads: int, dynamic: bool = False) -> Entry:
    setup = partial(setups.shared_tile, write=write, read=read, dynamic=dynamic)
    return Entry(_stage(name, lesson), setup, _tiles(*pads), _SMALL_TILES, "pad")


def _transfer_entry(name: str, lesson: str, *, host_bound: bool = False) -> Entry:
    stage = Stage(f"transfer_{name}", lesson, operation=name, host_bound=host_bound)
    problems = tuple(replace(problem, gate=problem.gate and not host_bound) for problem in _TRANSFERS)
    return Entry(stage, setups.transfer, problems, _SMALL_TRANSFERS)


ENTRIES = (
    Entry(_stage("one_per_thread", "One element a thread, side by side."), setups.one_per_thread, _PLAIN, _SMALL_PLAIN),
    Entry(
        _stage("grid_stride", "A fixed grid walks over the array."),
        setups.grid_stride,
        _GRIDS,
        (Problem(SMALL_COUNT, knob=3),),
        "g",
    ),
    Entry(
        _stage("offset", "Warps begin inside a sector: one more each, shared with the neighbour."),
        setups.offset,
        _OFFSETS,
        (Problem(SMALL_COUNT, knob=1), Problem(SMALL_COUNT, knob=31), Problem(SMALL_COUNT, knob=1, dtype=DOUBLE)),
        "o",
    ),
    Entry(
        _stage("stride", "Sectors are moved whole: 1 / stride of them is useful, down to one element each."),
        setups.stride,
        _STRIDES,
        (Problem(SMALL_COUNT, knob=3), Problem(SMALL_COUNT, knob=8), Problem(SMALL_COUNT, knob=4, dtype=DOUBLE)),
        "s",
    ),
    Entry(
        _stage("stride_column", "A matrix walked down its columns."),
        setups.stride_column,
        _MATRICES,
        _SMALL_MATRICES,
        probe_extents=PROBE_SHAPES,
    ),
    Entry(
        _stage("stride_smem", "The same walk inside a shared tile: rows to and from memory."),
        setups.stride_smem,
        _MATRICES,
        _SMALL_MATRICES,
        probe_extents=PROBE_SHAPES,
    ),
    _tile_entry("shared_tile_row_row", "Written and read by rows: no bank conflict.", "row", "row", 0),
    _tile_entry("shared_tile_col_col", "Written and read by columns: conflicts on both sides.", "col", "col", 0, 1, 2),
    _tile_entry("shared_tile_row_col", "Written by rows, read by columns: transposed.", "row", "col", 0, 1, 2),
    _tile_entry("shared_tile_col_row", "Written by columns, read by rows: the inverse.", "col", "row", 0, 1, 2),
    _tile_entry("shared_tile_dynamic", "shared_tile_row_col, shaped at launch.", "row", "col", 0, 1, 2, dynamic=True),
    Entry(_stage("aos_one", "One field of four in an array of structures."), setups.aos_one, _PLAIN, _SMALL_PLAIN),
    Entry(_stage("soa_one", "One field of four in a structure of arrays."), setups.soa_one, _PLAIN, _SMALL_PLAIN),
    Entry(_stage("aos_all", "All fields in an array of structures."), setups.aos_all, _PLAIN, _SMALL_PLAIN),
    Entry(
        _stage("aos_all_aligned", "The same, aligned: a record in 16-byte pieces."),
        partial(setups.aos_all, asked=1),
        _PLAIN,
        _SMALL_PLAIN,
    ),
    Entry(_stage("soa_all", "All fields in a structure of arrays."), setups.soa_all, _PLAIN, _SMALL_PLAIN),
    _transfer_entry("h2d_pageable", "Host to device; pageable memory is staged through a pinned one.", host_bound=True),
    _transfer_entry("h2d_pinned", "Host to device; the copy engine reads pinned memory itself."),
    _transfer_entry("d2h_pageable", "Device to host, staged.", host_bound=True),
    _transfer_entry("d2h_pinned", "Device to host, straight into pinned memory."),
)
_ENTRIES = {entry.stage.name: entry for entry in ENTRIES}


def _case(entry: Entry, problem: Problem) -> Case:
    setup = entry.setup(problem)
    x, y = problem.block
    return Case(
        family=NAME,
        stage=entry.stage,
        launch=setup.launch,
        arguments=setup.arguments,
        work=setup.work,
        reference=setup.reference,
        size=problem.size or TYPE_LABELS[problem.dtype],
        block="" if problem.block == BLOCK else str(x) if y == 1 else f"{x}x{y}",
        variant=f"{entry.knob}{problem.knob}" if entry.knob else "",
        defines=setup.defines,
        dtype=problem.dtype,
        roof=setup.roof,
        tier=Tier.GATE if problem.gate else Tier.FULL,
        predicted=setup.predicted,
    )


def cases(scale: Scale) -> Iterator[Case]:
    """Every stage on its problems."""
    for entry in ENTRIES:
        if scale is Scale.SMALL:
            yield from (_case(entry, _labelled(problem)) for problem in entry.small)
        else:
            yield from (_case(entry, problem) for problem in entry.bench)


def probes(case: Case) -> Iterator[Case]:
    """The case's build, block and knob on ragged extents: shorter than a warp, off every block and tile by some."""
    entry = _ENTRIES[case.stage.name]
    x, y, _ = case.launch.block
    knob = int(case.variant.removeprefix(entry.knob)) if entry.knob else 0
    for extent in entry.probe_extents:
        yield _case(entry, _labelled(Problem(extent, (x, y), knob, case.dtype)))


def _labelled(problem: Problem) -> Problem:
    """With its type and extent for a size label, f32n45x70, if it has none."""
    extent = "x".join(map(str, problem.extent))
    return problem if problem.size else replace(problem, size=f"{TYPE_LABELS[problem.dtype]}n{extent}")


FAMILY = Family(
    name=NAME,
    summary="how the pattern of accesses decides what memory delivers",
    stages=tuple(entry.stage for entry in ENTRIES),
    cases=cases,
    probes=probes,
    headlines={"offset": "f32-o1", "stride": "f32-s8"},
)
