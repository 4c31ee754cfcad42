"""Out-of-place transpose of a float32 matrix: from one float per thread to the copy's own speed.

``in`` has ``ny`` rows of ``nx`` columns; a size label is ``<rows>x<columns>``, or the side alone of a square matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from peakgate.case import Array, Buffer, Case, Family, Launch, Role, Scalar, Scale, Stage, Tier, Work

Block = tuple[int, int]
"""Threads of a block along x and y."""

NAME = "transpose"
HERE = Path(__file__).parent

BLOCKS: tuple[Block, ...] = ((32, 8), (16, 16), (8, 32), (32, 32), (32, 16), (16, 32), (8, 8))
BENCH_SIDES = (2048, 4096, 8192, 16384)
SMALL_SHAPES = ((192, 256), (128, 128))
PROBE_SHAPES = ((1, 1), (31, 33), (127, 129), (128, 127), (3, 1030), (1030, 3), (132, 196), (515, 260))
"""Rows and columns. Off every tile size by one; long in either direction; only the rows, or only the columns, a
multiple of four; and (132, 196), whose rows are 16-byte aligned: full tiles go in float4, edge tiles cannot."""

GATE_SIDES = (8192, 16384)
"""A 2048 x 2048 matrix fits the L2 of large GPUs and 4096 x 4096 scatters from run to run: both are for the record."""
GATE_BLOCKS = 2
"""The gate takes the first blocks of each stage: those that set it beside its neighbours best, mostly the fastest."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stage, its block shapes (those of the gate first), and how a launch is cut.

    ``span(block)`` is the part of the input one block covers, as (columns, rows). ``down`` says that the grid's x axis
    counts spans down the rows of the input instead of along its columns. ``pads`` are the paddings a tile stage is
    built with, in floats per tile row, the usual one first; a stage with pads is built anew for each block shape.
    """

    stage: Stage
    blocks: tuple[Block, ...]
    span: Callable[[Block], tuple[int, int]]
    down: bool = False
    pads: tuple[int, ...] = ()
    transposes: bool = True

    def grid(self, rows: int, columns: int, block: Block) -> tuple[int, int, int]:
        """Blocks along x, y and z that cover a matrix, none of them wholly outside it."""
        span_columns, span_rows = self.span(block)
        along, below = ceil(columns / span_columns), ceil(rows / span_rows)
        return (below, along, 1) if self.down else (along, below, 1)


def tile_side(block: Block) -> int:
    """The side of the shared tile a block moves: its longer side; a block shorter in one direction walks it in steps.

    So 32x8, 8x32 and 32x32 threads all move 32 x 32 tiles, with 4, 4 and 1 elements per thread.
    """
    return max(block)


def _stage(name: str, lesson: str, min_capability: tuple[int, int] = (7, 5)) -> Stage:
    return Stage(name, lesson, source=HERE / f"{name}.cu", min_capability=min_capability)


def _first(*preferred: Block) -> tuple[Block, ...]:
    return (*preferred, *(block for block in BLOCKS if block not in preferred))


def _by_row(block: Block) -> tuple[int, int]:
    return block


def _by_column(block: Block) -> tuple[int, int]:
    return block[1], block[0]


def _four_by_row(block: Block) -> tuple[int, int]:
    return 4 * block[0], block[1]


def _four_by_column(block: Block) -> tuple[int, int]:
    return block[1], 4 * block[0]


def _tile(block: Block) -> tuple[int, int]:
    return tile_side(block), tile_side(block)


def _two_tiles(block: Block) -> tuple[int, int]:
    return 2 * tile_side(block), tile_side(block)


def _tile64(_: Block) -> tuple[int, int]:
    return 64, 64


_THREADS_256: tuple[Block, ...] = ((256, 1),)
_TALL = _first((8, 32), (16, 16))
_WIDE = _first((32, 8), (16, 16))
_UNPADDED = (0,)

ENTRIES = (
    Entry(_stage("copy_row", "The bound of the naive stages: rows to rows."), _WIDE, _by_row, transposes=False),
    Entry(
        _stage("copy_col", "Strided on both sides: columns to columns."), _TALL, _by_column, down=True, transposes=False
    ),
    Entry(_stage("naive_row", "Reads rows, writes columns: scattered stores."), _TALL, _by_row),
    Entry(_stage("naive_col", "Reads columns, writes rows: scattered loads."), _TALL, _by_column, down=True),
    Entry(_stage("unroll4_row", "naive_row, four elements per thread."), _TALL, _four_by_row),
    Entry(_stage("unroll4_col", "naive_col, four elements per thread."), _TALL, _four_by_column, down=True),
    Entry(_stage("diagonal_row", "naive_row, blocks dealt along diagonals."), _TALL, _by_row),
    Entry(_stage("diagonal_col", "naive_col, blocks dealt along diagonals."), _TALL, _by_column, down=True),
    Entry(_stage("smem", "Rows to rows through a shared tile, with bank conflicts."), _WIDE, _tile, pads=_UNPADDED),
    Entry(_stage("smem_pad", "A padded tile: no bank conflicts."), _WIDE, _tile, pads=(1, 2)),
    Entry(_stage("smem_unroll2", "Two tiles per block, with bank conflicts."), _WIDE, _two_tiles, pads=_UNPADDED),
    Entry(_stage("smem_unroll2_pad", "Two padded tiles per block."), _WIDE, _two_tiles, pads=(1, 2)),
    Entry(_stage("vectorized", "A 64 x 64 tile, float4 on both sides."), _THREADS_256, _tile64),
    Entry(_stage("swizzled", "float4 in shared memory too, swizzled."), _THREADS_256, _tile64),
    Entry(_stage("ordered", "Blocks walk along the output's rows."), _THREADS_256, _tile64, down=True),
    Entry(_stage("hinted", "Cache hints on the loads.", (8, 0)), _THREADS_256, _tile64, down=True),
)


def transposed(xp: object, inputs: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG001  (numpy and cupy alike)
    """The exact transpose, as a view."""
    return (inputs[0].T,)


def copied(xp: object, inputs: Sequence[Array]) -> Sequence[Array]:  # noqa: ARG001
    """The input itself."""
    return (inputs[0],)


def _case(entry: Entry, rows: int, columns: int, block: Block, pad: int | None, *, tier: Tier = Tier.FULL) -> Case:
    defines: tuple[tuple[str, str], ...] = ()
    if pad is not None:
        defines = (("BLOCK_X", str(block[0])), ("BLOCK_Y", str(block[1])), ("PAD", str(pad)))
    return Case(
        family=NAME,
        stage=entry.stage,
        launch=Launch(grid=entry.grid(rows, columns, block), block=(*block, 1)),
        arguments=(
            Buffer(Role.OUT, (columns, rows) if entry.transposes else (rows, columns)),
            Buffer(Role.IN, (rows, columns)),
            Scalar(columns),
            Scalar(rows),
        ),
        # Every element of 4 bytes is read once and written once.
        work=Work(bytes=2 * 4 * rows * columns),
        reference=transposed if entry.transposes else copied,
        size=str(rows) if rows == columns else f"{rows}x{columns}",
        block=f"{block[0]}x{block[1]}",
        variant="" if pad is None or pad == entry.pads[0] else f"pad{pad}",
        defines=defines,
        roof="copy",
        tier=tier,
    )


def _paddings(entry: Entry) -> tuple[int | None, ...]:
    return entry.pads or (None,)


def cases(scale: Scale) -> Iterator[Case]:
    """Every stage on every size with every block and padding; at small scale its first two blocks, one a shape."""
    for entry in ENTRIES:
        for pad in _paddings(entry):
            if scale is Scale.SMALL:
                for position, (rows, columns) in enumerate(SMALL_SHAPES):
                    yield _case(entry, rows, columns, entry.blocks[position % len(entry.blocks)], pad)
                continue
            for side in BENCH_SIDES:
                for rank, block in enumerate(entry.blocks):
                    gate = side in GATE_SIDES and rank < GATE_BLOCKS
                    yield _case(entry, side, side, block, pad, tier=Tier.GATE if gate else Tier.FULL)


def probes(case: Case) -> Iterator[Case]:
    """Ragged matrices through the case's own build and block."""
    entry = next(entry for entry in ENTRIES if entry.stage == case.stage)
    pad = dict(case.defines).get("PAD")
    block = (case.launch.block[0], case.launch.block[1])
    for rows, columns in PROBE_SHAPES:
        yield _case(entry, rows, columns, block, None if pad is None else int(pad))


FAMILY = Family(
    name=NAME,
    summary="out-of-place transpose of a float32 matrix",
    stages=tuple(entry.stage for entry in ENTRIES),
    cases=cases,
    probes=probes,
)
