"""Single-precision matrix product C = A.B, row-major: from one thread per element to faster than cuBLAS.

A is ``m x k``, B is ``k x n``, C is ``m x n``; a size label is ``<m>x<n>x<k>``, or the side alone where all are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

from peakgate.family import Array, Buffer, Family, In, Out, Scratch, Value, by_side, family, kernel, stage

Size = tuple[int, int, int]
"""Rows of C, columns of C, and the number of products per sum."""
BENCH_SIDES = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
GATE_SIDES = (256, 1024, 4096)
"""One side that latency limits, one that the number of blocks limits, one that the FMA units limit."""
OBLONG: Size = (768, 768, 1024)
"""Rows and columns of C and products per sum where they differ: the first example of the SGEMM lesson."""
BLOCKS_OF_A_FULL_GPU = 132
"""About one block for each SM of a large GPU."""
BEST = {
    128: "split_k",  # 32 tiles of 16 x 32: latency is the limit, so as many warps per tile as help
    192: "split_k",
    256: "split_k",  # 128 tiles of 16 x 32
    384: "split_k",  # 96 tiles of 48 x 32
    512: "split_k",  # 128 tiles of 32 x 64
    768: "split_k",  # 128 tiles of 48 x 96
    1024: "group_split",  # 128 tiles of 64 x 128, too many bytes from L2 if each warp loaded its own slices
    1536: "stream_k",  # 72 tiles of 128 x 256: cut, they keep all SMs busy
    2048: "barrier_ring",  # 128 tiles of 128 x 256: one wave, nothing to cut
    3072: "stream_k",  # 288 tiles: 2.2 waves
    4096: "barrier_ring",  # 3.9 waves
    6144: "barrier_ring",  # 8.7 waves: from here on the last wave matters less than fewer instructions in the loop
    8192: "barrier_ring",  # 15.5 waves
    12288: "barrier_ring",  # 34.9 waves
    16384: "barrier_ring",  # 62.1 waves
}
"""The stage to use for a square problem of that side on a GPU with 132 SMs, and the tiles that decide it."""


SMALL_SIZES: tuple[Size, ...] = ((128, 128, 128), (65, 97, 40))
PROBE_SIZES: tuple[Size, ...] = (
    (1, 1, 1),
    (31, 33, 17),
    (129, 127, 9),
    (130, 260, 144),
    (132, 264, 44),
    (64, 64, 7),
    (516, 5, 8),
    (5, 1028, 8),
    (3, 4, 267),
    (128, 256, 16),
    (128, 258, 16),
)
"""Less than a tile and just more than one in each direction, odd and even numbers of tiles along k. Rows are 16-byte
aligned in (130, 260, 144), which has full tiles beside edges and where some warps of split_k have several slices of k,
in (132, 264, 44), where k ends inside a tile, and in (128, 256, 16), where all tiles are full and some warps of split_k
have no slice. In (128, 258, 16) only the alignment of the rows prevents reading four elements at once. Rows, columns
and sums end inside a tile after four whole ones in (516, 5, 8), (5, 1028, 8) and (3, 4, 267)."""
BANDS_SIZE: Size = (1025, 260, 16)
"""More tiles down than a band of raster.cuh has, and more than one across."""
FEW_BLOCKS = 4
"""Blocks of a persistent grid on BANDS_SIZE: 18 or 27 tiles for 4 blocks, so that some tiles are cut and some are
whole."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """The part of C that a block computes, its threads, its dynamic shared memory, and the macros of its build.

    ``thread`` is the part of C that a thread sums, rows and columns, over all of k or its share of it.

    ``persistent``: the grid has as many blocks as a full GPU runs, whatever the size, and few on BANDS_SIZE; the blocks
    pass each other parts of tiles through scratch memory.
    """

    rows: int
    cols: int
    thread: tuple[int, int] = (8, 8)
    block: int | tuple[int, int] = 256
    shared_bytes: int = 0
    defines: Mapping[str, int] = field(default_factory=dict)
    persistent: bool = False

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Number of tiles along the columns and along the rows that cover C."""
        return ceil(n / self.cols), ceil(m / self.rows)

    def grid(self, m: int, n: int, k: int) -> tuple[int, ...]:
        """Blocks of a launch."""
        if self.persistent:
            return (FEW_BLOCKS if (m, n, k) == BANDS_SIZE else BLOCKS_OF_A_FULL_GPU,)
        return self.tiles(m, n)

    def arguments(self, m: int, n: int, k: int) -> list[Any]:
        """C, A and B; for a persistent grid also a tile of sums per block, a flag per block, and a counter."""
        (blocks, *_) = self.grid(m, n, k)
        scratch = [Scratch(blocks, self.rows * self.cols), Scratch(blocks + 1, dtype="uint32")]
        return [*matrices(m, n, k), *(scratch if self.persistent else []), Value(m), Value(n), Value(k)]

    def block_loads(self) -> float:
        """Elements of A and B that a block loads per multiply-add: one of A serves a row of its tile."""
        return 1 / self.rows + 1 / self.cols

    def thread_loads(self) -> float:
        """Elements of A and B that a thread reads per multiply-add."""
        return sum(1 / side for side in self.thread)


