"""Attention in bfloat16: from one warp per query to tensor cores that hardly wait for exponentials, and backward.

Queries, keys, values and the result are ``heads x length x width``; each head is a separate problem. A size label is
``<heads>x<length>``; the width (64 or 128) and whether a query sees later keys (full) or not (causal) are the variant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Any

from peakgate.family import (
    Array,
    Buffer,
    Family,
    In,
    LaunchOf,
    Out,
    StageKernel,
    Temp,
    TensorMap,
    Value,
    family,
    launch,
    stage,
)

Size = tuple[int, int]
"""Heads of all sequences together, and the length of each."""
WIDTHS, CAUSAL = (64, 128), {"full": False, "causal": True}
TOKENS = 16384
"""Tokens of all sequences of a case together, whatever their length."""
COLUMNS = 2048
"""Columns of all heads of a sequence together, whatever their width."""
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
SOME_LENGTHS = LENGTHS[1::2]
"""Lengths for the intermediate stages: 1024, 4096, 16384."""
SHORT = LENGTHS[:2]
"""Lengths for stages that take a hundred times as long as the last ones."""
BLOCKS_OF_A_FULL_GPU = 132
"""Most blocks of a persistent grid: about one for each SM of a large GPU."""
SMALL: Size = (2, 72)
PROBES: tuple[Size, ...] = ((1, 1), (2, 63), (1, 65), (1, 130))
"""One key alone, less than a tile, just more than one tile, and more than two."""
LONG_PROBES: tuple[Size, ...] = ((1, 900), (6, 200))
"""More tiles of keys than twice the slots of the ring, more heads than share the first blocks of the grid."""
FEW_BLOCKS, BLOCKS_OF_A_SECTION = 5, 9
"""Blocks of a persistent grid on LONG_PROBES: some take one tile of queries more than others.

In causal attention a section has a quarter as many heads as there are blocks: 9 for sections of two heads.
"""
FLOAT_TOLERANCE = 2e-5
"""For scores and exponentials in float32."""
WEIGHT_TOLERANCE = 2**-8 + FLOAT_TOLERANCE
"""For weights that are rounded to bfloat16 as well: 8 significant bits, so each is off by at most 2^-8 of itself."""
MOST_SCORES = 1 << 26
"""Scores that the reference keeps in memory at once, for more than one head: those of a long head take gigabytes."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """What a block of the wgmma stages processes at a time: 64 queries for each group, slots of keys and of values."""

    width: int
    groups: int
    keys: int
    slots: int = 2
    query_slots: int = 0

    @staticmethod
    def of(width: int, causal: bool) -> Tiling:
        """The largest that registers allow: narrow heads have a third group, full attention more keys.

        Causal attention computes scores that are masked, more of them in larger tiles.
        """
        if width == 64:
            return Tiling(width, groups=3, keys=128)
        return Tiling(width, groups=2, keys=128 if causal else 176)

    @staticmethod
    def persistent(width: int, causal: bool) -> Tiling:
        """With two slots of queries; short lengths are whole multiples of the queries, causal ones of few of them."""
        if width == 64 and not causal:
            return Tiling(width, groups=4, keys=64, slots=4, query_slots=2)
        return Tiling(width, groups=2, keys=128, query_slots=2)

    @property
    def queries(self) -> int:
        return 64 * self.groups

    @property
    def block(self) -> int:
        """Threads per block: each group has 128, and so has the producer."""
        return 128 * (self.groups + 1)

    @property
    def shared_bytes(self) -> int:
        """The queries' ring and place, tiles of keys and values; two barriers for each slot, and one for the place."""
        rows = (1 + self.query_slots) * self.queries + 2 * self.slots * self.keys
        return 2 * self.width * rows + 8 * (1 + 2 * self.query_slots + 4 * self.slots)

    @property
    def macros(self) -> dict[str, int]:
        """Macros of the build."""
        return {"GROUPS": self.groups, "KEYS": self.keys, "SLOTS": self.slots}

    def maps(self, heads: int, length: int) -> list[Any]:
        """The tensor maps by which a kernel copies."""
        rows_of_boxes = (64, self.queries, self.keys, self.keys)
        given = zip(tensors(heads, length, self.width), rows_of_boxes, strict=True)
        return [TensorMap(each, box=(1, rows, 64), swizzle=128) for each, rows in given]

    def tiles(self, heads: int, length: int) -> int:
        """Tiles of queries of all heads."""
        return ceil(length / self.queries) * heads


