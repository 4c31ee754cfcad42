"""The runtime's C structures, as ctypes sees them: read from its headers, which say what the fields mean."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any


class Uint3(ctypes.Structure):
    """``uint3``."""

    _fields_ = (("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32))

    def triple(self) -> tuple[int, int, int]:
        """As Python has it."""
        return (self.x, self.y, self.z)


_HEADERS = "".join(
    Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("runtime_api.h", "runtime.h")
)
_TYPES: dict[str, Any] = {
    **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (32, 64)},
    **dict.fromkeys(("TexelKind", "AddressMode"), ctypes.c_int32),
    "char": ctypes.c_char,
    "uint3": Uint3,
}


def fields_of(structure: str) -> list[tuple[str, Any]]:
    """Names and types of a structure's fields, as its header declares them."""
    body = re.search(rf"^struct {structure} {{\n(.*?)^}};", _HEADERS, re.MULTILINE | re.DOTALL)
    assert body is not None, f"no structure {structure} in the headers of the runtime"
    fields: list[tuple[str, Any]] = []
    for declaration in re.sub(r"//[^\n]*", "", body[1]).split(";")[:-1]:
        if function := re.search(r"\(\*(\w+)\)", declaration):
            fields.append((function[1], ctypes.c_void_p))
            continue
        text = "const char*" in declaration
        kind, several = declaration.strip().removeprefix("const ").split(maxsplit=1)
        for name, count in re.findall(r"(\w+)(?:\[(\w+)\])?", several):
            of_one = _TYPES.get(kind) or (ctypes.c_char_p if text else ctypes.c_void_p)
            fields.append((name, of_one * _number(count) if count else of_one))
    return fields


def _number(written: str) -> int:
    """A number, or the value of one of the headers' constants."""
    known = re.search(rf"\b{written} = (\d+)", _HEADERS)
    return int(known[1] if known else written)


class Parameter(ctypes.Structure):
    """``PeakgateParameter``."""

    _fields_ = fields_of("PeakgateParameter")


class ReportStructure(ctypes.Structure):
    """``Report``."""

    _fields_ = fields_of("Report")


class BufferStructure(ctypes.Structure):
    """``Buffer``."""

    _fields_ = fields_of("Buffer")


class SlotStructure(ctypes.Structure):
    """``Slot``."""

    _fields_ = fields_of("Slot")


class TextureStructure(ctypes.Structure):
    """``Texture``."""

    _fields_ = fields_of("Texture")


class TensorMapStructure(ctypes.Structure):
    """``TensorMap``."""

    _fields_ = fields_of("TensorMap")


class VariableStructure(ctypes.Structure):
    """``Variable``."""

    _fields_ = fields_of("Variable")


class LaunchStructure(ctypes.Structure):
    """``Launch``."""

    _fields_ = fields_of("Launch")
