"""NVIDIA's run-time compiler, called through NVIDIA's own bindings; works on a machine without a GPU."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from cuda.bindings import nvrtc as bindings

_ENTRY = re.compile(r"\.entry\s+(?P<kernel>[\w$]+)\s*(?:\([^)]*\))?(?P<directives>[^{]*)\{")
_BOUND = re.compile(r"\.(?:maxntid|reqntid)\s+(\d+(?:\s*,\s*\d+)*)")


class CompilationFailed(Exception):
    """NVRTC rejected a source; the message is its log."""


@cache
def version() -> str:
    """NVRTC's version, ``13.0``."""
    major, minor = _checked(bindings.nvrtcVersion())
    return f"{major}.{minor}"


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code, the compiler's log, and each name that was asked for as the machine code has it.

    ``bounds`` are the most threads per block that a kernel's ``__launch_bounds__`` allow, by its name there; kernels
    without are left out.
    """

    machine_code: bytes
    log: str
    lowered: dict[str, str]
    bounds: dict[str, int]


def compile_to_cubin(
    source: str, name: str, options: Sequence[str], headers: Mapping[str, str], names: Sequence[str]
) -> Compiled:
    """Compile CUDA C++ for a real architecture.

    ``headers`` are texts that an include of that name means; ``names`` are C++ expressions (``softmax<float, 256>``,
    ``&coefficients``) that name kernels and variables, which are instantiated and whose lowered names are given.
    """
    spelled = [header.encode() for header in headers]
    texts = [text.encode() for text in headers.values()]
    program = _checked(
        bindings.nvrtcCreateProgram(source.encode(), name.encode(), len(texts), texts or None, spelled or None)
    )
    try:
        for expression in names:
            _checked(bindings.nvrtcAddNameExpression(program, expression.encode()))
        (status,) = bindings.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _text(program, bindings.nvrtcGetProgramLogSize, bindings.nvrtcGetProgramLog).decode(errors="replace")
        if status != bindings.nvrtcResult.NVRTC_SUCCESS:
            raise CompilationFailed(log or status.name)
        lowered = {
            expression: _checked(bindings.nvrtcGetLoweredName(program, expression.encode())).decode()
            for expression in names
        }
        ptx = _text(program, bindings.nvrtcGetPTXSize, bindings.nvrtcGetPTX).decode(errors="replace")
        return Compiled(_text(program, bindings.nvrtcGetCUBINSize, bindings.nvrtcGetCUBIN), log, lowered, _bounds(ptx))
    finally:
        bindings.nvrtcDestroyProgram(program)


def _bounds(ptx: str) -> dict[str, int]:
    """The product of each kernel's ``.maxntid`` or ``.reqntid``."""
    bounds = {}
    for entry in _ENTRY.finditer(ptx):
        if directive := _BOUND.search(entry["directives"]):
            bounds[entry["kernel"]] = math.prod(map(int, directive[1].split(",")))
    return bounds


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
