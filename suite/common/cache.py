"""Where all that can be made again is kept."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "PEAKGATE_CACHE"
CUPY_VARIABLE = "CUPY_CACHE_DIR"


def cache_folder() -> Path:
    """Cubins, what CuPy compiles, the emulator's builds.

    ``$PEAKGATE_CACHE``, else ``.cache`` in the working directory, where ``.benchmarks`` is too; absolute.
    """
    return Path(os.environ.get(CACHE_VARIABLE) or ".cache").resolve()


def cupy_cache() -> Path:
    """Where CuPy keeps what it compiles: in our folder, which CI keeps, unless ``$CUPY_CACHE_DIR`` names another."""
    return Path(os.environ.get(CUPY_VARIABLE) or cache_folder() / "cupy")
