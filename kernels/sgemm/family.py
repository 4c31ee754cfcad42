"""Single-precision matrix product C = A.B, row-major: from one thread an element to past the vendor's library.

A is ``m x k``, B is ``k x n``, C is ``m x n``; a size label is ``<m>x<n>x<k>``, or the side alone where all are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from peakgate.case import Argument, Array, Buffer, Case, Family, Launch, Role, Scalar, Scale, Stage, Tier, Work
from peakgate.family import tolerance_of_sums

NAME = "sgemm"
HERE = Path(__file__).parent

BENCH_SIDES = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
GATE_SIDES = (256, 1024, 4096)
"""One side where latency rules, one where the number of blocks does, one where the FMA units do."""
BLOCKS_OF_A_FULL_GPU = 132
"""About one block for each SM of a large GPU."""
BEST = {
    128: "split_k",  # 32 tiles of 16 x 32: nothing but latency, so as many warps on a tile as help
    192: "split_k",
    256: "split_k",  # 128 tiles of 16 x 32
    384: "split_k",  # 96 tiles of 48 x 32
    512: "split_k",  # 128 tiles of 32 x 64
    768: "split_k",  # 128 tiles of 48 x 96
    1024: "group_split",  # 128 tiles of 64 x 128, too many bytes from L2 for warps that each load for themselves
    1536: "stream_k",  # 72 tiles of 128 x 256: cut, they keep all SMs busy
    2048: "barrier_ring",  # 128 tiles of 128 x 256: one wave, nothing to cut
    3072: "stream_k",  # 288 tiles: 2.2 waves
    4096: "barrier_ring",  # 3.9 waves
    6144: "barrier_ring",  # 8.7 waves: from here on the last wave weighs less than a leaner loop
    8192: "barrier_ring",  # 15.5 waves
    12288: "barrier_ring",  # 34.9 waves
    16384: "barrier_ring",  # 62.1 waves
}
"""The stage to take for a square problem of that side on a GPU of 132 SMs, and the tiles that decide it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows of C, columns of C, and the length of the sums."""

    m: int
    n: int
    k: int

    @property
    def label(self) -> str:
        return str(self.m) if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"


SMALL_PROBLEMS = (Problem(128, 128, 128), Problem(65, 97, 40))
PROBE_PROBLEMS = (
    Problem(1, 1, 1),
    Problem(31, 33, 17),
    Problem(129, 127, 9),
    Problem(130, 260, 144),
    Problem(132, 264, 44),
    Problem(64, 64, 7),
    Problem(128, 256, 16),
    Problem(128, 258, 16),
)
"""Less than a tile and just past one in each direction, odd and even numbers of tiles along k. Rows are 16-byte aligned
in (130, 260, 144), where full tiles stand beside edges and some warps of split_k have several slices of k, in
(132, 264, 44), where k ends inside a tile, and in (128, 256, 16), where all is full tiles and some warps of split_k
have no slice. In (128, 258, 16) all but the rows' alignment speaks for reading four elements at once."""
BANDS_PROBLEM = Problem(1025, 260, 16)
"""More tiles down than raster.cuh puts in a band, and more than one across."""
FEW_BLOCKS = 4
"""A persistent grid on BANDS_PROBLEM: 18 or 27 tiles for 4 blocks are cut inside tiles, and some are left whole."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """The part of C a block makes, its threads, its dynamic shared memory, and the macros that build it so.

    A grid of ``persistent`` blocks has that many, whatever the problem; they hand each other parts of tiles through
    scratch memory. 0: as many blocks as tiles.
    """

    rows: int
    cols: int
    block: tuple[int, int, int] = (256, 1, 1)
    shared_bytes: int = 0
    defines: tuple[tuple[str, str], ...] = ()
    persistent: int = 0

    def blocks(self, problem: Problem) -> tuple[int, int]:
        """Blocks along the columns and the rows of C that cover it."""
        return ceil(problem.n / self.cols), ceil(problem.m / self.rows)

    def launch(self, problem: Problem) -> Launch:
        grid = (self.persistent, 1) if self.persistent else self.blocks(problem)
        return Launch((*grid, 1), self.block, self.shared_bytes)

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """Room for one tile of sums per block; a flag per block, and a counter."""
        if not self.persistent:
            return ()
        return (
            Buffer(Role.SCRATCH, (self.persistent, self.rows * self.cols)),
            Buffer(Role.SCRATCH, (self.persistent + 1,), "uint32"),
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A stage, its tilings (smallest first; none for an operation), and the largest side it runs and is gated at.

    Beyond its largest side a stage would only take time. ``in_bands``: it takes its tiles in the order of raster.cuh.
    """

    stage: Stage
    tilings: tuple[Tiling, ...] = ()
    largest: int = BENCH_SIDES[-1]
    largest_in_gate: int = GATE_SIDES[-1]
    in_bands: bool = False

    def tiling(self, problem: Problem) -> Tiling | None:
        """The smallest tiling that does not give more blocks than a full GPU takes at once, or else the largest."""
        for tiling in self.tilings[:-1]:
            across, down = tiling.blocks(problem)
            if across * down <= BLOCKS_OF_A_FULL_GPU:
                return tiling
        return self.tilings[-1] if self.tilings else None


