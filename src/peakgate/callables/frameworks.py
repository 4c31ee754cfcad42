"""GPU frameworks: whether an error is that one found no GPU, and which versions a run imported."""

from __future__ import annotations

import re
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
"""Packages whose errors that speak of a GPU mean, on a machine without one, that it is missing."""

_OF_GPU = re.compile("cuda|gpu|driver|nvidia", re.IGNORECASE)

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


def lacks_gpu(error: Exception) -> bool:
    """Whether a GPU framework could not be imported, or raised the error and its first line is about a GPU.

    For machines without one: there a framework also raises for shapes that do not fit, and its ``assert_close`` for a
    wrong result, which no GPU would change.
    """
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in FRAMEWORKS:
        return True
    if not _OF_GPU.search(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"):
        return False
    if type(error).__module__.partition(".")[0] in FRAMEWORKS:
        return True
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in FRAMEWORKS
