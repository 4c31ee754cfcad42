"""Out-of-place transpose of a float32 matrix: from one float per thread to the copy's own speed.

``in`` has ``ny`` rows of ``nx`` columns; a size label is ``<rows>x<columns>``, or the side alone of a square matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from math import ceil
from typing import Any

from peakgate.family import Array, Family, In, Out, StageKernel, Value, family, stage

Shape = tuple[int, int]
"""Threads of a block along x and y, or rows and columns of a matrix."""

BLOCKS: tuple[Shape, ...] = ((32, 8), (16, 16), (8, 32), (32, 32), (32, 16), (16, 32), (8, 8))
BENCH_SIDES = (2048, 4096, 8192, 16384)
SMALL_SHAPES = ((192, 256), (128, 128))
PROBE_SHAPES = ((1, 1), (31, 33), (127, 129), (128, 127), (3, 1030), (1030, 3), (132, 196), (515, 260))
"""Rows and columns. Off every tile size by one; long in either direction; only the rows, or only the columns, a
multiple of four; and (132, 196), whose rows are 16-byte aligned: full tiles go in float4, edge tiles cannot."""

GATE_SIDES = (8192, 16384)
"""A 2048 x 2048 matrix fits the L2 of large GPUs and 4096 x 4096 scatters from run to run: both are for the record."""
GATE_BLOCKS = 2
"""The gate takes the first blocks of each stage: those that set it beside its neighbours best, mostly the fastest."""


def transposed(xp: object, matrix: Array) -> Array:  # noqa: ARG001  (numpy and cupy alike)
    """The exact transpose, as a view."""
    return matrix.T


def copied(xp: object, matrix: Array) -> Array:  # noqa: ARG001
    """The input itself."""
    return matrix


def tile(x: int, y: int) -> Shape:
    """The square shared tile a block moves, as wide as its longer side; a shorter block walks it in steps.

    So 32x8, 8x32 and 32x32 threads all move 32 x 32 tiles, with 4, 4 and 1 elements per thread.
    """
    return max(x, y), max(x, y)


def covering(rows: int, columns: int, span: Shape, *, down: bool) -> Shape:
    """Blocks along x and y that cover a matrix with spans of (columns, rows), none of them wholly outside it.

    The x axis counts spans along the columns, or ``down`` the rows.
    """
    along, below = ceil(columns / span[0]), ceil(rows / span[1])
    return (below, along) if down else (along, below)


def _first(*preferred: Shape) -> tuple[Shape, ...]:
    return (*preferred, *(block for block in BLOCKS if block not in preferred))


def _labelled(*shapes: Shape) -> dict[str, Shape]:
    return {str(rows) if rows == columns else f"{rows}x{columns}": (rows, columns) for rows, columns in shapes}


def _built(
    described: StageKernel,
    blocks: tuple[Shape, ...],
    span: Callable[[int, int], Shape],
    *,
    down: bool = False,
    pads: tuple[int, ...] = (),
    transposes: bool = True,
    min_capability: tuple[int, int] = (7, 5),
) -> Iterator[Family]:
    """A stage with every padding, size and block shape; small matrices take the first two shapes in turn.

    The gate's shapes come first in ``blocks``. ``span(x, y)`` is the part of the input that one block covers, as
    (columns, rows). ``pads`` are the paddings that a tile stage is built with, in floats per tile row, the usual one
    first; such a stage is built for each block shape.
    """

    def built(block: Shape, pad: int | None, **sizes: Any) -> Family:
        return described(
            min_capability=min_capability,
            arguments=lambda rows, columns: [
                Out(columns, rows) if transposes else Out(rows, columns),
                In(rows, columns),
                Value(columns),
                Value(rows),
            ],
            grid=lambda rows, columns: covering(rows, columns, span(*block), down=down),
            block=block,
            block_in_id=True,
            defines={} if pad is None else {"BLOCK_X": block[0], "BLOCK_Y": block[1], "PAD": pad},
            variant="" if pad is None or pad == pads[0] else f"pad{pad}",
            bytes=lambda rows, columns: 2 * 4 * rows * columns,  # every element of 4 bytes is read and written once
            reference=transposed if transposes else copied,
            tolerance=0.0,
            edges=_labelled(*PROBE_SHAPES),
            **sizes,
        )

    for pad in pads or (None,):
        for side in BENCH_SIDES:
            for rank, block in enumerate(blocks):
                gate = side in GATE_SIDES and rank < GATE_BLOCKS
                yield built(block, pad, sizes=_labelled((side, side)), small_sizes=None, gate=gate)
        for shape, block in zip(SMALL_SHAPES, cycle(blocks), strict=False):
            yield built(block, pad, small_sizes=_labelled(shape))


def _two_tiles(x: int, y: int) -> Shape:
    return 2 * max(x, y), max(x, y)


def _tile64(*_: int) -> Shape:
    return 64, 64


_THREADS_256: tuple[Shape, ...] = ((256, 1),)
_TALL = _first((8, 32), (16, 16))
_WIDE = _first((32, 8), (16, 16))
_UNPADDED = (0,)

FAMILY = family(
    *_built(
        stage(1, "copy_row", "The bound of the naive stages: rows to rows."),
        _WIDE,
        lambda x, y: (x, y),
        transposes=False,
    ),
    *_built(
        stage(2, "copy_col", "Strided on both sides: columns to columns."),
        _TALL,
        lambda x, y: (y, x),
        down=True,
        transposes=False,
    ),
    *_built(stage(3, "naive_row", "Reads rows, writes columns: scattered stores."), _TALL, lambda x, y: (x, y)),
    *_built(
        stage(4, "naive_col", "Reads columns, writes rows: scattered loads."), _TALL, lambda x, y: (y, x), down=True
    ),
    *_built(stage(5, "unroll4_row", "naive_row, four elements per thread."), _TALL, lambda x, y: (4 * x, y)),
    *_built(stage(6, "unroll4_col", "naive_col, four elements per thread."), _TALL, lambda x, y: (y, 4 * x), down=True),
    *_built(stage(7, "diagonal_row", "naive_row, blocks ordered along diagonals."), _TALL, lambda x, y: (x, y)),
    *_built(
        stage(8, "diagonal_col", "naive_col, blocks ordered along diagonals."), _TALL, lambda x, y: (y, x), down=True
    ),
    *_built(stage(9, "smem", "Rows to rows through a shared tile, with bank conflicts."), _WIDE, tile, pads=_UNPADDED),
    *_built(stage(10, "smem_pad", "A padded tile: no bank conflicts."), _WIDE, tile, pads=(1, 2)),
    *_built(stage(11, "smem_unroll2", "Two tiles per block, with bank conflicts."), _WIDE, _two_tiles, pads=_UNPADDED),
    *_built(stage(12, "smem_unroll2_pad", "Two padded tiles per block."), _WIDE, _two_tiles, pads=(1, 2)),
    *_built(stage(13, "vectorized", "A 64 x 64 tile, float4 on both sides."), _THREADS_256, _tile64),
    *_built(stage(14, "swizzled", "float4 in shared memory too, swizzled."), _THREADS_256, _tile64),
    *_built(stage(15, "ordered", "Blocks walk along the output's rows."), _THREADS_256, _tile64, down=True),
    *_built(stage(16, "hinted", "Cache hints on the loads."), _THREADS_256, _tile64, down=True, min_capability=(8, 0)),
    summary="out-of-place transpose of a float32 matrix",
)
