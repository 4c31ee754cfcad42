"""The C structures of the runtime for ctypes, and the contents of object files and shared objects.

The structures are parsed from the runtime's headers, which document their fields. Object files provide symbols, the
source lines of code addresses, and a kernel's variables. A gap follows each ``__device__``, ``__constant__`` and static
``__shared__`` variable, so that an access beyond its end is detected.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator, Set
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from peakgate_emulator.files import write_whole

OWN_HEADERS = frozenset(path.name for path in Path(__file__).parent.glob("cuda_*.h"))

GAP_BYTES = 256
"""Gap after each variable; an access further beyond counts as one of the next variable."""

_WRITABLE = (".data", ".bss")

_SHARED = ".tbss."
_GUARD = ".tbss._ZGV"

_SIZE_AT, _SIZE = 32, struct.Struct("<Q")  # offset and format of a section's size in its header

_OFFSET_AT, _ALIGNMENT_AT = 24, 48

_LARGEST_VECTOR = 16


class Uint3(ctypes.Structure):
    """``uint3``."""

    _fields_ = (("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32))

    def triple(self) -> tuple[int, int, int]:
        """As a tuple."""
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
    """Names and types of a structure's fields, in the header's order."""
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
    """The value of a literal, or of one of the headers' constants."""
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


RESERVED_SHARED = 1024
"""Bytes of shared memory before those of the kernel: ``PEAKGATE_RESERVED_SHARED``."""


class Symbol(NamedTuple):
    """One symbol: ``kind`` is ELF's, such as ``STT_TLS``; ``section`` is empty if the file does not define it.

    The address of a variable in shared memory is its offset there, in a shared object.
    """

    name: str
    kind: str
    address: int
    size: int
    section: str


def guards_of(library: Path) -> tuple[int, ...]:
    """Offsets in shared memory of the guard variables that g++ adds for ``__shared__`` objects with a constructor."""
    if b"_ZGV" not in library.read_bytes():  # reading the symbols takes longer
        return ()
    return tuple(
        symbol.address for symbol in symbols_of(library) if symbol.kind == "STT_TLS" and symbol.name.startswith("_ZGV")
    )


@lru_cache(maxsize=8)
def symbols_of(file: Path) -> tuple[Symbol, ...]:
    """The symbols of all tables; cached, since every build has its own file name."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # most cached kernels do not need elftools
    from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415

    with file.open("rb") as stream:
        elf = ELFFile(stream)
        sections, before = list(elf.iter_sections()), RESERVED_SHARED * (elf["e_type"] == "ET_DYN")
        return tuple(
            Symbol(
                symbol.name,
                symbol["st_info"]["type"],
                symbol["st_value"] - before * (symbol["st_info"]["type"] == "STT_TLS"),
                symbol["st_size"],
                sections[symbol["st_shndx"]].name if isinstance(symbol["st_shndx"], int) else "",
            )
            for table in sections
            if isinstance(table, SymbolTableSection)
            for symbol in table.iter_symbols()
        )


def lines_of(library: Path, return_addresses: Set[int]) -> dict[int, str]:
    """``file.cu:12`` by address, without unknown ones and 0; each is a return address relative to the image."""
    wanted = {address for address in return_addresses if address}
    if not wanted:
        return {}
    found: dict[int, str] = {}
    for unit in _debugging(library).iter_CUs():
        for start, end, line in _ranges(unit):
            # The call itself lies before the address it returns to.
            found.update({address: line for address in wanted if start < address <= end})
    return found


def callers_of(library: Path, return_addresses: Set[int]) -> dict[int, str]:
    """``file.cu:41`` by return address: where the kernel calls the inlined function that the address belongs to.

    Without addresses in code of the kernel itself, or of functions that are not inlined.
    """
    left, found = {address for address in return_addresses if address}, dict[int, str]()
    if not left:
        return {}
    for unit in _debugging(library).iter_CUs():
        program = unit.dwarfinfo.line_program_for_CU(unit)
        if program is None:
            continue
        for entry in unit.iter_DIEs():  # a function comes before those that are inlined into it
            if entry.tag != "DW_TAG_inlined_subroutine" or "DW_AT_call_line" not in entry.attributes:
                continue
            inside = {at for at in left if any(start < at <= end for start, end in _code_of(entry))}
            if not inside:
                continue
            name = _file_name(program, entry.attributes["DW_AT_call_file"].value)
            if name not in OWN_HEADERS:
                found |= dict.fromkeys(inside, f"{name}:{entry.attributes['DW_AT_call_line'].value}")
                left -= inside
    return found


@lru_cache(maxsize=4)
def _debugging(library: Path) -> Any:
    """A shared object's debugging information, as elftools parses it; cached, since several launches may need it."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # as above

    with library.open("rb") as file:  # sections are copied; in a shared object, none is left to be relocated
        return ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)


def _file_name(program: Any, number: int) -> str:
    """The name of a file of a line program: version 5 counts them from 0, those before it from 1."""
    first = 0 if program["version"] >= 5 else 1
    return PurePath(program["file_entry"][number - first].name.decode(errors="replace")).name