def matrices(m: int, n: int, k: int) -> list[Buffer]:
    """C, A and B."""
    return [Out(m, n), In(m, k), In(k, n)]


def product(xp: Any, a: Array, b: Array) -> Array:
    """A.B of float64 inputs, whose own error is far below the tolerance."""
    return xp.matmul(a, b)


def magnitude(xp: Any, a: Array, b: Array) -> Array:
    """About ``sqrt(sum of the squared products)`` of each element: the norms of its row and column over sqrt(k)."""
    weights = xp.full((a.shape[1], 1), a.shape[1] ** -0.5)
    rows, columns = (a * a) @ weights, weights.T @ (b * b)  # as products, so that CuPy need not compile a reduction
    return xp.sqrt(rows * columns)


BENCH_SIZES: tuple[Size, ...] = (*((side, side, side) for side in BENCH_SIDES), OBLONG)
PRODUCT: dict[str, Any] = {
    # Each of the m.n elements of C is a sum of k products: a multiplication and an addition each. A and B are read
    # at least once and C is written once, 4 bytes per element.
    "bytes": lambda m, n, k: 4 * (m * k + k * n + m * n),
    "flops": lambda m, n, k: 2 * m * n * k,
    "reference": product,
    "scale": magnitude,
    "terms": lambda k: k,
    "roof": "fma",
}
"""Parameters common to all stages."""


def _tiled(
    number: int,
    name: str,
    lesson: str,
    *,
    largest: int = BENCH_SIDES[-1],
    largest_in_gate: int = GATE_SIDES[-1],
    in_bands: bool = False,
    **more: Any,
) -> Family:
    """A stage, built with each of its tilings for the sizes that use it.

    A size uses the smallest tiling that does not give more blocks than a full GPU runs at once, or else the largest.
    Sides beyond ``largest`` are left out because they would only take time. ``in_bands``: the stage takes its tiles in
    the order of raster.cuh.
    """
    tilings = TILINGS[name]

    def takes(m: int, n: int, _: int, tiling: Tiling) -> bool:
        fitting = (each for each in tilings[:-1] if prod(each.tiles(m, n)) <= BLOCKS_OF_A_FULL_GPU)
        return next(fitting, tilings[-1]) is tiling

    def variant(*size: int, tiling: Tiling) -> str:
        return f"b{FEW_BLOCKS}" if tiling.persistent and size == BANDS_SIZE else ""

    return stage(number, name, lesson)(
        axes={"tiling": tilings},
        where=takes,
        variant=variant,
        arguments=lambda m, n, k, tiling: tiling.arguments(m, n, k),
        grid=lambda m, n, k, tiling: tiling.grid(m, n, k),
        block=lambda tiling: tiling.block,
        shared_bytes=lambda tiling: tiling.shared_bytes,
        defines=lambda tiling: tiling.defines,
        sizes=by_side(size for size in BENCH_SIZES if size[0] <= largest),
        gate=lambda m: m in GATE_SIDES and m <= largest_in_gate,
        small_sizes=by_side(SMALL_SIZES),
        edges=by_side([*PROBE_SIZES, BANDS_SIZE] if in_bands else PROBE_SIZES),
        **PRODUCT,
        **more,
    )


def copy_ring_bytes(slots: int, rows: int, cols: int, depth: int) -> int:
    """Bytes of async_copy's ring: slots with a tile of A and of B, and two transposed tiles of A, rows padded by 4."""
    return 4 * (slots * (rows + cols) * depth + 2 * depth * (rows + 4))


