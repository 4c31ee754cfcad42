"""A kernel's ``__device__`` and ``__constant__`` variables: a gap behind each, so that leaving one shows."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path

from peakgate.emulator.structures import VariableStructure
from peakgate.emulator.symbols import symbols_of

GAP_BYTES = 256
"""Behind each variable: an access that is farther off is taken for one of the next variable."""

_WRITABLE = (".data", ".bss")
_GUARD = ".tbss._ZGV"
_SIZE_AT, _SIZE = 32, struct.Struct("<Q")  # of a section, in its header
_OFFSET_AT, _ALIGNMENT_AT = 24, 48
_LARGEST_VECTOR = 16


def spread(built: Path) -> bool:
    """Put a gap behind each variable of an object file, which has a section for each; whether there are any.

    The guards that g++ puts between shared arrays of half and the like become as long as the largest vector, so that
    they move no array from where it could be read by vectors.
    """
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # kernels from the cache do without elftools

    with built.open("rb") as stream:
        file = ELFFile(stream)
        headers = file["e_shoff"], file["e_shentsize"]
        guards = [number for number, section in enumerate(file.iter_sections()) if section.name.startswith(_GUARD)]
        sections = [
            (
                number,
                section["sh_type"],
                section["sh_size"],
                section.data() if section["sh_type"] != "SHT_NOBITS" else b"",
            )
            for number, section in enumerate(file.iter_sections())
            if _is_variable(section.name) and section["sh_size"]
        ]
    content = bytearray(built.read_bytes())
    for number, kind, size, data in sections:
        header = headers[0] + number * headers[1]
        if kind != "SHT_NOBITS":
            content += bytes(-len(content) % GAP_BYTES)
            _SIZE.pack_into(content, header + _OFFSET_AT, len(content))
            content += data + bytes(GAP_BYTES)
        _SIZE.pack_into(content, header + _SIZE_AT, size + GAP_BYTES)
    for number in guards:
        header = headers[0] + number * headers[1]
        _SIZE.pack_into(content, header + _SIZE_AT, _LARGEST_VECTOR)
        _SIZE.pack_into(content, header + _ALIGNMENT_AT, _LARGEST_VECTOR)
    if sections or guards:
        built.write_bytes(content)
    return bool(sections)


def variables_of(library: Path) -> ctypes.Array[VariableStructure]:
    """The variables of a kernel's shared object, in the order of their addresses."""
    found = sorted(
        {
            (symbol.address, symbol.size, _plain(symbol.name))
            for symbol in symbols_of(library)
            if symbol.kind == "STT_OBJECT" and symbol.section in _WRITABLE and symbol.size
        }
    )
    return (VariableStructure * len(found))(*(VariableStructure(at, size, name.encode()) for at, size, name in found))


def _is_variable(section: str) -> bool:
    own = tuple(f"{each}." for each in _WRITABLE)
    # What the compiler's checks describe themselves by has local labels for names.
    return section.startswith(own) and not section.startswith(".data.rel.ro") and "..L" not in section


def _plain(name: str) -> str:
    """Demangled name of a variable; static ones and those of namespaces have one."""
    if not name.startswith("_Z"):
        return name
    parts, left = [], name.lstrip("_ZNL")
    while count := re.match(r"L?(\d+)", left):
        end = count.end() + int(count[1])
        parts.append(left[count.end() : end])
        left = left[end:]
    return "::".join(parts) or name
