"""Softmax, RMS norm and layer norm of the rows of a matrix: the aim is one read and one write of each element.

Rows of 128 to 65536 elements in bfloat16 or float32; sums and all other arithmetic are float32. RMS norm has a weight
for each column, layer norm a bias too, in the type of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any

from peakgate.family import Array, AxisValues, Check, Family, In, Out, Scratch, StageKernel, Value, family, stage

EPSILON = 1e-5
TOLERANCE, SERIAL_TOLERANCE = 1e-5, 1e-4
"""Tolerance of float32 sums and exponentials, besides the rounding to the type of the rows; and where one thread adds
up to 65536 of them."""

MIB = 1 << 20
TYPES = {"bf16": ("bfloat16", "bfloat16", 2), "f32": ("float32", "float", 4)}
"""By label: Peakgate's name, the name in the kernels, bytes."""
VECTOR_BYTES = 16
FULL_BYTES, MORE_BYTES = 256 * MIB, 64 * MIB
"""Bytes of the matrix that is read."""

WARP, BLOCK, LEAST_BLOCK = 32, 256, 128
SHORT, USUAL, LONG = 128, 4096, 65536
REGISTERS = dict.fromkeys((SHORT, 1024, USUAL, 16384), 1)
IN_GATE = {("softmax", "bf16"), ("layer", "f32")}
CLUSTERS = {1024: 2, 16384: 2, LONG: 8}
"""Blocks that share a row of this many elements; the shortest row is for the emulator's small problems."""
RESIDENT = {2: 1536, 4: 1024, 8: 1024}
"""Threads resident on an SM that registers have to suffice for, in several blocks, by the vectors of each thread."""
RESIDENT_WITHOUT_PARAMETERS = {(512, 4): 1536}
"""The same for a norm without parameters, by the threads per row and the vectors of each. Weights would not fit."""
RESIDENT_IN_CLUSTERS = 1536
SMALL = (37, 260)
PROBES: tuple[tuple[int, int], ...] = ((1, 1), (3, 127), (5, 264), (2, 1000), (2, 1030))
MANY_ROWS, MANY_ROWS_OF_RINGS = (1030, 3), (70, 130)
"""More rows than four blocks take, and more than all clusters take at once."""


def softmax(xp: Any, x: Array) -> Array:
    """``exp(x) / sum(exp(x))`` of each row, computed about its largest element."""
    powers = xp.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def rms_norm(xp: Any, x: Array, weight: Array) -> Array:
    """Each row divided by the root of its mean square."""
    return x / xp.sqrt((x * x).mean(axis=1, keepdims=True) + EPSILON) * weight


def layer_norm(xp: Any, x: Array, weight: Array, bias: Array) -> Array:
    """Each row minus its mean, divided by its standard deviation."""
    off = x - x.mean(axis=1, keepdims=True)
    return off / xp.sqrt((off * off).mean(axis=1, keepdims=True) + EPSILON) * weight + bias


def layer_magnitude(xp: Any, x: Array, weight: Array, bias: Array) -> Array:
    """The magnitudes of the terms of an element: of the difference from the mean, and of the bias.

    The rounding errors of the mean are those of its terms, however small the mean is: the root of the sum of their
    squares, over n.
    """
    mean = x.mean(axis=1, keepdims=True)
    deviation = xp.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + EPSILON)
    of_mean = xp.sqrt((x * x).sum(axis=1, keepdims=True)) / x.shape[1]
    return (xp.abs(x) + xp.abs(mean) + of_mean) / deviation * xp.abs(weight) + xp.abs(bias)


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm: its name in the kernels, its reference, and how many parameters it has for each column."""

    name: str
    reference: Any
    parameters: int
    magnitude: Any = None


NORMS = {
    "softmax": Norm("Softmax", softmax, 0),
    "rms": Norm("RmsNorm", rms_norm, 1),
    "layer": Norm("LayerNorm", layer_norm, 2, layer_magnitude),
}


@dataclass(frozen=True, slots=True)
class Tile:
    """How a row is divided: ``cluster`` blocks, each with ``threads`` threads per row, of ``vectors`` vectors each."""

    threads: int
    vectors: int
    cluster: int = 1

    @staticmethod
    def of_row(row_bytes: int, cluster: int = 1) -> Tile:
        """The tile of a row of whole vectors: up to 128 vectors a warp, up to 2048 four per thread, else eight.

        At least two vectors per thread: merging the statistics of two threads costs as much as some elements.
        """
        vectors = row_bytes // VECTOR_BYTES // cluster
        threads = min(vectors // 2, WARP) if vectors <= 128 else vectors // (4 if vectors <= 2048 else 8)
        return Tile(threads, vectors // threads, cluster)


@dataclass(frozen=True, slots=True)
class Ring:
    """How persistent clusters divide rows: threads of a block, vectors of each, parts of rows that fit in a block.

    A row has as many blocks as parts. A block keeps its part of each parameter in the space of one part of a row.
    """

    threads: int = 512
    vectors: int = 4
    parts: int = 6
    most_blocks: int = 132

    @property
    def part_bytes(self) -> int:
        """Bytes of a row that a block has."""
        return self.threads * self.vectors * VECTOR_BYTES


RINGS = {2048: Ring(64, 2), LONG: Ring()}
"""By the longest row; the shorter one is for the emulator's small problems alone."""
ROWS_OF_A_CLUSTER = 3
"""At least this many rows per cluster, so that the next rows are loaded while one is stored."""