def tensors(heads: int, length: int, width: int) -> list[Buffer]:
    """The result, queries, keys and values."""
    shape = (heads, length, width)
    return [Out(*shape, dtype="bfloat16"), *(In(*shape, dtype="bfloat16", data=(-2, 2)) for _ in range(3))]


def attention(xp: Any, q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    """``softmax(Q.K^T / sqrt(width)).V`` of each head: as many heads at a time as have MOST_SCORES, or one."""
    heads, length, _ = q.shape
    step = max(1, MOST_SCORES // length**2)
    parts = [slice(at, at + step) for at in range(0, heads, step)]
    return xp.concatenate([_of_heads_at_once(xp, q[part], k[part], v[part], causal) for part in parts])


def magnitude(xp: Any, q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    """The weighted sum of the magnitudes of the values, of which each element's rounding errors are a small part."""
    return attention(xp, q, k, xp.abs(v), causal=causal)


def _of_heads_at_once(xp: Any, q: Array, k: Array, v: Array, causal: bool) -> Array:
    scores = xp.matmul(q, k.transpose(0, 2, 1)) / q.shape[2] ** 0.5
    if causal:
        at = xp.arange(q.shape[1])
        scores = xp.where(at[None, :] <= at[:, None], scores, -xp.inf)
    weights = xp.exp(scores - scores.max(axis=2, keepdims=True))
    return xp.matmul(weights, v) / weights.sum(axis=2, keepdims=True)


def gradients(xp: Any, *given: Array, causal: bool) -> tuple[Array, ...]:
    """The gradients of ``sum(do * attention(q, k, v))`` in q, k and v.

    ``given`` are q, k, v, the result o, do, and the logarithm of each query's sum of exponentials. As in
    FlashAttention, o and the logarithms are taken as they are, whether or not they are those of q, k and v.
    """
    return _gradients(xp, given, causal, magnitudes=False)


def gradient_magnitudes(xp: Any, *given: Array, causal: bool) -> tuple[Array, ...]:
    """The sums of the magnitudes of the terms of the gradients, of which rounding errors are a small part.

    The gradient of a score is a weight times a difference, rounded to bfloat16. The terms of the difference are summed
    in float, with errors that are FLOAT_TOLERANCE of their magnitudes, however small the difference is.
    """
    return _gradients(xp, given, causal, magnitudes=True)


def _gradients(xp: Any, given: Sequence[Array], causal: bool, *, magnitudes: bool) -> tuple[Array, ...]:
    heads, length, width = given[0].shape
    step = max(1, MOST_SCORES // length**2)
    parts = []
    for first in range(0, heads, step):
        q, k, v, o, do, logs = (each[first : first + step] for each in given)
        weights = xp.exp(xp.matmul(q, k.transpose(0, 2, 1)) / width**0.5 - logs[:, :, None])
        if causal:
            at = xp.arange(length)
            weights = xp.where(at[None, :] <= at[:, None], weights, 0.0)
        difference = xp.matmul(do, v.transpose(0, 2, 1)) - (o * do).sum(axis=2, keepdims=True)
        if magnitudes:
            q, k, v, o, do = (xp.abs(each) for each in (q, k, v, o, do))
            terms = xp.matmul(do, v.transpose(0, 2, 1)) + (o * do).sum(axis=2, keepdims=True)
            difference = xp.abs(difference) + FLOAT_TOLERANCE / WEIGHT_TOLERANCE * terms
        scores = weights * difference / width**0.5
        of_keys, of_values = (xp.matmul(each.transpose(0, 2, 1), by) for each, by in ((scores, q), (weights, do)))
        parts.append((xp.matmul(scores, k), of_keys, of_values))
    return tuple(xp.concatenate(each) for each in zip(*parts, strict=True))


def pairs(length: int, causal: bool) -> int:
    """Pairs of a query and a key that it sees."""
    return length * (length + 1) // 2 if causal else length * length


def _stage(
    described: StageKernel,
    *lengths: int,
    gate: tuple[int, int] = (1024, 128),
    causal: Mapping[str, bool] = CAUSAL,
    **launched: Any,
) -> Family:
    """A stage for each width, full and causal; ``gate`` has the keys and the columns of heads that are in the gate.

    Causal attention is in the gate only for a stage that is made for it: proving it takes longer than measuring it.
    """
    gated = (*gate, min(causal.values()))
    usual: dict[str, Any] = {"tolerance": WEIGHT_TOLERANCE} | launched
    return described(
        axes={"width": {str(width): width for width in WIDTHS}, "causal": causal},
        # Queries, keys and values are read at least once and the result is written once, 2 bytes per element.
        bytes=lambda heads, length, width: 8 * heads * length * width,
        # A multiplication and an addition for each column in each of the two products.
        flops=lambda heads, length, width, causal: 4 * heads * pairs(length, causal) * width,
        math="bf16",
        sizes=lambda width: [(COLUMNS // width * TOKENS // length, length) for length in lengths],
        gate=lambda length, width, causal: (length, width, causal) == gated,
        small_sizes=[SMALL],
        reference=attention,
        scale=magnitude,
        **usual,
    )


def _by_blocks(rows: int, block: int) -> dict[str, Any]:
    """Parameters of a stage whose blocks have ``rows`` queries each."""
    return {
        "arguments": lambda heads, length, width: [*tensors(heads, length, width), Value(length)],
        "grid": lambda heads, length: (ceil(length / rows), heads),
        "block": block,
        "defines": lambda width, causal: {"HEAD": width, "CAUSAL": int(causal)},
        "edges": (*PROBES, (1, 4 * rows + 14)),  # its last tile ends behind four whole ones
        "min_capability": (8, 0),
    }


def _by_tiling(tiling: Callable[[int, bool], Tiling]) -> dict[str, Any]:
    """Parameters of a stage with a block for each tile of queries."""
    return {
        "arguments": lambda heads, length, width, causal: [*tiling(width, causal).maps(heads, length), Value(length)],
        "grid": lambda heads, length, width, causal: (ceil(length / tiling(width, causal).queries), heads),
        "block": lambda width, causal: tiling(width, causal).block,
        "shared_bytes": lambda width, causal: tiling(width, causal).shared_bytes,
        "defines": lambda width, causal: {"HEAD": width, "CAUSAL": int(causal)} | tiling(width, causal).macros,
        "edges": (*PROBES, *LONG_PROBES),
        "min_capability": "9.0a",
    }


def _persistent_arguments(heads: int, length: int, width: int, causal: bool) -> list[Any]:
    return [*Tiling.persistent(width, causal).maps(heads, length), Value(heads), Value(length)]


def _persistent_grid(heads: int, length: int, width: int, causal: bool) -> int:
    most = BLOCKS_OF_A_FULL_GPU
    if (heads, length) in LONG_PROBES:
        most = BLOCKS_OF_A_SECTION if causal and heads > 1 else FEW_BLOCKS
    return min(most, Tiling.persistent(width, causal).tiles(heads, length))


@dataclass(frozen=True, slots=True)
class Backward:
    """What a block of the backward pass processes at a time: 64 keys for each of two groups, and some queries."""

    width: int
    keys: int = 128
    slots: int = 2

    @property
    def queries(self) -> int:
        """Two units of 64 queries by 64 columns: one for each group."""
        return 8192 // self.width

    @property
    def shared_bytes(self) -> int:
        """Keys and values, slots of queries and gradients with two floats per query, scores twice, barriers."""
        rows = 2 * self.keys + 2 * self.slots * self.queries
        floats, scores = 2 * self.slots * self.queries, 2 * self.keys * self.queries
        return 2 * self.width * rows + 4 * floats + 2 * scores + 8 * (4 + 4 * self.slots)

    def arguments(self, heads: int, length: int) -> dict[str, Any]:
        """Three gradients, what they are computed from, and what one launch leaves for the next."""
        shape, tiles = (heads, length, self.width), ceil(length / self.queries)
        rows = tiles * self.queries
        boxes = {"q": self.queries, "do": self.queries, "k": self.keys, "v": self.keys, "dq": 64, "dk": 64, "dv": 64}
        return {
            **{name: Out(*shape, dtype="bfloat16") for name in ("dq", "dk", "dv")},
            **{name: In(*shape, dtype="bfloat16", data=(-2, 2)) for name in ("q", "k", "v")},
            # As large as a result of the forward pass, which is a mean of many values.
            "o": In(*shape, dtype="bfloat16", data=(-0.5, 0.5)),
            "do": In(*shape, dtype="bfloat16", data=(-2, 2)),
            # Weights of a query add up to about 1, since scores of these q and k have a standard deviation of 4/3.
            "logs": In(heads, length, data=(log(length) + 0.7, log(length) + 1.1)),
            **{f"{name}_map": TensorMap(name, box=(1, count, 64), swizzle=128) for name, count in boxes.items()},
            "sums": Temp(heads, rows, self.width),
            "binary_logs": Temp(heads, rows),
            "deltas": Temp(heads, rows),
            **{name: Value(value) for name, value in {"n": length, "tiles": tiles, "rows": rows}.items()},
        }

    def launches(self) -> list[LaunchOf]:
        """What the products need, the products, and the rounding of the queries' gradient."""

        def tiles(heads: int, length: int) -> int:
            return heads * ceil(length / self.queries)

        return [
            launch(
                "begin_gradients",
                "sums binary_logs deltas o do logs n rows",
                grid=lambda heads, length: 4 * tiles(heads, length),  # 8 elements per thread
                block=256,
            ),
            launch(
                "backward",
                "dk_map dv_map q_map k_map v_map do_map sums binary_logs deltas n",
                grid=lambda heads, length: (ceil(length / self.keys), heads),
                block=384,
                shared_bytes=self.shared_bytes,
            ),
            launch(
                "round_gradients",
                "dq_map sums tiles",
                grid=lambda heads, length: 2 * tiles(heads, length),  # one block per unit
                block=128,
            ),
        ]


_FLOAT: dict[str, Any] = {"tolerance": FLOAT_TOLERANCE, "gate": (SHORT[0], 128)} | _by_blocks(rows=8, block=256)
_BY_TILING = _by_tiling(Tiling.of)
_PERSISTENT = _by_tiling(Tiling.persistent) | {"arguments": _persistent_arguments, "grid": _persistent_grid}

FAMILY = family(
    _stage(stage(1, "two_pass", "One warp per query, each score computed twice."), *SHORT, **_FLOAT),
    _stage(stage(2, "online", "One pass; the sums are rescaled when a larger score is found."), *SHORT, **_FLOAT),
    _stage(
        stage(3, "mma_sync", "Both products on tensor cores, weights in registers."),
        *SOME_LENGTHS,
        **_by_blocks(rows=64, block=128),
    ),
    _stage(
        stage(4, "wgmma", "Groups of warps multiply from shared memory that the copy engine fills."),
        *SOME_LENGTHS,
        **_BY_TILING,
    ),
    _stage(stage(5, "ping_pong", "Groups alternate on the tensor cores."), *SOME_LENGTHS, **_BY_TILING),
    _stage(stage(6, "overlapped", "The next scores start before the product with the values."), *LENGTHS, **_BY_TILING),
    _stage(
        stage(7, "longest_first", "Causal: the blocks with the most keys start first."),
        *LENGTHS,
        causal={"causal": True},
        **_BY_TILING,
    ),
    _stage(
        stage(8, "persistent", "A block takes one tile of queries after the other; the next arrives meanwhile."),
        *LENGTHS[:3],
        gate=(1024, 64),
        **_PERSISTENT,
    ),
    stage(9, "backward", "Gradients of queries, keys and values in one pass over the scores.")(
        axes={"width": {str(width): width for width in WIDTHS}, "causal": CAUSAL},
        arguments=lambda heads, length, width: Backward(width).arguments(heads, length),
        launches=lambda width: Backward(width).launches(),
        # Queries, keys, values, the result and its gradient are read at least once, and three gradients written once, 2
        # bytes per element; a float for each query.
        bytes=lambda heads, length, width: heads * length * (16 * width + 4),
        # A multiplication and an addition for each column in each of the five products.
        flops=lambda heads, length, width, causal: 10 * heads * pairs(length, causal) * width,
        math="bf16",
        sizes=lambda width: [(COLUMNS // width * TOKENS // length, length) for length in SOME_LENGTHS],
        gate=lambda length, width, causal: (length, width, causal) == (1024, 128, False),
        small_sizes=[SMALL],
        edges=(*PROBES, *LONG_PROBES),
        reference=gradients,
        scale=gradient_magnitudes,
        tolerance=WEIGHT_TOLERANCE,
        defines=lambda width, causal: {"HEAD": width, "CAUSAL": int(causal)},
        min_capability="9.0a",
    ),
    summary="attention in bfloat16",
    headlines=dict.fromkeys(("two_pass", "online"), "256x1024-128-full")
    | dict.fromkeys(("mma_sync", "wgmma", "ping_pong", "overlapped"), "64x4096-128-full")
    | {"longest_first": "64x4096-128-causal", "persistent": "512x1024-64-full", "backward": "64x4096-128-full"},
)