def copy_ring_bytes(slots: int, rows: int, cols: int, depth: int) -> int:
    """Bytes of async_copy's ring: slots with a tile of A and one of B, and two turned tiles of A, rows padded by 4."""
    return 4 * (slots * (rows + cols) * depth + 2 * depth * (rows + 4))


def barrier_ring_bytes(rows: int, cols: int, depth: int) -> int:
    """Bytes of ring_tile.cuh's ring: eight slots with a turned tile of A, one of B, and a barrier in 16 bytes."""
    return 4 * 8 * (depth * (rows + 4 + cols) + 4)


def _split_k(thread_rows: int, thread_cols: int, slice_depth: int) -> Tiling:
    macros = {"THREAD_ROWS": thread_rows, "THREAD_COLS": thread_cols, "SLICE_DEPTH": slice_depth}
    return Tiling(rows=4 * thread_rows, cols=8 * thread_cols, defines=_defines(macros))


def _stream_k(thread_cols: int) -> Tiling:
    cols = 16 * thread_cols
    shared = barrier_ring_bytes(rows=128, cols=cols, depth=8)
    return Tiling(
        128, cols, shared_bytes=shared, defines=_defines({"THREAD_COLS": thread_cols}), persistent=BLOCKS_OF_A_FULL_GPU
    )


def _defines(macros: dict[str, int]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in macros.items())


def _stage(name: str, lesson: str, min_capability: tuple[int, int] = (7, 5)) -> Stage:
    return Stage(name, lesson, source=HERE / f"{name}.cu", min_capability=min_capability)


_ELEMENTS = (Tiling(rows=32, cols=32, block=(32, 32, 1)),)
_TILE_128 = (Tiling(rows=128, cols=128),)
_TILE_256 = (Tiling(rows=128, cols=256),)
_COPY_RING = (Tiling(rows=128, cols=256, shared_bytes=copy_ring_bytes(slots=4, rows=128, cols=256, depth=8)),)
_SPLIT_K = (_split_k(4, 4, 16), _split_k(12, 4, 16), _split_k(8, 8, 8), _split_k(12, 12, 8))
_BARRIER_RING = (Tiling(rows=128, cols=256, shared_bytes=barrier_ring_bytes(rows=128, cols=256, depth=8)),)
_GROUP_SPLIT = (Tiling(rows=64, cols=128, shared_bytes=barrier_ring_bytes(rows=64, cols=128, depth=16)),)
_STREAM_K = (_stream_k(8), _stream_k(16))

