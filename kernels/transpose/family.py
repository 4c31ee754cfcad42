"""Out-of-place transpose of a float32 matrix: from one float per thread to the speed of a copy.

``in`` has ``ny`` rows of ``nx`` columns; a size label is ``<rows>x<columns>``, or the side alone of a square matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from math import ceil
from types import MappingProxyType
from typing import Any

from peakgate.family import Array, Family, In, Out, Value, by_side, family, stage

Shape = tuple[int, int]
"""Threads of a block along x and y, or rows and columns of a matrix."""

BLOCKS: tuple[Shape, ...] = ((32, 8), (16, 16), (8, 32), (32, 32), (32, 16), (16, 32), (8, 8))
RECTANGULAR_BLOCKS: tuple[Shape, ...] = ((32, 16), (16, 32), (32, 8), (8, 32))
"""Blocks of the stage whose tile has the shape of the block; square blocks are measured in ``smem_pad``."""
BENCH_SIDES = (2048, 4096, 8192, 16384)
SMALL_SHAPES = ((192, 256), (128, 128))
PROBE_SHAPES = ((1, 1), (31, 33), (127, 129), (128, 127), (3, 1030), (1030, 3), (132, 196), (515, 260))
"""Rows and columns. They miss every tile size by one; are long in either direction; have only rows, or only columns,
that are a multiple of four; and (132, 196) has 16-byte aligned rows: full tiles are moved in float4, edge tiles cannot
be."""

GATE_SIDES = (8192, 16384)
"""A 2048 x 2048 matrix fits in the L2 of large GPUs, and 4096 x 4096 varies from run to run: both are for the
record."""
GATE_BLOCKS = 2
"""The gate takes the first blocks of each stage: those that compare best with neighbouring stages, mostly the
fastest."""


def transposed(xp: object, matrix: Array) -> Array:  # noqa: ARG001  (numpy and cupy alike)
    """The exact transpose, as a view."""
    return matrix.T


def copied(xp: object, matrix: Array) -> Array:  # noqa: ARG001
    """The input itself."""
    return matrix


def tile(x: int, y: int) -> Shape:
    """The square shared tile that a block moves: its side is the longer side of the block, which moves it in steps.

    So 32x8, 8x32 and 32x32 threads all move 32 x 32 tiles, with 4, 4 and 1 elements per thread.
    """
    return max(x, y), max(x, y)


def two_tiles(x: int, y: int) -> Shape:
    """Two such tiles next to each other."""
    return 2 * max(x, y), max(x, y)


def covering(rows: int, columns: int, span: Shape, *, down: bool) -> Shape:
    """Number of blocks along x and y that cover a matrix with spans of (columns, rows), none of them wholly outside.

    The x axis counts spans along the columns, or with ``down`` along the rows.
    """
    along, below = ceil(columns / span[0]), ceil(rows / span[1])
    return (below, along) if down else (along, below)


def _wide(x: int, y: int) -> Shape:
    return x, y


def _tall(x: int, y: int) -> Shape:
    return y, x


def _tile64(*_: int) -> Shape:
    return 64, 64


def _stage(
    number: int,
    name: str,
    lesson: str,
    span: Callable[[int, int], Shape],
    *first: Shape,
    blocks: tuple[Shape, ...] = BLOCKS,
    down: bool = False,
    pads: Mapping[str, int] = MappingProxyType({}),
    copies: bool = False,
    gated: bool = True,
    **more: Any,
) -> Family:
    """A stage with each padding and block shape, ``first`` those of the gate; small matrices have one block shape each.

    ``span(x, y)`` is the part of the input that one block covers, as (columns, rows). ``pads`` are the paddings that a
    stage with a tile is built with, in floats per row of the tile; such a stage is built for each block shape. Unless
    ``gated`` it is in the full tier alone.
    """
    ranked = (*first, *(block for block in blocks if block not in first))
    small = list(zip(SMALL_SHAPES, cycle(ranked), strict=False))
    axes: dict[str, Any] = {"pad": pads, "block": ranked} if pads else {"block": ranked}
    return stage(
        number, name, lesson
    )(
        axes=axes,
        arguments=lambda rows, columns: [
            Out(rows, columns) if copies else Out(columns, rows),
            In(rows, columns),
            Value(columns),
            Value(rows),
        ],
        grid=lambda rows, columns, block: covering(rows, columns, span(*block), down=down),
        defines=(lambda block, pad: {"BLOCK_X": block[0], "BLOCK_Y": block[1], "PAD": pad}) if pads else {},
        bytes=lambda rows, columns: 2 * 4 * rows * columns,  # every element of 4 bytes is read and written once
        reference=copied if copies else transposed,
        tolerance=0.0,
        sizes=by_side((side, side) for side in BENCH_SIDES),
        gate=lambda rows, block: gated and rows in GATE_SIDES and block in ranked[:GATE_BLOCKS],
        small_sizes=lambda block: by_side(shape for shape, own in small if own == block) or None,
        edges=by_side(PROBE_SHAPES),
        **more,
    )


_THREADS_256: dict[str, Any] = {"span": _tile64, "blocks": ((256, 1),)}
_UNPADDED, _PADDED = {"": 0}, {"": 1, "pad2": 2}
EACH_PAD = {f"pad{pad}": pad for pad in (0, 1, 2, 4)}

FAMILY = family(
    _stage(1, "copy_row", "Copies rows to rows: the bound of the naive stages.", _wide, (32, 8), (16, 16), copies=True),
    _stage(
        2,
        "copy_col",
        "Copies columns to columns: strided on both sides.",
        _tall,
        (8, 32),
        (16, 16),
        down=True,
        copies=True,
    ),
    _stage(3, "naive_row", "Reads rows, writes columns: scattered stores.", _wide, (8, 32), (16, 16)),
    _stage(4, "naive_col", "Reads columns, writes rows: scattered loads.", _tall, (8, 32), (16, 16), down=True),
    _stage(5, "unroll4_row", "naive_row, four elements per thread.", lambda x, y: (4 * x, y), (8, 32), (16, 16)),
    _stage(
        6, "unroll4_col", "naive_col, four elements per thread.", lambda x, y: (y, 4 * x), (8, 32), (16, 16), down=True
    ),
    _stage(7, "diagonal_row", "naive_row, blocks assigned along diagonals.", _wide, (8, 32), (16, 16)),
    _stage(8, "diagonal_col", "naive_col, blocks assigned along diagonals.", _tall, (8, 32), (16, 16), down=True),
    _stage(
        9, "smem", "Rows to rows through a shared tile, with bank conflicts.", tile, (32, 8), (16, 16), pads=_UNPADDED
    ),
    _stage(10, "smem_pad", "A padded tile: no bank conflicts.", tile, (32, 8), (16, 16), pads=_PADDED),
    _stage(
        11,
        "smem_rectangular",
        "A tile with the shape of the block: remapped indices, suitable padding.",
        _wide,
        blocks=RECTANGULAR_BLOCKS,
        pads=EACH_PAD,
        gated=False,  # for the table of paddings: the gate has smem_pad, which does the same work
    ),
    _stage(
        12, "smem_unroll2", "Two tiles per block, with bank conflicts.", two_tiles, (32, 8), (16, 16), pads=_UNPADDED
    ),
    _stage(13, "smem_unroll2_pad", "Two padded tiles per block.", two_tiles, (32, 8), (16, 16), pads=_PADDED),
    _stage(14, "vectorized", "A 64 x 64 tile, float4 on both sides.", **_THREADS_256),
    _stage(15, "swizzled", "float4 in shared memory too, swizzled.", **_THREADS_256),
    _stage(16, "ordered", "Blocks start along the rows of the output.", **_THREADS_256, down=True),
    _stage(17, "hinted", "Loads with cache hints.", **_THREADS_256, down=True, min_capability=(8, 0)),
    summary="out-of-place transpose of a float32 matrix",
    headlines={"smem_rectangular": "16384-32x16-pad2"},
)
