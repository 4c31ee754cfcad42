"""Whether an error was raised by a GPU framework."""

from __future__ import annotations

from types import TracebackType

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