def _code_of(entry: Any) -> Iterator[tuple[int, int]]:
    """Start and end of each range of code of a debugging entry."""
    given = entry.attributes
    if "DW_AT_high_pc" in given:
        start, high = given["DW_AT_low_pc"].value, given["DW_AT_high_pc"]
        yield start, high.value if high.form == "DW_FORM_addr" else start + high.value
    elif "DW_AT_ranges" in given:
        base = entry.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
        offset = base.value if base else 0
        for each in entry.dwarfinfo.range_lists().get_range_list_at_offset(given["DW_AT_ranges"].value, entry.cu):
            if hasattr(each, "base_address"):
                offset = each.base_address
            else:
                start = 0 if each.is_absolute else offset
                yield start + each.begin_offset, start + each.end_offset


def _ranges(unit: Any) -> Iterator[tuple[int, int, str]]:
    """Start, end and ``file:line`` of each range of code of one line."""
    program = unit.dwarfinfo.line_program_for_CU(unit)
    if program is None:
        return
    before = None
    place = users = ""
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if before is not None and before.address < state.address:
            # Code that clang cannot assign to a line has line 0: it gets the file and line of the preceding code.
            if before.line or not place:
                name = _file_name(program, before.file)
                place = f"{name}:{before.line}"
                if name not in OWN_HEADERS:
                    users = place
            # Code of the emulator's own headers gets the kernel's line that precedes it.
            yield before.address, state.address, users or place
        before, place, users = (None, "", "") if state.end_sequence else (state, place, users)


def spread(built: Path) -> bool:
    """Add a gap after each variable of an object file that has a section for each; returns whether any is not shared.

    The guards that g++ puts between shared arrays of half and similar types are enlarged to the size of the largest
    vector, so that they do not misalign an array that is read by vectors.
    """
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # cached kernels do not need elftools

    with built.open("rb") as stream:
        file = ELFFile(stream)
        headers = file["e_shoff"], file["e_shentsize"]
        numbered = list(enumerate(file.iter_sections()))
        guards = [number for number, section in numbered if section.name.startswith(_GUARD)]
        shared = {
            number: section["sh_size"]
            for number, section in numbered
            if section.name.startswith(_SHARED) and not section.name.startswith(_GUARD)
        }
        sections = [
            (
                number,
                section["sh_type"],
                section["sh_size"],
                section.data() if section["sh_type"] != "SHT_NOBITS" else b"",
            )
            for number, section in numbered
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
    for number, size in shared.items():
        _SIZE.pack_into(content, headers[0] + number * headers[1] + _SIZE_AT, size + GAP_BYTES)
    for number in guards:
        header = headers[0] + number * headers[1]
        _SIZE.pack_into(content, header + _SIZE_AT, _LARGEST_VECTOR)
        _SIZE.pack_into(content, header + _ALIGNMENT_AT, _LARGEST_VECTOR)
    if sections or guards or shared:
        built.write_bytes(content)
    return bool(sections)


def variables_of(library: Path) -> ctypes.Array[VariableStructure]:
    """The variables of a kernel's shared object, in the order of their addresses."""
    found = sorted(
        {
            (symbol.address, symbol.size, plain_name(symbol.name))
            for symbol in symbols_of(library)
            if symbol.kind == "STT_OBJECT" and symbol.section in _WRITABLE and symbol.size
        }
    )
    return (VariableStructure * len(found))(*(VariableStructure(at, size, name.encode()) for at, size, name in found))


def shared_arrays_of(library: Path) -> ctypes.Array[VariableStructure]:
    """The static ``__shared__`` variables, in the order of their offsets; kept beside the shared object."""
    kept = library.with_suffix(".shared")
    if not kept.exists():
        found = sorted(
            {
                (symbol.address, symbol.size, plain_name(symbol.name))
                for symbol in symbols_of(library)
                if symbol.kind == "STT_TLS" and symbol.size
            }
        )
        write_whole(kept, "".join(f"{at} {size} {name}\n" for at, size, name in found))
    rows = [line.split() for line in kept.read_text(encoding="utf-8").splitlines()]
    arrays = (VariableStructure(int(at), int(size), name.encode()) for at, size, name in rows)
    return (VariableStructure * len(rows))(*arrays)


def _is_variable(section: str) -> bool:
    own = tuple(f"{each}." for each in _WRITABLE)
    # The descriptors of the compiler's sanitizers are named by local labels.
    return section.startswith(own) and not section.startswith(".data.rel.ro") and "..L" not in section


def plain_name(name: str) -> str:
    """Demangled name of a variable: static, in namespaces or in functions (``_ZZ9transposeE4tile``)."""
    if local := re.search(r"^_ZZ.*E(\d+)(\w+)$", name):
        return local[2][: int(local[1])]
    if not name.startswith("_Z"):
        return name
    parts, left = [], name.lstrip("_ZNL")
    while count := re.match(r"L?(\d+)", left):
        end = count.end() + int(count[1])
        parts.append(left[count.end() : end])
        left = left[end:]
    return "::".join(parts) or name
