"""Sum, maximum, running sums and histogram of an array: each element is read once, and blocks combine their results.

Sum and maximum are of float32, running sums of int32 (so that every order gives the same result), the histogram of
float32 into 256 equal bins. A size label is the bytes of the array that is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from math import ceil, sqrt
from typing import Any

from peakgate.family import Array, Check, Family, In, InOut, Out, Scratch, StageKernel, Temp, Value, family, stage

ELEMENT_BYTES = 4
MIB = 1 << 20
SIZES = {f"{size}MiB": size * MIB // ELEMENT_BYTES for size in (64, 256)}
SLOW = {"16MiB": 16 * MIB // ELEMENT_BYTES}
"""For stages that take milliseconds on larger arrays."""

BLOCK = 256
MOST_BLOCKS = 1056
"""Blocks of a grid-stride launch: eight for each SM of a large GPU, all of them resident at once."""
QUADS_OF_A_THREAD = 4

SCAN_BLOCK, SCAN_VECTORS = 512, 8
TILE = SCAN_BLOCK * SCAN_VECTORS * 4
AHEAD_BLOCK, AHEAD_VECTORS, AHEAD_STAGES, AHEAD_MOST_BLOCKS = 256, 8, 7, 132
"""For the scan with persistent blocks: threads that scan (there are three more warps); seven tiles fill the shared
memory of an SM."""
AHEAD_TILE = AHEAD_BLOCK * AHEAD_VECTORS * 4

BINS = 256
SPREAD, EQUAL = (-0.1, 1.1), 0.5
"""Data of histograms: values in all bins and outside them, and values that are all in one bin."""
COPIES = 1024
"""Copies of the bins that the reference uses, because a GPU performs additions to one word one after the other."""
LANES_BLOCK, LANES_MOST_BLOCKS = 1024, 264
LAST_BLOCK, LAST_MOST_BLOCKS = 512, 264
"""Fewer, larger blocks leave fewer parts to the last one."""

LOWEST = -3.4028234663852886e38
SUM_TOLERANCE = 1e-5
PROBES = (1, 3, 255, 1027, 4098, 9001)
MANY_TILES = 40
"""More tiles than a warp of scan_lookback looks back over at once."""


def tolerance_of_additions(count: int) -> float:
    """Tolerance of a sum that is added to ``count`` times: seven times the random errors of its own size."""
    return SUM_TOLERANCE + 2**-22 * sqrt(count)


def total(xp: Any, before: Array, values: Array) -> Array:  # noqa: ARG001  (numpy and cupy alike)
    """The value from before the launch, plus the sum."""
    return before + values.sum(dtype="float64")


def largest(xp: Any, before: Array, values: Array) -> Array:
    """The larger of the value from before the launch and the largest element."""
    return xp.maximum(before, values.max())


def magnitude(xp: Any, *inputs: Array) -> Array:
    """The root of the sum of squares of the last input."""
    values = inputs[-1].astype("float64")
    return xp.sqrt((values * values).sum()).reshape(1)


def running_sums(xp: Any, values: Array) -> Array:
    """The sum of each element and all elements before it, modulo 2^32."""
    return xp.cumsum(values, dtype="int64").astype("int32")


def counts(xp: Any, before: Array, values: Array) -> Array:
    """The counts from before the launch, plus the elements in each bin; those outside 0 to 1 are in none."""
    inside = (values >= 0) & (values < 1)
    bins = xp.where(inside, values * xp.float32(BINS), xp.float32(BINS)).astype("int32")
    bins += xp.arange(bins.size, dtype="int32") % COPIES * (BINS + 1)  # neighbours never count in the same copy
    found = xp.zeros(COPIES * (BINS + 1), dtype="uint32")
    xp.add.at(found, bins, xp.uint32(1))
    return before + found.reshape(COPIES, BINS + 1)[:, :BINS].sum(axis=0, dtype="uint32")


def grid_stride(n: int, block: int = BLOCK, most: int = MOST_BLOCKS) -> int:
    """Number of blocks of a grid-stride launch; at most ``most``."""
    return min(ceil(n / (4 * block * QUADS_OF_A_THREAD)), most)


def blocks_that_stay(n: int) -> int:
    """Number of persistent blocks: each takes at least twice as many tiles as fit in its shared memory."""
    return min(ceil(n / (2 * AHEAD_STAGES * AHEAD_TILE)), AHEAD_MOST_BLOCKS)


few_blocks = partial(grid_stride, block=LANES_BLOCK, most=LANES_MOST_BLOCKS)
blocks_that_leave_parts = partial(grid_stride, block=LAST_BLOCK, most=LAST_MOST_BLOCKS)


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction to one number: the kernels' name, initial value, reference, and magnitude of what is summed."""

    name: str
    start: float
    reference: Callable[..., Array]
    magnitude: Callable[..., Array] | None


def updated(xp: Any, before: Array, values: Array, *, made: Reduction) -> Array:
    """The reference of a kernel that updates its result."""
    return made.reference(xp, before, values)


def of_start(xp: Any, values: Array, *, made: Reduction) -> Array:
    """The reference of a kernel that sets its result."""
    return made.reference(xp, xp.full(1, made.start, dtype=values.dtype), values)


REDUCTIONS = {
    "sum": Reduction("Sum", 0.0, total, magnitude),
    "max": Reduction("Max", LOWEST, largest, None),
}


USUAL: dict[str, Any] = {
    "block": BLOCK,
    "sizes": SIZES,
    "small_sizes": {"n5003": 5003},
    "edges": {f"n{n}": n for n in PROBES},
    "gate": lambda n: n in (max(SIZES.values()), *SLOW.values()),
    "min_capability": (8, 0),
}
"""Parameters common to all stages."""


