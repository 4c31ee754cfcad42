"""Matrix product C = A.B^T in bfloat16 with float sums: from one thread per element to faster than cuBLAS.

A is ``m x k``, B is ``n x k``, as the weights of a linear layer are stored, C is ``m x n``, all row-major; N and K are
multiples of 8. A size label is ``<m>x<n>x<k>``, or the side alone where all are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from peakgate.family import (
    Array,
    Buffer,
    Family,
    In,
    Out,
    StageKernel,
    TensorMap,
    Value,
    by_side,
    family,
    kernel,
    stage,
)

Size = tuple[int, int, int]
"""Rows of C, columns of C, and the number of products per sum."""
SIDES = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
LAYERS: tuple[Size, ...] = (
    (16, 4096, 4096),  # one token for each of 16 requests: nearly all bytes read are weights
    (64, 4096, 14336),
    (128, 28672, 4096),
    (512, 4096, 4096),
    (4096, 6144, 4096),  # queries, keys and values of 4096 tokens
    (4096, 4096, 14336),  # from the wide layer back
    (8192, 1024, 8192),
    (2048, 128256, 4096),  # a vocabulary
)
"""Shapes of layers of language models: tall, wide and deep."""
GATE: tuple[Size, ...] = ((4096, 4096, 4096),)
MORE_GATE: tuple[Size, ...] = (*GATE, (1024, 1024, 1024), (64, 4096, 14336))
"""For the stages that are built with several tiles, and for cuBLAS."""
SMALL_SIZES: tuple[Size, ...] = ((128, 256, 128), (72, 136, 40))
PROBE_SIZES: tuple[Size, ...] = ((8, 8, 8), (136, 264, 72), (129, 256, 192), (520, 8, 8), (8, 1032, 8), (1, 8, 520))
"""Less than a tile and just more than one in each direction, sums that end inside a slice, the same after four whole
tiles, and more slices than slots."""
MANY_TILES: Size = (1032, 264, 72)
MANY_TILES_OF_FP8: Size = (1032, 264, 80)
FEW_BLOCKS = 4
"""Blocks of a persistent grid on such sizes: every block takes several tiles, some blocks one more than others."""
BLOCKS_OF_A_FULL_GPU = 132
"""About one block for each SM of a large GPU."""
SMS_OF_B200 = 148
"""Blocks of a persistent grid for Blackwell."""
BF16, FP8 = "bfloat16", "float8_e4m3fn"
SLICE_BYTES = 128
"""Bytes of each row in a slice of k: the width of the widest swizzle."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """The part of C that a block computes and its ring of slices, for the stages with specialised warps.

    A block has four warps for each 64 rows and four that load slices. C is stored in pieces of ``store_cols`` columns;
    each group of a persistent block has shared memory for ``stores`` of them. ``split`` blocks share a tile along k and
    add up through shared memory.
    """

    rows: int = 128
    cols: int = 256
    slots: int = 4
    stores: int = 0
    store_cols: int = 64
    cluster: int = 1
    split: int = 0

    @property
    def block(self) -> int:
        """Threads per block."""
        return 128 * (self.rows // 64 + 1)

    @property
    def shared_bytes(self) -> int:
        """Slices, the pieces of C that are being stored, and two barriers for each slot."""
        pieces = 2 * self.rows * self.stores * self.store_cols
        sums = 4 * self.rows * (self.cols + 4)
        leaving = sums if self.split else pieces
        return self.slots * (self.rows + self.cols) * SLICE_BYTES + leaving + 16 * self.slots

    @property
    def macros(self) -> dict[str, int]:
        """Macros of the build."""
        tile = {"ROWS": self.rows, "COLS": self.cols, "SLOTS": self.slots}
        if self.split:
            return tile | {"SPLIT": self.split}
        return tile | {
            "STORE_COLS": self.store_cols,
            "CLUSTER": self.cluster,
            **({"STORES": self.stores} if self.stores else {}),
        }

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Number of tiles along the columns and along the rows that cover C; those of a cluster count as one."""
        return ceil(n / self.cols), ceil(m / (self.rows * self.cluster))

    def grid(self, m: int, n: int, _: int) -> tuple[int, ...]:
        """One block for each tile, the rows of C first, or for each part of it along k."""
        across, down = self.tiles(m, n)
        return (across, down, self.split) if self.split else (down, across)

    def persistent_grid(self, *size: int) -> int:
        """Blocks of a persistent grid: the fewest that take no more turns than a full GPU would.

        SMs without a block leave their power to the others, and blocks that run together need whole rows of tiles.
        """
        tiles = prod(self.tiles(*size[:2]))
        most = FEW_BLOCKS if size in (MANY_TILES, MANY_TILES_OF_FP8) else BLOCKS_OF_A_FULL_GPU
        turns = ceil(tiles / (most // self.cluster))
        return ceil(tiles / turns) * self.cluster

    def maps(self, m: int, n: int, k: int, of: str = BF16) -> list[Any]:
        """Arguments of a kernel that copies by tensor maps; C has a map too where it is not split."""
        c, a, b = matrices(m, n, k, of)
        across = SLICE_BYTES // (2 if of == BF16 else 1)
        to = TensorMap(c, box=(64, self.store_cols), swizzle=128 if self.store_cols == 64 else 0)
        of_a = TensorMap(a, box=(self.rows, across), swizzle=128)
        of_b = TensorMap(b, box=(self.cols // self.cluster, across), swizzle=128)
        return [c if self.split else to, of_a, of_b, Value(m), Value(n), Value(k)]


def matrices(m: int, n: int, k: int, of: str = BF16) -> list[Buffer]:
    """C, A and B."""
    return [Out(m, n, dtype=BF16), In(m, k, dtype=of), In(n, k, dtype=of)]


def matrices_of_fp8(m: int, n: int, k: int) -> list[Buffer]:
    """C in bfloat16, A and B in 8-bit floats."""
    return matrices(m, n, k, FP8)


def by_pointers(m: int, n: int, k: int) -> list[Any]:
    """Arguments of a kernel whose threads copy."""
    return [*matrices(m, n, k), Value(m), Value(n), Value(k)]


def product(xp: Any, a: Array, b: Array) -> Array:
    """A.B^T of float64 inputs."""
    return xp.matmul(a, b.T)


def magnitude(xp: Any, a: Array, b: Array) -> Array:
    """About ``sqrt(sum of the squared products)`` of each element: the norms of its rows over sqrt(k)."""
    weights = xp.full((a.shape[1], 1), a.shape[1] ** -0.5)
    rows, columns = (a * a) @ weights, (b * b) @ weights  # as products, so that CuPy need not compile a reduction
    return xp.sqrt(rows * columns.T)


SIZES: tuple[Size, ...] = (*((side, side, side) for side in SIDES), *LAYERS)
PRODUCT: dict[str, Any] = {
    # Each of the m.n elements of C is a sum of k products: a multiplication and an addition each. A and B are read
    # at least once and C is written once, 2 bytes per element.
    "bytes": lambda m, n, k: 2 * (m * k + n * k + m * n),
    "flops": lambda m, n, k: 2 * m * n * k,
    "reference": product,
    "scale": magnitude,
    "terms": lambda k: k,
    "math": "bf16",
}
"""Parameters common to all stages in bfloat16."""
OF_FP8: dict[str, Any] = {
    "bytes": lambda m, n, k: m * k + n * k + 2 * m * n,
    # That of sums in float (peakgate.family.tolerance_of_sums) with the unit of the tensor cores, which cut what they
    # add at 13 bits below the largest term (DeepSeek-V3's report, arXiv:2412.19437, section 3.3.2, counts 14 with the
    # leading one), for the longest sums.
    "tolerance": 2**-13 * (8 + 5 * 8192**0.5),
    "terms": None,
    "math": "fp8",
}
"""Parameters common to all stages on 8-bit floats."""
SIZES_OF_FP8 = ((4096, 4096, 4096), (8192, 8192, 8192))
PROBE_SIZES_OF_FP8: tuple[Size, ...] = (
    (8, 8, 16),
    (136, 264, 80),
    (129, 256, 192),
    (520, 8, 16),
    (8, 1032, 16),
    (1, 8, 656),
)
"""As PROBE_SIZES; k is a multiple of 16, as tensor maps need it."""


def _square(*sides: int) -> list[Size]:
    return [(side, side, side) for side in sides]


def _up_to(most: int) -> list[Size]:
    return [size for size in SIZES if prod(size) <= most**3]


def _stage(
    described: StageKernel,
    rows: int = 128,
    cols: int = 256,
    *,
    sizes: Iterable[Size] | Callable[..., Any] = SIZES,
    gate: Collection[Size] = GATE,
    **more: Any,
) -> Family:
    """A stage whose blocks compute rows x cols of C unless ``more`` says otherwise."""
    given: dict[str, Any] = {
        "arguments": by_pointers,
        "grid": lambda m, n: (ceil(n / cols), ceil(m / rows)),
        "block": 256,
        "sizes": sizes if callable(sizes) else by_side(sizes),
        "small_sizes": by_side(SMALL_SIZES),
        "edges": by_side(PROBE_SIZES),
        "gate": lambda *size: size in gate,
    }
    return described(**PRODUCT | given | more)


def _tiled(
    described: StageKernel,
    chosen: Mapping[Tiling, Iterable[Size]],
    *,
    persistent: bool = False,
    **more: Any,
) -> Family:
    """A stage that is built with several tilings, each for the sizes that use it."""

    def small_sizes(tiling: Tiling) -> dict[str, Any]:
        deep = 64 * tiling.split * (tiling.slots + 2)  # each part has more slices than slots
        beyond = (tiling.rows * tiling.cluster + 8, tiling.cols + 8, deep + 136)
        return by_side([*(SMALL_SIZES if tiling in (_USUAL, _PERSISTENT) else ()), beyond])

    def grid(m: int, n: int, k: int, tiling: Tiling) -> tuple[int, ...] | int:
        return tiling.persistent_grid(m, n, k) if persistent else tiling.grid(m, n, k)

    return _stage(
        described,
        axes={"tiling": tuple(chosen)},
        variant="",
        arguments=lambda m, n, k, tiling: tiling.maps(m, n, k),
        grid=grid,
        block=lambda tiling: tiling.block,
        shared_bytes=lambda tiling: tiling.shared_bytes,
        defines=lambda tiling: tiling.macros,
        min_capability="9.0a",
        sizes=lambda tiling: by_side(chosen[tiling]),
        small_sizes=small_sizes,
        edges=by_side([*PROBE_SIZES, *([MANY_TILES] if persistent else [])]),
        **more,
    )


def _with_roles(described: StageKernel, *, blocks: int, slots: int) -> Family:
    """A persistent stage for Blackwell; ``blocks`` of 192 threads share a tile of 128 rows each and 256 columns."""

    def arguments(m: int, n: int, k: int) -> list[Any]:
        c, a, b = matrices(m, n, k)
        boxes = (128, 128, 256 // blocks)
        maps = [TensorMap(each, box=(rows, 64), swizzle=128) for each, rows in zip((c, a, b), boxes, strict=True)]
        return [*maps, Value(m), Value(n), Value(k)]

    def grid(*size: int) -> int:
        tiles = ceil(size[0] / (128 * blocks)) * ceil(size[1] / 256)
        return min(tiles, (FEW_BLOCKS if size == MANY_TILES else SMS_OF_B200) // blocks) * blocks

    slot_bytes, piece_bytes, barriers = (128 + 256 // blocks) * SLICE_BYTES, 128 * SLICE_BYTES, 2 * slots + 4
    return _stage(
        described,
        edges=by_side([*PROBE_SIZES, MANY_TILES]),
        arguments=arguments,
        grid=grid,
        block=192,
        shared_bytes=slots * slot_bytes + 2 * piece_bytes + 8 * barriers + 4,
        gate=(),
        min_capability="10.0a",
    )


_USUAL, _PERSISTENT = Tiling(), Tiling(stores=2)
_SPECIALISED = {
    # Up to 1536 all tiles are one wave: 32, 48, 64, 96, 128 and 132 of them.
    Tiling(64, 32, slots=4, store_cols=32): _square(256),
    Tiling(64, 48, slots=6, store_cols=48): _square(384),
    Tiling(64, 64, slots=8): _square(512),
    Tiling(64, 96, slots=11, store_cols=48): _square(768),
    Tiling(64, 128, slots=9): _square(1024),
    Tiling(128, 144, slots=6, store_cols=48): _square(1536),
    Tiling(128, 128, slots=7): [LAYERS[3]],  # 128 tiles
    _USUAL: [size for size in SIZES if size not in (*_square(256, 384, 512, 768, 1024, 1536), LAYERS[3])],
}
_CLUSTERS = {
    _PERSISTENT: [size for size in SIZES if prod(size) >= 2048**3 and size not in (*_square(3072, 16384), LAYERS[3])],
    Tiling(192, 192, stores=1): _square(3072),  # 256 tiles: 1.94 waves
    Tiling(128, 128, slots=6, stores=2): [LAYERS[3]],  # 128 tiles
    Tiling(stores=2, cluster=2): _square(16384),
}
_SPLIT = {Tiling(64, 64, slots=12, split=2): LAYERS[:2]}

FAMILY = family(
    _stage(
        stage(1, "naive", "One thread per element."), 32, 32, block=(32, 32), sizes=_up_to(4096), gate=MORE_GATE[1:2]
    ),
    _stage(
        stage(2, "tiled", "Tiles in shared memory, multiply-adds of the FP32 units."),
        128,
        128,
        sizes=_up_to(8192),
        min_capability=(8, 0),
    ),
    _stage(
        stage(3, "wmma", "Tensor cores through the warp matrix functions of CUDA C++."), 128, 128, min_capability=(8, 0)
    ),
    _stage(stage(4, "mma_sync", "Tensor cores by mma.sync, swizzled tiles."), 128, 128, min_capability=(8, 0)),
    _stage(
        stage(5, "copy_stages", "A ring buffer of slices, filled by asynchronous copies."),
        shared_bytes=3 * 384 * SLICE_BYTES,
        min_capability=(8, 0),
    ),
    _stage(
        stage(6, "wgmma", "Four warps multiply with one instruction, from shared memory."),
        shared_bytes=4 * 384 * SLICE_BYTES,
        min_capability="9.0a",
    ),
    _stage(
        stage(7, "tma", "One thread requests tiles from the copy engine."),
        arguments=lambda m, n, k: [matrices(m, n, k)[0], *_USUAL.maps(m, n, k)[1:]],
        shared_bytes=4 * (384 * SLICE_BYTES + 8),
        min_capability="9.0a",
    ),
    _tiled(
        stage(8, "specialised", "One warp requests slices, the other warps multiply."), _SPECIALISED, gate=MORE_GATE[:2]
    ),
    _tiled(
        stage(9, "clusters", "A persistent grid, and pairs of blocks that share slices of B."),
        _CLUSTERS,
        persistent=True,
    ),
    _tiled(stage(10, "split_k", "Blocks of a cluster share a tile along k."), _SPLIT, gate=MORE_GATE[2:]),
    _stage(
        stage(11, "fp8", "The same on 8-bit floats: twice the products per byte."),
        sizes=SIZES_OF_FP8,
        small_sizes=by_side(SMALL_SIZES[:1]),
        edges=by_side([*PROBE_SIZES_OF_FP8, MANY_TILES_OF_FP8]),
        arguments=lambda m, n, k: _PERSISTENT.maps(m, n, k, FP8),
        grid=_PERSISTENT.persistent_grid,
        block=_PERSISTENT.block,
        shared_bytes=_PERSISTENT.shared_bytes,
        min_capability="9.0a",
        **OF_FP8,
    ),
    _stage(
        stage(12, "tcgen05", "On Blackwell one thread multiplies, and sums are in tensor memory."),
        arguments=lambda m, n, k: [matrices(m, n, k)[0], *_USUAL.maps(m, n, k)[1:]],
        block=128,
        shared_bytes=4 * (384 * SLICE_BYTES + 16) + 16,
        gate=(),
        min_capability="10.0a",
    ),
    _with_roles(stage(13, "tcgen05_overlapped", "Warps have roles; two sets of sums take turns."), blocks=1, slots=4),
    _with_roles(stage(14, "tcgen05_pairs", "Two blocks multiply together and share B."), blocks=2, slots=6),
    kernel(
        operation="cublas_bf16_nt",
        name="cublas",
        lesson="NVIDIA's library, sums in float.",
        arguments=matrices,
        sizes=by_side(SIZES),
        small_sizes=by_side(SMALL_SIZES),
        edges=by_side(PROBE_SIZES),
        gate=lambda *size: size in MORE_GATE,
        **PRODUCT,
    ),
    kernel(
        operation="cublaslt_e4m3_nt",
        name="cublaslt",
        lesson="NVIDIA's library on 8-bit floats, sums kept in the tensor cores.",
        arguments=matrices_of_fp8,
        sizes=by_side(SIZES_OF_FP8),
        small_sizes=by_side(SMALL_SIZES[:1]),
        edges=by_side(PROBE_SIZES_OF_FP8),
        gate=lambda *size: size in GATE,
        min_capability=(8, 9),
        **PRODUCT | OF_FP8,
    ),
    summary="matrix product in bfloat16",
    headlines={"naive": "1024", "split_k": "64x4096x14336"},
)
