"""NVIDIA's run-time compiler, called through NVIDIA's own bindings; works on a machine without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from cuda.bindings import nvrtc as bindings


class CompilationFailed(Exception):
    """NVRTC rejected a source; the message is its log."""


@cache
def version() -> str:
    """NVRTC's version, ``13.0``."""
    major, minor = _checked(bindings.nvrtcVersion())
    return f"{major}.{minor}"


def compile_to_cubin(source: str, name: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Compile CUDA C++ for a real architecture; give machine code and the compiler's log."""
    program = _checked(bindings.nvrtcCreateProgram(source.encode(), name.encode(), 0, None, None))
    try:
        (status,) = bindings.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _text(program, bindings.nvrtcGetProgramLogSize, bindings.nvrtcGetProgramLog).decode(errors="replace")
        if status != bindings.nvrtcResult.NVRTC_SUCCESS:
            raise CompilationFailed(log or status.name)
        return _text(program, bindings.nvrtcGetCUBINSize, bindings.nvrtcGetCUBIN), log
    finally:
        bindings.nvrtcDestroyProgram(program)


def _text(program: Any, size_of: Any, fetch: Any) -> bytes:
    size = _checked(size_of(program))
    buffer = bytes(size)  # filled in place by the binding
    _checked(fetch(program, buffer))
    return buffer.rstrip(b"\0") if fetch is bindings.nvrtcGetProgramLog else buffer


def _checked(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if status != bindings.nvrtcResult.NVRTC_SUCCESS:
        raise CompilationFailed(f"NVRTC: {status.name}")
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)