def barrier_ring_bytes(rows: int, cols: int, depth: int) -> int:
    """Bytes of ring_tile.cuh's ring: eight slots with a transposed tile of A, one of B, and a barrier in 16 bytes."""
    return 4 * 8 * (depth * (rows + 4 + cols) + 4)


def _split_k(thread_rows: int, thread_cols: int, slice_depth: int) -> Tiling:
    macros = {"THREAD_ROWS": thread_rows, "THREAD_COLS": thread_cols, "SLICE_DEPTH": slice_depth}
    return Tiling(rows=4 * thread_rows, cols=8 * thread_cols, thread=(thread_rows, thread_cols), defines=macros)


def _stream_k(thread_cols: int) -> Tiling:
    cols = 16 * thread_cols
    shared = barrier_ring_bytes(rows=128, cols=cols, depth=8)
    macros = {"THREAD_COLS": thread_cols}
    return Tiling(128, cols, thread=(8, thread_cols), shared_bytes=shared, defines=macros, persistent=True)


_TILE_128 = (Tiling(rows=128, cols=128),)
_WIDE: dict[str, Any] = {"rows": 128, "cols": 256, "thread": (8, 16)}
TILINGS: dict[str, tuple[Tiling, ...]] = {
    "naive": (Tiling(rows=32, cols=32, thread=(1, 1), block=(32, 32)),),
    "tiled": _TILE_128,
    "vectorized": _TILE_128,
    "moved_sync": _TILE_128,
    "conflict_free": _TILE_128,
    "fake_double_buffer": _TILE_128,
    "double_buffer": _TILE_128,
    "warp_tiled": (Tiling(**_WIDE),),
    "async_copy": (Tiling(**_WIDE, shared_bytes=copy_ring_bytes(slots=4, rows=128, cols=256, depth=8)),),
    "split_k": (_split_k(4, 4, 16), _split_k(12, 4, 16), _split_k(8, 8, 8), _split_k(12, 12, 8)),
    "barrier_ring": (Tiling(**_WIDE, shared_bytes=barrier_ring_bytes(rows=128, cols=256, depth=8)),),
    "group_split": (Tiling(rows=64, cols=128, shared_bytes=barrier_ring_bytes(rows=64, cols=128, depth=16)),),
    "stream_k": tuple(map(_stream_k, (8, 16))),
}
"""The tilings of each stage, smallest first."""

_NEWER: dict[str, Any] = {"in_bands": True, "min_capability": (8, 0)}

FAMILY = family(
    _tiled(1, "naive", "One thread per element.", largest_in_gate=1024),
    _tiled(2, "tiled", "128 x 128 tiles in shared memory, 8 x 8 elements per thread."),
    _tiled(3, "vectorized", "float4 loads and stores."),
    _tiled(4, "moved_sync", "The barrier at the beginning of the loop, after the loads."),
    _tiled(5, "conflict_free", "A transposed in shared memory, fragments split 4 + 4."),
    _tiled(6, "fake_double_buffer", "Two buffers, written before the multiply-adds: no overlap."),
    _tiled(7, "double_buffer", "Written after the multiply-adds: loads overlap them."),
    _tiled(8, "warp_tiled", "A sub-tile per warp, 8 x 16 elements per thread, operands reused."),
    _tiled(9, "async_copy", "A ring buffer of tiles, filled by asynchronous copies.", min_capability=(8, 0)),
    _tiled(10, "split_k", "Small tiles, with k divided among the warps of a block.", largest=1024),
    _tiled(11, "barrier_ring", "Split barriers, arrive early and wait late: no block-wide barrier.", **_NEWER),
    _tiled(12, "group_split", "Each slice of k divided among groups of warps.", largest=2048, **_NEWER),
    _tiled(13, "stream_k", "Equal work for every block: tiles are cut along k.", **_NEWER),
    kernel(
        operation="cublas_sgemm",
        name="cublas",
        lesson="NVIDIA's library in pedantic float32.",
        arguments=matrices,
        sizes=by_side(BENCH_SIZES),
        gate=lambda m: m in GATE_SIDES,
        small_sizes=by_side(SMALL_SIZES),
        edges=by_side(PROBE_SIZES),
        **PRODUCT,
    ),
    summary="single-precision matrix product",
    headlines={"naive": "4096"},
)
