"""How the pattern of accesses decides what memory delivers: offset, stride, layout, shared tiles, the host link.

Here is which problems each stage is put to; how they are launched and judged is in ``setups``. A size label is
the element's type, followed by the extent where it is not the benchmark's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

from peakgate.family import Family, In, Out, Size, StageKernel, family, kernel, stage

from . import setups
from .sectors import SECTOR_BYTES
from .setups import BLOCK, DOUBLE, FLOAT, Build, Keywords

TYPE_LABELS = {FLOAT: "f32", DOUBLE: "f64"}

MOVED_BYTES = 256 << 20
"""Sectors each way in a benchmark launch: over four times a 60 MB L2, and 0.13 ms at 4 TB/s."""
MATRIX_SIDE = 8192

BLOCKS = (BLOCK, (128,), (512,))
MATRIX_BLOCK = (32, 8)
TILE, OBLONG_TILE = (32, 32), (32, 16)
"""Columns and rows of a shared tile, and the threads of the block that moves it."""

OFFSETS, ALL_OFFSETS, GATE_OFFSETS = (0, 1, 2, 4, 8, 16, 31, 32), tuple(range(33)), (0, 1, 16)
STRIDES, ALL_STRIDES, GATE_STRIDES = (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32), (1, 2, 4, 8, 32)
GRIDS, GATE_GRIDS = (264, 528, 1056, 2112, 4224), (1056,)
"""Blocks of a grid-stride launch. A case does not know its GPU, so the grids are fixed: 2 to 32 blocks for each of 132
SMs, of which 8 of 256 threads are resident at once."""

TRANSFERS = {"64KiB": 64 << 10, "1MiB": 1 << 20, "16MiB": 16 << 20, "256MiB": 256 << 20}
GATE_TRANSFER, SMALL_TRANSFER = "16MiB", "64KiB"

PROBE_COUNTS = (1, 31, 127, 1000, 4099)
PROBE_SHAPES = ((1, 1), (31, 33), (33, 31), (64, 32), (3, 1030), (1030, 3))
SMALL_COUNT, SMALL_SHAPE = 3001, (45, 70)


def _count(build: Build, spacing: int = 1) -> int:
    """As many elements, ``spacing`` apart, as make memory move MOVED_BYTES of sectors."""
    return MOVED_BYTES // min(spacing * build.element_bytes, SECTOR_BYTES)


def _labelled(dtype: str, *extents: Size) -> dict[str, Size]:
    """Small problems, labelled with their type and extent: f32n45x70."""
    names = ("x".join(map(str, extent)) if isinstance(extent, tuple) else extent for extent in extents)
    return {f"{TYPE_LABELS[dtype]}n{name}": extent for name, extent in zip(names, extents, strict=True)}


def _pattern(
    described: StageKernel,
    pattern: Callable[[Build], Keywords],
    bench: Sequence[Build],
    *,
    small: Sequence[Build] = (Build(),),
    knob: str = "",
    extent: Callable[[Build], Size] = _count,
    small_extent: Size = SMALL_COUNT,
    probes: Sequence[Size] = PROBE_COUNTS,
) -> Iterator[Family]:
    """A stage with each of its builds; ``knob`` is the prefix of a build's knob in a case id."""

    def built(build: Build, **sizes: Any) -> Family:
        return described(
            block=build.block,
            block_in_id=build.block != BLOCK,
            variant=f"{knob}{build.knob}" if knob else "",
            gate=build.gate,
            tolerance=0.0,
            edges=_labelled(build.dtype, *probes),
            **pattern(build),
            **sizes,
        )

    for build in bench:
        yield built(build, sizes={TYPE_LABELS[build.dtype]: extent(build)}, small_sizes=None)
    for build in small:
        yield built(build, small_sizes=_labelled(build.dtype, small_extent))


