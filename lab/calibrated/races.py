"""Patterns of races: what orders two accesses is there, missing or too weak."""

from __future__ import annotations

from lab.calibrated.pattern import BLOCK_SYNC, CLEAN, GROUPS, NOTHING, RACY, WARP_SYNC, Pattern, Variant

COPIES = "#include <cuda_pipeline.h>\n"


def _barriers(hole: str = "A") -> tuple[Variant, ...]:
    """The usual ways to fill a hole that needs a barrier of the block."""
    return (
        ("barrier", CLEAN, {hole: BLOCK_SYNC}),
        ("vote", CLEAN, {hole: "__syncthreads_or(t);"}),
        ("none", RACY, {hole: NOTHING}),
        ("warp", RACY, {hole: WARP_SYNC}),
        ("fence", RACY, {hole: "__threadfence_block();"}),
    )


def _two(first: str = BLOCK_SYNC, second: str = BLOCK_SYNC) -> tuple[Variant, ...]:
    """Two holes that both need a barrier."""
    return (
        ("both", CLEAN, {"A": first, "B": second}),
        ("first", RACY, {"A": first, "B": NOTHING}),
        ("second", RACY, {"A": NOTHING, "B": second}),
    )


PATTERNS = (
    Pattern("shift", "__shared__ $T s[64]; s[t] = in[i]; $A out[i] = s[(t + 1) % 64];", _barriers()),
    Pattern(
        "reverse_dynamic",
        "extern __shared__ char raw[]; $T* s = ($T*)raw; s[t] = in[i]; $A out[i] = s[63 - t];",
        _barriers(),
        types=("short", "double"),
    ),
    Pattern(
        "group_sync",
        "__shared__ $T s[64]; auto block = cg::this_thread_block(); s[t] = in[i]; $A out[i] = s[t ^ 40];",
        (
            ("member", CLEAN, {"A": "block.sync();"}),
            ("free", CLEAN, {"A": "cg::sync(block);"}),
            ("tile", RACY, {"A": "cg::tiled_partition<32>(block).sync();"}),
            ("none", RACY, {"A": NOTHING}),
        ),
        head=GROUPS,
    ),
    Pattern(
        "tiles",
        "__shared__ $T s[64]; $T sum = 0; for (int k = 0; k < 4; ++k) "
        "{ s[t] = in[(i + k) % n]; $A sum += s[63 - t]; $B } out[i] = sum;",
        _two(),
    ),
    Pattern(
        "tree",
        "__shared__ $T s[64]; s[t] = in[i]; $A for (int d = 32; d; d /= 2) { if (t < d) s[t] += s[t + d]; $B } "
        "out[i] = t ? in[i] : s[0];",
        (*_two(), ("last_warp", RACY, {"A": BLOCK_SYNC, "B": "if (d > 32) __syncthreads();"})),
    ),
    Pattern(
        "warp_tree",
        "__shared__ volatile $T s[64]; s[t] = in[i]; __syncthreads(); "
        "if (t < 32) { for (int d = 16; d; d /= 2) { $T v = s[t + d]; $A s[t] = s[t] + v; $B } } out[i] = in[i];",
        _two(WARP_SYNC, WARP_SYNC),
    ),
    Pattern(
        "scan",
        "__shared__ $T s[64]; s[t] = in[i]; __syncthreads(); for (int d = 1; d < 64; d *= 2) "
        "{ $T v = t >= d ? s[t - d] : ($T)0; $A s[t] += v; $B } out[i] = s[t];",
        _two(),
    ),
    Pattern(
        "histogram",
        "__shared__ $T h[8]; if (t < 8) h[t] = 0; $A $B __syncthreads(); if (t < 8) out[i] = h[t];",
        (
            ("atomic", CLEAN, {"A": BLOCK_SYNC, "B": "atomicAdd(&h[t % 8], ($T)1);"}),
            ("block_atomic", CLEAN, {"A": BLOCK_SYNC, "B": "atomicAdd_block(&h[t % 8], ($T)1);"}),
            ("plain", RACY, {"A": BLOCK_SYNC, "B": "h[t % 8] += 1;"}),
            ("early", RACY, {"A": NOTHING, "B": "atomicAdd(&h[t % 8], ($T)1);"}),
        ),
    ),
    Pattern(
        "global_sum",
        "$A",
        (
            ("atomic", CLEAN, {"A": "atomicAdd(&out[t % 4], in[i]);"}),
            ("system", CLEAN, {"A": "atomicAdd_system(&out[0], in[i]);"}),
            ("plain", RACY, {"A": "out[t % 4] += in[i];"}),
            ("blocks", RACY, {"A": "out[t] += in[i];"}),
            ("mixed", RACY, {"A": "if (i) atomicAdd(&out[0], in[i]); else out[0] = 1;"}),
        ),
    ),
    Pattern(
        "maximum",
        "$A",
        (
            ("atomic", CLEAN, {"A": "atomicMax(&out[0], in[i]);"}),
            ("check_then_act", RACY, {"A": "if (in[i] > out[0]) out[0] = in[i];"}),
            ("swap", CLEAN, {"A": "atomicExch(&out[t % 2], in[i]);"}),
            ("compare", CLEAN, {"A": "atomicCAS(&out[0], 0, in[i]);"}),
        ),
        types=("int",),
    ),
    Pattern(
        "own_place",
        "$A",
        (
            ("own", CLEAN, {"A": "out[i] = in[n - 1 - i];"}),
            ("halved", RACY, {"A": "out[i / 2] = in[i];"}),
            ("block_lost", RACY, {"A": "out[t] = in[i];"}),
            ("strided", CLEAN, {"A": "for (int k = i; k < n; k += 128) out[k] = in[k];"}),
            ("stride_short", RACY, {"A": "for (int k = i; k < n; k += 64) out[k] = in[k] + t;"}),
        ),
    ),
    Pattern(
        "global_exchange",
        "out[i] = in[i]; $A $T v = out[$B]; __syncthreads(); out[i] = v;",
        (
            ("block", CLEAN, {"A": BLOCK_SYNC, "B": "i ^ 32"}),
            ("pair", CLEAN, {"A": BLOCK_SYNC, "B": "i ^ 1"}),
            ("none", RACY, {"A": NOTHING, "B": "i ^ 1"}),
            ("other_block", RACY, {"A": BLOCK_SYNC, "B": "i ^ 64"}),
            ("fence", RACY, {"A": "__threadfence();", "B": "i ^ 32"}),
        ),
    ),
    Pattern(
        "warp_sums",
        "__shared__ $T s[2]; $T v = in[i]; for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d); "
        "if (t % 32 == 0) s[t / 32] = v; $A out[i] = s[1 - t / 32];",
        _barriers(),
    ),
    Pattern(
        "double_buffer",
        "__shared__ $T s[2][64]; $T sum = 0; for (int k = 0; k < 4; ++k) "
        "{ s[$A][t] = in[(i + k) % n]; $B sum += s[$A][63 - t]; } out[i] = sum;",
        (
            ("alternating", CLEAN, {"A": "k % 2", "B": BLOCK_SYNC}),
            ("one", RACY, {"A": "0", "B": BLOCK_SYNC}),
            ("slow", RACY, {"A": "k / 2", "B": BLOCK_SYNC}),
            ("none", RACY, {"A": "k % 2", "B": NOTHING}),
        ),
    ),
    Pattern(
        "async_copy",
        "__shared__ alignas(16) $T s[64]; __pipeline_memcpy_async(&s[t], &in[i], sizeof($T)); __pipeline_commit(); "
        "$A $B out[i] = s[63 - t];",
        (
            ("waited", CLEAN, {"A": "__pipeline_wait_prior(0);", "B": BLOCK_SYNC}),
            ("no_barrier", RACY, {"A": "__pipeline_wait_prior(0);", "B": NOTHING}),
            ("no_wait", RACY, {"A": NOTHING, "B": BLOCK_SYNC}),
            ("wait_short", RACY, {"A": "__pipeline_wait_prior(1);", "B": BLOCK_SYNC}),
        ),
        head=COPIES,
    ),
    Pattern(
        "flag",
        "__shared__ int found; if (t == 0) found = 0; __syncthreads(); $A __syncthreads(); out[i] = found;",
        (
            ("one_thread", CLEAN, {"A": "if (t == 5) found = 1;"}),
            ("same_value", RACY, {"A": "if (in[i] > 3) found = 1;"}),
            ("atomic", CLEAN, {"A": "if (in[i] > 3) atomicExch(&found, 1);"}),
            ("other_values", RACY, {"A": "if (in[i] > 3) found = t;"}),
        ),
    ),
    Pattern(
        "dead_store",
        "__shared__ $T s[64]; $A = in[i]; out[i] = in[i];",
        (
            ("own", CLEAN, {"A": "s[t]"}),
            ("one", RACY, {"A": "s[0]"}),
            ("pairs", RACY, {"A": "s[t / 2]"}),
        ),
    ),
    Pattern(
        "transposed",
        "__shared__ $T s[8][9]; s[t / 8][t % 8] = in[i]; $A out[i] = s[t % 8][t / 8];",
        _barriers(),
        types=("int", "double"),
    ),
    Pattern(
        "bytes",
        "__shared__ alignas(4) $T s[132]; $A __syncthreads(); out[i] = s[t];",
        (
            ("own", CLEAN, {"A": "s[t] = in[i];"}),
            ("pairs", CLEAN, {"A": "s[2 * t] = in[i]; s[2 * t + 1] = in[i];"}),
            ("overlap", RACY, {"A": "s[t] = in[i]; s[t + 1] = (($T)t);"}),
        ),
        types=("unsigned char", "short"),
    ),
    Pattern(
        "tile_sync",
        "__shared__ volatile $T s[64]; auto tile = cg::tiled_partition<$A>(cg::this_thread_block()); "
        "s[t] = in[i]; $B out[i] = s[t ^ $C];",
        (
            ("sixteen", CLEAN, {"A": "16", "B": "tile.sync();", "C": "8"}),
            ("thirty_two", CLEAN, {"A": "32", "B": "tile.sync();", "C": "16"}),
            ("too_small", RACY, {"A": "16", "B": "tile.sync();", "C": "16"}),
            ("none", RACY, {"A": "16", "B": NOTHING, "C": "8"}),
        ),
        head=GROUPS,
    ),
    Pattern(
        "some_lanes",
        "__shared__ volatile $T s[64]; s[t] = in[i]; if (t < 16) { __syncwarp($A); out[i] = s[t $B]; }",
        (
            ("met", CLEAN, {"A": "0xffffu", "B": "^ 1"}),
            ("not_met", RACY, {"A": "0xffffu", "B": "+ 16"}),
            ("part", RACY, {"A": "t < 8 ? 0xffu : 0xff00u", "B": "^ 8"}),
        ),
    ),
    Pattern(
        "broadcast",
        "__shared__ $T s; for (int k = 0; k < 3; ++k) { if (t == k) s = in[i]; $A out[i] = s; $B }",
        _two(),
    ),
    Pattern(
        "last_block",
        "__shared__ bool last; if (t == 0) { out[blockIdx.x] = in[i]; $A last = $B == 1; } __syncthreads(); "
        "if (last && t == 0) out[2] = out[0] + out[1];",
        (
            ("fence", CLEAN, {"A": "__threadfence();", "B": "atomicAdd(&ticket, 1)"}),
            ("no_fence", RACY, {"A": NOTHING, "B": "atomicAdd(&ticket, 1)"}),
        ),
        types=("int", "float", "double"),
        head="__device__ int ticket;\n",
    ),
    Pattern(
        "grid_sync",
        "auto grid = cg::this_grid(); out[i] = in[i]; $A $T v = out[(i + 64) % n]; $B out[i] = v;",
        _two("grid.sync();", "grid.sync();"),
        head=GROUPS,
        cooperative=True,
    ),
    Pattern(
        "members",
        "struct Pair { $T a, b; }; __shared__ Pair s[32]; $A __syncthreads(); out[i] = s[t / 2].a;",
        (
            ("own", CLEAN, {"A": "if (t % 2) s[t / 2].a = in[i]; else s[t / 2].b = in[i];"}),
            ("same", RACY, {"A": "if (t % 2) s[t / 2].a = in[i]; else s[t / 2].a = 0;"}),
            ("whole", RACY, {"A": "if (t % 2) s[t / 2] = Pair{1, 2}; else s[t / 2].a = in[i];"}),
        ),
    ),
)
