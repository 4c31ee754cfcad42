"""Patterns of textures and surfaces, which know what lies outside, and do not see what their own launch writes."""

from __future__ import annotations

from lab.calibrated.pattern import BLOCK_SYNC, BOUNDS, CLEAN, RACY, Pattern
from peakgate.spec.arguments import Surface, Texture

PATTERNS = (
    Pattern(
        "linear_texture",
        "if (i < n) out[i] = tex1Dfetch<$T>(in, $A);",
        (
            ("own", CLEAN, {"A": "i"}),
            ("clamped", CLEAN, {"A": "i + 1 < n ? i + 1 : i"}),
            ("left", BOUNDS, {"A": "i - 1"}),
            ("scaled", BOUNDS, {"A": "2 * i"}),
        ),
        n=100,
        texture=Texture(linear_memory=True),
    ),
    Pattern(
        "texture",
        "$A out[i] = tex1D<$T>(in, $B);",
        (
            ("own", CLEAN, {"A": "if (i < n)", "B": "i + 0.5f"}),
            ("beyond", CLEAN, {"A": "if (i < n)", "B": "2.0f * i - 20.0f"}),
            ("no_guard", BOUNDS, {"A": "", "B": "i + 0.5f"}),
        ),
        n=100,
        texture=Texture(),
    ),
    Pattern(
        "surface",
        "$A surf1Dwrite(in[i % n], out, $B);",
        (
            ("own", CLEAN, {"A": "if (i < n)", "B": "i * (int)sizeof($T)"}),
            ("ignored", CLEAN, {"A": "", "B": "i * (int)sizeof($T), cudaBoundaryModeZero"}),
            ("no_guard", BOUNDS, {"A": "", "B": "i * (int)sizeof($T)"}),
            ("halved", RACY, {"A": "if (i < n)", "B": "i / 2 * (int)sizeof($T)"}),
            ("block_lost", RACY, {"A": "", "B": "t * (int)sizeof($T)"}),
        ),
        n=100,
        surface=Surface(),
    ),
    Pattern(
        "surface_read",
        "int own = i * (int)sizeof($T); $T v = surf1Dread<$T>(out, own); surf1Dwrite(in[i], out, own); $A",
        (
            ("before", CLEAN, {"A": "surf1Dwrite(v, out, own);"}),
            ("back", RACY, {"A": "surf1Dwrite(surf1Dread<$T>(out, own) + v, out, own);"}),
            (
                "other",
                RACY,
                {"A": f"{BLOCK_SYNC} v = surf1Dread<$T>(out, (i ^ 1) * (int)sizeof($T)); surf1Dwrite(v, out, own);"},
            ),
        ),
        surface=Surface(),
    ),
)
