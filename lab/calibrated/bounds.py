"""Patterns of accesses outside an array."""

from __future__ import annotations

from lab.calibrated.pattern import BOUNDS, CLEAN, Pattern

PATTERNS = (
    Pattern(
        "guard",
        "$A out[i] = in[i];",
        (
            ("guarded", CLEAN, {"A": "if (i < n)"}),
            ("none", BOUNDS, {"A": ""}),
            ("off_by_one", BOUNDS, {"A": "if (i <= n)"}),
            ("wrong_way", BOUNDS, {"A": "if (i + 1 > n)"}),
        ),
        n=100,
    ),
    Pattern(
        "stencil",
        "if (i < n) out[i] = in[$A] + in[$B];",
        (
            ("clamped", CLEAN, {"A": "i ? i - 1 : 0", "B": "i + 1 < n ? i + 1 : i"}),
            ("left", BOUNDS, {"A": "i - 1", "B": "i"}),
            ("right", BOUNDS, {"A": "i", "B": "i + 1"}),
            ("wrapped", CLEAN, {"A": "(i + n - 1) % n", "B": "(i + 1) % n"}),
        ),
        n=100,
        types=("int", "double"),
    ),
    Pattern(
        "shared_index",
        "__shared__ $T s[$A]; s[t] = in[t]; __syncthreads(); if (i < n) out[i] = s[$B];",
        (
            ("padded", CLEAN, {"A": "65", "B": "t"}),
            ("short", BOUNDS, {"A": "60", "B": "t % 60"}),
            ("next", BOUNDS, {"A": "64", "B": "t + 1"}),
            ("previous", BOUNDS, {"A": "64", "B": "t - 1"}),
        ),
        n=100,
    ),
    Pattern(
        "dynamic_index",
        "extern __shared__ char raw[]; $T* s = ($T*)raw; s[$A] = in[t]; __syncthreads(); if (i < n) out[i] = s[$A];",
        (
            ("inside", CLEAN, {"A": "t"}),
            ("scaled", BOUNDS, {"A": "3 * t"}),
            ("shifted", BOUNDS, {"A": "t + 65"}),
        ),
        n=100,
        types=("float", "double"),
    ),
    Pattern(
        "vector",
        "const ${V}* from = (const ${V}*)in; if (i < $A) { ${V} v = from[i]; out[2 * i] = v.x; out[2 * i + 1] = v.y; }",
        (("half", CLEAN, {"A": "n / 2"}), ("all", BOUNDS, {"A": "n"}), ("one_more", BOUNDS, {"A": "n / 2 + 1"})),
        n=100,
    ),
    Pattern(
        "atomic_index",
        "if (i < n) atomicAdd(&out[$A], ($T)1);",
        (("inside", CLEAN, {"A": "i % n"}), ("beyond", BOUNDS, {"A": "i + n"}), ("scaled", BOUNDS, {"A": "2 * i"})),
        n=100,
    ),
)
