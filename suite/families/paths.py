"""Where the families' kernels are."""

from __future__ import annotations

from pathlib import Path

KERNELS = Path(__file__).parents[2] / "kernels"
