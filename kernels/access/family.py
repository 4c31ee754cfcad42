"""How the access pattern decides the bandwidth of memory: offset, stride, layout, shared tiles, the link to the host.

This file says on which problems each stage is run; ``setups`` says how stages are launched and judged. A size label is
the type of the elements, followed by the extent where it is not the benchmark's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from peakgate.family import AxisValues, Family, In, Out, Size, StageKernel, family, kernel, stage

from . import setups
from .sectors import SECTOR_BYTES
from .setups import BLOCK, DOUBLE, FLOAT, Keywords, element_bytes

TYPE_LABELS = {FLOAT: "f32", DOUBLE: "f64"}

MOVED_BYTES = 256 << 20
"""Bytes of sectors read, and as many written, in a benchmark launch: over four times a 60 MB L2, 0.13 ms at 4 TB/s."""
MATRIX_SIDE = 8192

BLOCKS = (BLOCK, (128,), (512,))
MATRIX_BLOCK = (32, 8)
TILE, OBLONG_TILE = (32, 32), (32, 16)
"""Columns and rows of a shared tile, and the threads of the block that moves it."""

OFFSETS, ALL_OFFSETS, GATE_OFFSETS = (0, 1, 2, 4, 8, 16, 31, 32), tuple(range(33)), (0, 1, 16)
STRIDES, ALL_STRIDES, GATE_STRIDES = (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32), (1, 2, 4, 8, 32)
GRIDS, GATE_GRIDS = (264, 528, 1056, 2112, 4224), (1056,)
"""Blocks of a grid-stride launch. A case does not know its GPU, so the grids are fixed: 2 to 32 blocks for each of 132
SMs, of which 8 blocks of 256 threads are resident at once."""

TRANSFERS = {"64KiB": 64 << 10, "1MiB": 1 << 20, "16MiB": 16 << 20, "256MiB": 256 << 20}
GATE_TRANSFER, SMALL_TRANSFER = "16MiB", "64KiB"

PROBE_COUNTS = (1, 31, 127, 1000, 4099)
PROBE_SHAPES = ((1, 1), (31, 33), (33, 31), (64, 32), (3, 1030), (1030, 3))
SMALL_COUNT, SMALL_SHAPE = 3001, (45, 70)
SMALL_GRID, SMALL_PAD = 3, 2


def _count(dtype: str, spacing: int = 1) -> int:
    """Number of elements, ``spacing`` apart, for which memory moves MOVED_BYTES of sectors."""
    return MOVED_BYTES // min(spacing * element_bytes(dtype), SECTOR_BYTES)


def _labelled(dtype: str, *extents: Size) -> dict[str, Size]:
    """Small problems, labelled with their type and extent: f32n45x70."""
    names = ("x".join(map(str, extent)) if isinstance(extent, tuple) else extent for extent in extents)
    return {f"{TYPE_LABELS[dtype]}n{name}": extent for name, extent in zip(names, extents, strict=True)}


def _stage(
    described: StageKernel,
    pattern: Keywords,
    axes: Mapping[str, AxisValues],
    *small: Mapping[str, Any],
    bench: Callable[..., bool] = lambda **_: True,
    extent: Callable[..., Size] = lambda dtype, **_: _count(dtype),
    small_extent: Size = SMALL_COUNT,
    probes: Sequence[Size] = PROBE_COUNTS,
    **more: Any,
) -> Family:
    """A stage at the points of its axes that ``bench`` chooses, and on a small problem at those of ``small``.

    ``small`` gives what differs from the default: float, and a block of BLOCK.
    """
    chosen: list[dict[str, Any]] = [{"dtype": FLOAT, "block": BLOCK, **given} for given in small or [{}]]
    of_small = small_extent if isinstance(small_extent, tuple) else (small_extent,)
    given: dict[str, Any] = {
        "axes": {"dtype": (FLOAT,), "block": (BLOCK,), **axes},
        "where": lambda *size, **at: at in chosen if size == of_small else bench(**at),
        "block_in_id": lambda block: block != BLOCK,
        "variant": "",
        "tolerance": 0.0,
        "sizes": lambda **at: {TYPE_LABELS[at["dtype"]]: extent(**at)},
        "small_sizes": lambda dtype: _labelled(dtype, small_extent),
        "edges": lambda dtype: _labelled(dtype, *probes),
    }
    return described(**given | pattern | more)


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


_PLAIN: dict[str, Any] = {
    "axes": {"dtype": tuple(TYPE_LABELS), "block": BLOCKS},
    "gate": lambda dtype, block: (dtype, block) == (FLOAT, BLOCK),
}
_MATRIX_AXES: dict[str, AxisValues] = {"dtype": tuple(TYPE_LABELS), "block": (MATRIX_BLOCK,)}
_MATRIX: dict[str, Any] = {
    "gate": lambda dtype: dtype == FLOAT,
    "extent": lambda **_: (MATRIX_SIDE, MATRIX_SIDE),
    "small_extent": SMALL_SHAPE,
    "probes": PROBE_SHAPES,
}


def _tile(described: StageKernel, write: str, read: str, *pads: int, dynamic: bool = False) -> Family:
    """Both tiles with each padding; the square tile with at most one float of padding is in the gate."""
    return _stage(
        described,
        setups.shared_tile(write, read, dynamic=dynamic),
        {"block": (TILE, OBLONG_TILE), "pad": tuple(dict.fromkeys((*pads, SMALL_PAD)))},
        {"block": OBLONG_TILE, "pad": SMALL_PAD},
        bench=lambda pad, **_: pad in pads,
        variant=lambda pad: f"pad{pad}",
        gate=lambda block, pad: block == TILE and pad <= 1,
    )


FAMILY = family(
    _stage(
        stage(1, "one_per_thread", "One element per thread, neighbours access neighbours."), setups.line(), **_PLAIN
    ),
    _stage(
        stage(2, "grid_stride", "A fixed grid loops over the array."),
        setups.GRID_STRIDE,
        {"blocks": (*GRIDS, SMALL_GRID)},
        {"blocks": SMALL_GRID},
        bench=lambda blocks, **_: blocks in GRIDS,
        variant=lambda blocks: f"g{blocks}",
        gate=lambda blocks: blocks in GATE_GRIDS,
    ),
    _stage(
        stage(3, "offset", "Warps begin inside a sector: one more sector per warp, shared with its neighbour."),
        setups.OFFSET,
        _PLAIN["axes"] | {"offset": ALL_OFFSETS},
        {"offset": 1},
        {"offset": 31},
        {"dtype": DOUBLE, "offset": 1},
        bench=lambda dtype, block, offset: offset in OFFSETS or (dtype, block) == (FLOAT, BLOCK),
        variant=lambda offset: f"o{offset}",
        gate=lambda block, offset: block == BLOCK and offset in GATE_OFFSETS,
    ),
    _stage(
        stage(
            4, "stride", "Sectors are moved whole: 1 / stride of the bytes is useful, at least one element per sector."
        ),
        setups.STRIDE,
        _PLAIN["axes"] | {"stride": ALL_STRIDES},
        {"stride": 3},
        {"stride": 8},
        {"dtype": DOUBLE, "stride": 4},
        bench=lambda dtype, block, stride: stride in STRIDES or (dtype, block) == (FLOAT, BLOCK),
        extent=lambda dtype, stride, **_: _count(dtype, stride),
        variant=lambda stride: f"s{stride}",
        gate=lambda block, stride: block == BLOCK and stride in GATE_STRIDES,
    ),
    _stage(
        stage(5, "stride_column", "Each warp walks down a column of a matrix."),
        setups.STRIDE_COLUMN,
        _MATRIX_AXES,
        {"block": MATRIX_BLOCK},
        **_MATRIX,
    ),
    _stage(
        stage(6, "stride_smem", "The same inside a shared tile, loaded and stored by rows."),
        setups.STRIDE_SMEM,
        _MATRIX_AXES,
        {"block": MATRIX_BLOCK},
        **_MATRIX,
    ),
    _tile(stage(7, "shared_tile_row_row", "Written and read by rows: no bank conflict."), "row", "row", 0),
    _tile(
        stage(8, "shared_tile_col_col", "Written and read by columns: conflicts on both sides."), "col", "col", 0, 1, 2
    ),
    _tile(stage(9, "shared_tile_row_col", "Written by rows, read by columns: transposed."), "row", "col", 0, 1, 2),
    _tile(stage(10, "shared_tile_col_row", "Written by columns, read by rows: the inverse."), "col", "row", 0, 1, 2),
    _tile(
        stage(11, "shared_tile_dynamic", "shared_tile_row_col with its shape chosen at launch."),
        "row",
        "col",
        0,
        1,
        2,
        dynamic=True,
    ),
    _stage(stage(12, "aos_one", "One field of four in an array of structures."), setups.AOS_ONE, **_PLAIN),
    _stage(stage(13, "soa_one", "One field of four in a structure of arrays."), setups.SOA_ONE, **_PLAIN),
    _stage(stage(14, "aos_all", "All fields in an array of structures."), setups.AOS_ALL, **_PLAIN),
    _stage(
        stage(15, "aos_all_aligned", "The same with aligned records, moved in 16-byte pieces."),
        setups.AOS_ALL_ALIGNED,
        **_PLAIN,
    ),
    _stage(stage(16, "soa_all", "All fields in a structure of arrays."), setups.SOA_ALL, **_PLAIN),
    _transfer("h2d_pageable", "Host to device; pageable memory is staged through pinned memory.", host_bound=True),
    _transfer("h2d_pinned", "Host to device; the copy engine reads pinned memory itself."),
    _transfer("d2h_pageable", "Device to host, staged.", host_bound=True),
    _transfer("d2h_pinned", "Device to host, directly into pinned memory."),
    summary="how the pattern of accesses decides what memory delivers",
    headlines={"offset": "f32-o1", "stride": "f32-s8"},
)