def _transfer(operation: str, lesson: str, *, host_bound: bool = False) -> Family:
    return kernel(
        operation=operation,
        name=f"transfer_{operation}",
        lesson=lesson,
        host_bound=host_bound,
        arguments=lambda n: [Out(n), In(n)],
        block=BLOCK,
        bytes=lambda n: n * 4,  # each byte crosses the link once
        reference=setups.copied,
        tolerance=0.0,
        roof="link",
        sizes={label: nbytes // 4 for label, nbytes in TRANSFERS.items()},
        gate=lambda n: n * 4 == TRANSFERS[GATE_TRANSFER],
        small_sizes={SMALL_TRANSFER: TRANSFERS[SMALL_TRANSFER] // 4},
        edges=_labelled(FLOAT, *PROBE_COUNTS),
    )


def _knobs(usual: Sequence[int], every: Sequence[int], gate: Sequence[int]) -> tuple[Build, ...]:
    """Every type and block with the usual knobs, floats in the usual block with every one; the gate has one block."""
    return tuple(
        Build(dtype, block, knob, gate=block == BLOCK and knob in gate)
        for dtype, block in product(TYPE_LABELS, BLOCKS)
        for knob in (every if (dtype, block) == (FLOAT, BLOCK) else usual)
    )


_PLAIN = tuple(
    Build(dtype, block, gate=(dtype, block) == (FLOAT, BLOCK)) for dtype, block in product(TYPE_LABELS, BLOCKS)
)
_GRIDS = tuple(Build(knob=blocks, gate=blocks in GATE_GRIDS) for blocks in GRIDS)
_matrix = partial(
    _pattern,
    bench=[Build(dtype, MATRIX_BLOCK, gate=dtype == FLOAT) for dtype in TYPE_LABELS],
    small=[Build(block=MATRIX_BLOCK)],
    extent=lambda _: (MATRIX_SIDE, MATRIX_SIDE),
    small_extent=SMALL_SHAPE,
    probes=PROBE_SHAPES,
)


def _tile(described: StageKernel, write: str, read: str, *pads: int, dynamic: bool = False) -> Iterator[Family]:
    """Both tiles with each padding; square with at most one float of it is in the gate."""
    pattern = partial(setups.shared_tile, write=write, read=read, dynamic=dynamic)
    bench = [
        Build(block=tile, knob=pad, gate=tile == TILE and pad <= 1) for tile in (TILE, OBLONG_TILE) for pad in pads
    ]
    return _pattern(described, pattern, bench, small=[Build(block=OBLONG_TILE, knob=2)], knob="pad")


FAMILY = family(
    *_pattern(stage(1, "one_per_thread", "One element per thread, side by side."), setups.line, _PLAIN),
    *_pattern(
        stage(2, "grid_stride", "A fixed grid walks over the array."),
        setups.grid_stride,
        _GRIDS,
        small=[Build(knob=3)],
        knob="g",
    ),
    *_pattern(
        stage(3, "offset", "Warps begin inside a sector: one more each, shared with the neighbour."),
        setups.offset,
        _knobs(OFFSETS, ALL_OFFSETS, GATE_OFFSETS),
        small=[Build(knob=1), Build(knob=31), Build(DOUBLE, knob=1)],
        knob="o",
    ),
    *_pattern(
        stage(4, "stride", "Sectors are moved whole: 1 / stride of them is useful, down to one element each."),
        setups.stride,
        _knobs(STRIDES, ALL_STRIDES, GATE_STRIDES),
        small=[Build(knob=3), Build(knob=8), Build(DOUBLE, knob=4)],
        knob="s",
        extent=lambda build: _count(build, build.knob),
    ),
    *_matrix(stage(5, "stride_column", "A matrix walked down its columns."), setups.stride_column),
    *_matrix(
        stage(6, "stride_smem", "The same walk inside a shared tile: rows to and from memory."), setups.stride_smem
    ),
    *_tile(stage(7, "shared_tile_row_row", "Written and read by rows: no bank conflict."), "row", "row", 0),
    *_tile(
        stage(8, "shared_tile_col_col", "Written and read by columns: conflicts on both sides."), "col", "col", 0, 1, 2
    ),
    *_tile(stage(9, "shared_tile_row_col", "Written by rows, read by columns: transposed."), "row", "col", 0, 1, 2),
    *_tile(stage(10, "shared_tile_col_row", "Written by columns, read by rows: the inverse."), "col", "row", 0, 1, 2),
    *_tile(
        stage(11, "shared_tile_dynamic", "shared_tile_row_col, shaped at launch."), "row", "col", 0, 1, 2, dynamic=True
    ),
    *_pattern(stage(12, "aos_one", "One field of four in an array of structures."), setups.aos_one, _PLAIN),
    *_pattern(stage(13, "soa_one", "One field of four in a structure of arrays."), setups.soa_one, _PLAIN),
    *_pattern(stage(14, "aos_all", "All fields in an array of structures."), setups.aos_all, _PLAIN),
    *_pattern(
        stage(15, "aos_all_aligned", "The same, aligned: a record in 16-byte pieces."), setups.aos_all_aligned, _PLAIN
    ),
    *_pattern(stage(16, "soa_all", "All fields in a structure of arrays."), setups.soa_all, _PLAIN),
    _transfer("h2d_pageable", "Host to device; pageable memory is staged through a pinned one.", host_bound=True),
    _transfer("h2d_pinned", "Host to device; the copy engine reads pinned memory itself."),
    _transfer("d2h_pageable", "Device to host, staged.", host_bound=True),
    _transfer("d2h_pinned", "Device to host, straight into pinned memory."),
    summary="how the pattern of accesses decides what memory delivers",
    headlines={"offset": "f32-o1", "stride": "f32-s8"},
)