ENTRIES = (
    Entry(_stage("naive", "One thread an element."), _ELEMENTS, largest=8192, largest_in_gate=1024),
    Entry(_stage("tiled", "128 x 128 tiles in shared memory, 8 x 8 elements per thread."), _TILE_128),
    Entry(_stage("vectorized", "float4 loads and stores."), _TILE_128),
    Entry(_stage("moved_sync", "The barrier at the head of the loop, behind the loads."), _TILE_128),
    Entry(_stage("conflict_free", "A transposed in shared memory, fragments split 4 + 4."), _TILE_128),
    Entry(_stage("fake_double_buffer", "Two buffers, written before the multiply-adds: no overlap."), _TILE_128),
    Entry(_stage("double_buffer", "Written after the multiply-adds: loads overlap them."), _TILE_128),
    Entry(_stage("warp_tiled", "A sub-tile per warp, 8 x 16 elements per thread, operands reused."), _TILE_256),
    Entry(_stage("async_copy", "A ring of tiles filled by asynchronous copies.", (8, 0)), _COPY_RING),
    Entry(_stage("split_k", "Small tiles; a block's warps share out k."), _SPLIT_K, largest=1024),
    Entry(
        _stage("barrier_ring", "Arrive early, wait late: no block-wide barrier.", (8, 0)), _BARRIER_RING, in_bands=True
    ),
    Entry(
        _stage("group_split", "Groups of warps share out every slice of k.", (8, 0)),
        _GROUP_SPLIT,
        largest=2048,
        in_bands=True,
    ),
    Entry(_stage("stream_k", "Equal work for every block: tiles cut along k.", (8, 0)), _STREAM_K, in_bands=True),
    Entry(Stage("cublas", "The vendor library in pedantic float32.", operation="cublas_sgemm")),
)


def product(xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:
    """A.B of float64 inputs, whose own error is far below what is judged by it."""
    a, b = inputs
    return (xp.matmul(a, b),)


def magnitude(xp: Any, inputs: Sequence[Array]) -> Sequence[Array]:
    """About ``sqrt(sum of the squared products)`` of each element: the norms of its row and column over sqrt(k)."""
    a, b = inputs
    weights = xp.full((a.shape[1], 1), a.shape[1] ** -0.5)
    rows, columns = (a * a) @ weights, weights.T @ (b * b)  # by a library: CuPy compiles no reduction
    return (xp.sqrt(rows * columns),)


def _case(entry: Entry, problem: Problem, tiling: Tiling | None, tier: Tier = Tier.FULL) -> Case:
    m, n, k = problem.m, problem.n, problem.k
    arguments: tuple[Argument, ...] = (Buffer(Role.OUT, (m, n)), Buffer(Role.IN, (m, k)), Buffer(Role.IN, (k, n)))
    if tiling is None:
        launch = Launch(grid=(1, 1, 1), block=(1, 1, 1))
    else:
        launch = tiling.launch(problem)
        arguments += (*tiling.scratch, Scalar(m), Scalar(n), Scalar(k))
    return Case(
        family=NAME,
        stage=entry.stage,
        launch=launch,
        arguments=arguments,
        # Each of the m.n elements of C is a sum of k products: a multiplication and an addition each. A and B are read
        # at least once and C is written once, 4 bytes per element.
        work=Work(bytes=4 * (m * k + k * n + m * n), flops=2 * m * n * k),
        reference=product,
        size=problem.label,
        variant="" if tiling is None or tiling.persistent in (0, BLOCKS_OF_A_FULL_GPU) else f"b{tiling.persistent}",
        defines=tiling.defines if tiling else (),
        tolerance=tolerance_of_sums("float32", k),
        scale=magnitude,
        roof="fma",
        tier=tier,
    )


def cases(scale: Scale) -> Iterator[Case]:
    """Every stage on every square problem up to its largest side; at small scale on a tidy and on a ragged one."""
    for entry in ENTRIES:
        if scale is Scale.SMALL:
            for problem in SMALL_PROBLEMS:
                yield _case(entry, problem, entry.tiling(problem))
            continue
        for side in BENCH_SIDES:
            if side <= entry.largest:
                problem = Problem(side, side, side)
                gate = side in GATE_SIDES and side <= entry.largest_in_gate
                yield _case(entry, problem, entry.tiling(problem), Tier.GATE if gate else Tier.FULL)


def probes(case: Case) -> Iterator[Case]:
    """Ragged problems, M != N != K, through the case's own build; where tiles have an order, more than one band."""
    entry = next(entry for entry in ENTRIES if entry.stage == case.stage)
    tiling = next((tiling for tiling in entry.tilings if tiling.defines == case.defines), None)
    for problem in PROBE_PROBLEMS:
        yield _case(entry, problem, tiling)
    if entry.in_bands and tiling is not None:
        yield _case(entry, BANDS_PROBLEM, replace(tiling, persistent=FEW_BLOCKS) if tiling.persistent else tiling)


FAMILY = Family(
    name=NAME,
    summary="single-precision matrix product",
    stages=tuple(entry.stage for entry in ENTRIES),
    cases=cases,
    probes=probes,
    headlines={"naive": "4096"},
)
