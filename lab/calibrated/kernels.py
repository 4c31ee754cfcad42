"""All kernels of the calibrated suite."""

from __future__ import annotations

from lab.calibrated import barriers, bounds, races, textures
from lab.calibrated.pattern import Kernel, variants

PATTERNS = (*races.PATTERNS, *barriers.PATTERNS, *bounds.PATTERNS, *textures.PATTERNS)


def kernels() -> tuple[Kernel, ...]:
    """All kernels of the suite, by name."""
    made = [kernel for pattern in PATTERNS for kernel in variants(pattern)]
    return tuple(sorted(made, key=lambda kernel: kernel.name))
