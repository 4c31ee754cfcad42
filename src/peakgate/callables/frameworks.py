"""GPU frameworks: whether one raised an error, and which versions a run imported."""

from __future__ import annotations

import sys
from importlib import metadata
from types import TracebackType
from typing import Any

FRAMEWORKS = frozenset(
    {
        "cupy",
        "cupyx",
        "cupy_backends",
        "torch",
        "triton",
        "numba",
        "numba_cuda",
        "cuda",
        "jax",
        "jaxlib",
        "warp",
        "tilelang",
    }
)
"""Packages whose errors, on a machine without a GPU, mean that it is missing: the test is skipped."""


_PACKAGES = {
    "torch": ("torch", "torch"),
    "triton": ("triton", "triton"),
    "helion": ("helion", "helion"),
    "cutlass_dsl": ("cutlass", "nvidia-cutlass-dsl"),
    "cuda_tile": ("cuda.tile", "cuda-tile"),
    "tileiras": ("cuda.tile", "nvidia-cuda-tileiras"),
    "tilelang": ("tilelang", "tilelang"),
    "warp": ("warp", "warp-lang"),
    "jax": ("jax", "jax"),
    "numba_cuda": ("numba.cuda", "numba-cuda"),
}
"""Fields of ``machine_info.gpu``, each with a module and the package whose version decides what that compiles."""


def versions() -> dict[str, str]:
    """The versions of the packages that this process has imported and that generate kernels, and of Triton's ptxas."""
    found = {}
    for field, (module, package) in _PACKAGES.items():
        if module in sys.modules:
            try:
                found[field] = metadata.version(package)
            except metadata.PackageNotFoundError:  # from a folder, or part of another package
                continue
    try:
        triton: Any = sys.modules["triton"]
        found["ptxas"] = str(triton.knobs.nvidia.ptxas.version)
    except Exception:  # no Triton, one without this, or without a ptxas
        return found
    return found


def of_framework(error: Exception) -> bool:
    """Whether a GPU framework raised the error or could not be imported."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in FRAMEWORKS:
        return True
    if type(error).__module__.partition(".")[0] in FRAMEWORKS:
        return True
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in FRAMEWORKS