def _reduction(described: StageKernel, *, sets: bool = False, tolerance: float = SUM_TOLERANCE, **more: Any) -> Family:
    """A stage that updates a sum and a maximum; with ``sets`` the last block sets the result instead.

    Only sums are in the gate, because both move the same bytes.
    """
    given = USUAL | {"defines": {}} | more

    def arguments(n: int, made: Reduction) -> list[Any]:
        if sets:
            parts, finished = Temp(blocks_that_leave_parts(n)), Scratch(1, dtype="uint32")
            return [Out(1), In(n), parts, finished, Value(n, "uint64")]
        return [InOut(1, data=made.start), In(n), Value(n, "uint64")]

    own: dict[str, Any] = {
        "axes": {"made": REDUCTIONS},
        "arguments": arguments,
        # Every float is read once; one is written.
        "bytes": lambda n: ELEMENT_BYTES * (n + 1),
        "reference": of_start if sets else updated,
        # A sum is rounded, the largest element is one of them.
        "check": lambda made: Check(tolerance=tolerance if made.magnitude else 0.0, scale=made.magnitude),
        "roof": "read",
        "gate": lambda n, made: made.magnitude is not None and given["gate"](n),
        "defines": lambda made: {"OPERATION": made.name} | given["defines"],
    }
    return described(**given | own)


def _scan(described: StageKernel, tile: int = TILE, **more: Any) -> Family:
    """A stage of running sums, in which each tile has a word for what it publishes."""

    def arguments(n: int) -> list[Any]:
        states, tickets = Scratch(ceil(n / tile), dtype="uint64"), Scratch(1, dtype="uint64")
        return [Out(n, dtype="int32"), In(n, dtype="int32", data=(-1000, 1000)), states, tickets, Value(n, "uint64")]

    build = {"block": SCAN_BLOCK, "defines": {"BLOCK": SCAN_BLOCK, "VECTORS": SCAN_VECTORS}}
    given = USUAL | build | {"grid": lambda n: ceil(n / tile), "small_sizes": {"n30001": 30001}} | more
    probes = (1, 3, tile - 1, tile, tile + 5, MANY_TILES * tile + 3)
    return described(
        arguments=arguments,
        # Every element is read once and written once.
        bytes=lambda n: 2 * ELEMENT_BYTES * n,
        reference=running_sums,
        **given | {"edges": {f"n{n}": n for n in probes}},
    )


def _histogram(described: StageKernel, gated: Collection[Any] = (SPREAD, EQUAL), **more: Any) -> Family:
    """A stage that counts values spread over all bins, and equal values; those in ``gated`` are in the gate."""
    given = USUAL | more
    own: dict[str, Any] = {
        "axes": {"data": {"spread": SPREAD, "equal": EQUAL}},
        "arguments": lambda n, data: [InOut(BINS, dtype="uint32", data=0), In(n, data=data), Value(n, "uint64")],
        # Every float is read once, every count read and written.
        "bytes": lambda n: ELEMENT_BYTES * (n + 2 * BINS),
        "reference": counts,
        "roof": "read",
        "gate": lambda n, data: data in gated and given["gate"](n),
    }
    return described(**given | own)


FAMILY = family(
    _reduction(
        stage(1, "atomics", "One atomic operation per element."),
        grid=lambda n: ceil(n / BLOCK),
        sizes=SLOW,
        tolerance=tolerance_of_additions(max(SLOW.values())),
    ),
    _reduction(
        stage(2, "shared_tree", "A tree in shared memory, one atomic operation per block."),
        grid=lambda n: ceil(n / BLOCK),
        defines={"BLOCK": BLOCK},
        tolerance=tolerance_of_additions(max(SIZES.values()) // BLOCK),
    ),
    _reduction(stage(3, "shuffles", "A fixed grid, 16 bytes per load, shuffles."), grid=grid_stride),
    _reduction(
        stage(4, "last_block", "The last block combines all parts in order: repeatable."),
        sets=True,
        block=LAST_BLOCK,
        grid=blocks_that_leave_parts,
    ),
    _scan(stage(5, "scan_chained", "Running sums: each tile waits for the tile before it."), sizes=SIZES),
    _scan(stage(6, "scan_lookback", "Running sums: a tile looks back over as many tiles as it needs.")),
    _scan(
        stage(7, "scan_ahead", "Running sums: persistent blocks load tiles and publish sums ahead."),
        AHEAD_TILE,
        defines={"BLOCK": AHEAD_BLOCK, "VECTORS": AHEAD_VECTORS, "STAGES": AHEAD_STAGES},
        grid=blocks_that_stay,
        block=AHEAD_BLOCK + 3 * 32,
        shared_bytes=AHEAD_STAGES * AHEAD_TILE * ELEMENT_BYTES,
        min_capability=(9, 0),
    ),
    _histogram(
        stage(8, "histogram_global", "Counts in global memory."),
        grid=lambda n: ceil(n / BLOCK),
        sizes=SLOW,
        gated=[EQUAL],  # spread values take 460 µs or 950 µs
    ),
    _histogram(stage(9, "histogram_shared", "Counts in shared memory, one histogram per block."), grid=grid_stride),
    _histogram(
        stage(10, "histogram_lanes", "One histogram per lane: no two lanes conflict."),
        grid=few_blocks,
        block=LANES_BLOCK,
    ),
    summary="sum, maximum, running sums and histogram",
)