def expected(xp: Any, x: Array, *parameters: Array, norm: str) -> Array:
    """The rows, normalized."""
    return NORMS[norm].reference(xp, x, *parameters)


def _stage(
    described: StageKernel,
    *,
    gate: int,
    in_gate: Collection[tuple[str, str]] = (("softmax", "bf16"),),
    axes: Mapping[str, AxisValues] = MappingProxyType({}),
    lengths: Callable[..., tuple[int, ...]] = lambda longest, **_: (longest,),
    matrices: Iterable[int] = (FULL_BYTES, MORE_BYTES),
    tolerance: float = TOLERANCE,
    probes: Callable[..., Iterable[tuple[int, int]]],
    defines: Callable[..., Mapping[str, object]] = lambda **_: {},
    draws_rows: bool = False,
    **launched: Any,
) -> Family:
    """A stage for each norm and type, on rows of ``lengths`` in ``matrices`` of this many bytes.

    Rows of ``gate`` elements in the largest matrix are in the gate. A build on an axis ``longest`` takes no longer
    rows.
    """

    def arguments(rows: int, n: int, *, norm: str, of: str, longest: int = 1 << 20) -> list[Any]:
        if n > longest:
            raise ValueError(f"rows of {n} elements; this build holds {longest}")
        (dtype, _, _), parameters = TYPES[of], NORMS[norm].parameters
        given = [In(n, dtype=dtype, data=(0.5, 1.5)), In(n, dtype=dtype)][:parameters]
        absent = [Value(0, "uint64")] * (2 - parameters)  # null pointers
        out, matrix = Out(rows, n, dtype=dtype), In(rows, n, dtype=dtype, data=(-4, 4))
        drawn = [Scratch(1, dtype="uint64")] if draws_rows else []
        return [out, matrix, *given, *absent, *drawn, Value(rows), Value(n)]

    return described(
        axes={"norm": tuple(NORMS), "of": tuple(TYPES), **axes},
        variant=lambda norm, of: f"{norm}-{of}",
        arguments=arguments,
        # Each element is read once and written once, a parameter read once.
        bytes=lambda rows, n, norm, of: TYPES[of][2] * (2 * rows * n + NORMS[norm].parameters * n),
        reference=expected,
        check=lambda norm: Check(tolerance=tolerance, scale=NORMS[norm].magnitude),
        defines=lambda **at: {"NORM": NORMS[at["norm"]].name, "ELEMENT": TYPES[at["of"]][1], **defines(**at)},
        sizes=lambda of, **at: [(nbytes // (n * TYPES[of][2]), n) for n in lengths(**at) for nbytes in matrices],
        edges=lambda longest=1 << 20, **at: [size for size in probes(longest=longest, **at) if size[1] <= longest],
        gate=lambda rows, n, norm, of: (norm, of) in in_gate and n == gate and rows * n * TYPES[of][2] == FULL_BYTES,
        **launched,
    )


def _plain(described: StageKernel, **launched: Any) -> Family:
    """A stage that takes rows of any length, for each norm in bfloat16."""
    return _stage(
        described,
        axes={"of": ("bf16",)},
        lengths=lambda **_: (USUAL, LONG),
        matrices=(FULL_BYTES,),
        gate=USUAL,
        small_sizes=[SMALL],
        probes=lambda **_: (*PROBES, MANY_ROWS),
        block=BLOCK,
        min_capability=(8, 0),
        **launched,
    )


def _held(described: StageKernel, rows: Mapping[int, int], gate: int, **launched: Any) -> Family:
    """A stage that is built for rows of one length, by the number of blocks that share a row."""

    def tile(of: str, longest: int) -> Tile:
        return Tile.of_row(longest * TYPES[of][2], rows[longest])

    def block(of: str, longest: int) -> int:
        threads = tile(of, longest).threads
        return threads if rows is CLUSTERS or threads > WARP else LEAST_BLOCK  # rows of a few lanes share a block

    def together(of: str, longest: int) -> int:
        return block(of, longest) // tile(of, longest).threads

    def defines(norm: str, of: str, longest: int) -> dict[str, int]:
        held = tile(of, longest)
        if rows is CLUSTERS:
            resident, shape = RESIDENT_IN_CLUSTERS, {"CLUSTER": held.cluster}
        else:
            resident, shape = RESIDENT[held.vectors], {"THREADS": held.threads}
            if NORMS[norm].parameters == 0:
                resident = RESIDENT_WITHOUT_PARAMETERS.get((held.threads, held.vectors), resident)
        threads = block(of, longest)
        return {"BLOCK": threads, "VECTORS": held.vectors, "MIN_BLOCKS": min(resident // threads, 16)} | shape

    def probes(of: str, longest: int, **_: Any) -> list[tuple[int, int]]:
        count = together(of, longest)
        return [*PROBES, (4 * count + 1, 5), (count + 1, longest), (count, longest - 1)]

    return _stage(
        described,
        axes={"longest": tuple(rows)},
        gate=gate,
        in_gate=IN_GATE,
        probes=probes,
        small_sizes=lambda longest: [SMALL] if longest == 1024 else None,
        defines=defines,
        grid=lambda rows, of, longest: ceil(rows / together(of, longest)) * tile(of, longest).cluster,
        block=block,
        **launched,
    )


def _rings(described: StageKernel, gate: int) -> Family:
    """A stage with persistent clusters and one build for each length."""

    def cluster(of: str, longest: int) -> int:
        return longest * TYPES[of][2] // RINGS[longest].part_bytes

    def grid(rows: int, of: str, longest: int) -> int:
        blocks = cluster(of, longest)
        return blocks * min(ceil(rows / ROWS_OF_A_CLUSTER), RINGS[longest].most_blocks // blocks)

    return _stage(
        described,
        axes={"longest": tuple(RINGS)},
        lengths=lambda longest, **_: (longest,) if longest == LONG else (),
        gate=gate,
        probes=lambda longest, **_: (*PROBES, MANY_ROWS_OF_RINGS, (3, longest), (2, longest - 1)),
        small_sizes=lambda longest: None if longest == LONG else [SMALL],
        defines=lambda norm, of, longest: {
            "BLOCK": RINGS[longest].threads,
            "VECTORS": RINGS[longest].vectors,
            "CLUSTER": cluster(of, longest),
            "STAGES": RINGS[longest].parts - NORMS[norm].parameters,
        },
        grid=grid,
        block=lambda longest: RINGS[longest].threads + 2 * WARP,
        shared_bytes=lambda longest: RINGS[longest].parts * RINGS[longest].part_bytes,
        draws_rows=True,
        min_capability=(9, 0),
    )


def blocks_of_threads(rows: int, _: int) -> int:
    """Number of blocks with one thread per row."""
    return ceil(rows / BLOCK)


def blocks_of_warps(rows: int, _: int) -> int:
    """Number of blocks with one warp per row."""
    return ceil(rows * WARP / BLOCK)


FAMILY = family(
    _plain(stage(1, "naive", "One thread per row."), grid=blocks_of_threads, tolerance=SERIAL_TOLERANCE),
    _plain(stage(2, "warp_per_row", "One warp per row, shuffles between its lanes."), grid=blocks_of_warps),
    _plain(stage(3, "online", "Statistics in one pass, merged element by element."), grid=blocks_of_warps),
    _plain(
        stage(4, "vectors", "One block per row, 16 bytes per load."),
        grid=lambda rows: rows,
        defines=lambda **_: {"BLOCK": BLOCK},
    ),
    _held(stage(5, "registers", "A row is kept in registers: one read."), REGISTERS, USUAL, min_capability=(8, 0)),
    _held(stage(6, "clusters", "Blocks of a cluster share a row."), CLUSTERS, LONG, min_capability=(9, 0)),
    _rings(stage(7, "rings", "Persistent blocks; rows and statistics are loaded and exchanged ahead."), LONG),
    summary="softmax, RMS norm and layer norm",
    headlines={
        **dict.fromkeys(("naive", "warp_per_row", "online", "vectors", "registers"), "32768x4096-softmax-bf16"),
        **dict.fromkeys(("clusters", "rings"), "2048x65536-softmax-bf16"),
    },
)
