"""Patterns of barriers that not all threads come to."""

from __future__ import annotations

from lab.calibrated.pattern import CLEAN, DIVERGENT, GROUPS, Pattern

PATTERNS = (
    Pattern(
        "barrier_in_branch",
        "__shared__ $T s[64]; s[t] = in[i]; $A out[i] = s[63 - t];",
        (
            ("same_for_all", CLEAN, {"A": "if (n > 5) __syncthreads();"}),
            ("two_sides", DIVERGENT, {"A": "if (t < 32) __syncthreads(); else { s[t] += 1; __syncthreads(); }"}),
            ("odd", DIVERGENT, {"A": "if (t % 2) __syncthreads(); s[t] += 1; __syncthreads();"}),
            ("by_data", DIVERGENT, {"A": "if (in[i] > 9) __syncthreads(); s[t] += 1; __syncthreads();"}),
            ("vote", DIVERGENT, {"A": "if (t < 40) __syncthreads(); else __syncthreads_or(t);"}),
            ("count", DIVERGENT, {"A": "if (t < 8) __syncthreads_count(1); s[t] += 1; __syncthreads();"}),
        ),
    ),
    Pattern(
        "barrier_in_loop",
        "__shared__ $T s[64]; s[t] = in[i]; for (int k = 0; k < $A; ++k) { s[t] += 1; __syncthreads(); } "
        "$B s[t] += 1; __syncthreads(); out[i] = s[63 - t];",
        (
            ("uniform", CLEAN, {"A": "3", "B": ""}),
            ("by_block", CLEAN, {"A": "1 + blockIdx.x", "B": ""}),
            ("by_thread", DIVERGENT, {"A": "1 + t % 2", "B": ""}),
            ("by_data", DIVERGENT, {"A": "(int)in[i] % 3", "B": ""}),
        ),
    ),
    Pattern(
        "group_branch",
        "auto block = cg::this_thread_block(); __shared__ $T s[64]; s[t] = in[i]; $A out[i] = s[63 - t];",
        (
            ("same_for_all", CLEAN, {"A": "if (n) block.sync();"}),
            ("two_kinds", DIVERGENT, {"A": "if (t < 32) block.sync();\nelse __syncthreads();"}),
            ("odd", DIVERGENT, {"A": "if (t & 1) block.sync();\ns[t] += 1; block.sync();"}),
        ),
        head=GROUPS,
    ),
    Pattern(
        "lanes_missing",
        "$T v = in[i]; $A __syncthreads(); out[i] = v;",
        (
            ("all", CLEAN, {"A": "v += __shfl_xor_sync(~0u, v, 1);"}),
            ("half", CLEAN, {"A": "if (t % 32 < 16) v += __shfl_xor_sync(0xffffu, v, 1);"}),
            ("whole_mask", DIVERGENT, {"A": "if (t % 32 < 16) v += __shfl_xor_sync(~0u, v, 1);"}),
            ("whole_warp", DIVERGENT, {"A": "if (t % 2) __syncwarp();"}),
            ("left_out", DIVERGENT, {"A": "if (t % 32 < 20) v += __shfl_xor_sync(0xffffu, v, 1);"}),
        ),
        may_hang=True,
    ),
)
