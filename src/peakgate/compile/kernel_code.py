"""Digests of the machine code of single kernels, by which runs notice that a kernel's code has changed."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

# Sections of a kernel: their names end with its name. The constant bank 0, of its arguments, is that of kernels alone.
_OF_KERNEL = re.compile(r"\.(?:text|nv\.constant\d+|nv\.shared|rela?\.text|rela?\.nv\.constant\d+)\.(?P<kernel>.+)")
_ARGUMENTS = ".nv.constant0."

# The hash in the name of an internal symbol is one of the source's path and text.
_INTERNAL = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}(?=_)")

_ALLOCATED = 0x2
"""The flag SHF_ALLOC: instructions and data, not what tools read, such as line tables and PTX."""

DIGEST_DIGITS = 16


def stable_name(kernel: str) -> str:
    """A kernel's name without the hash of its source file that a name of internal linkage has."""
    return _INTERNAL.sub(r"\g<1>00000000", kernel)


@lru_cache(maxsize=512)
def kernel_code(machine_code: bytes, kernels: frozenset[str]) -> dict[str, str]:
    """The digests of those of ``kernels`` that a cubin has, by name.

    A digest covers the kernel's instructions, its constants and the size of its shared memory, with the symbols that
    they refer to, and the data and device functions that all kernels of the cubin share. Paths, dates, line tables and
    the other kernels are left out.
    """
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  (only a GPU run has use for it)

    elf = ELFFile(io.BytesIO(machine_code))
    sections = [each for each in elf.iter_sections() if each.name]
    of_file = {each.name.removeprefix(_ARGUMENTS) for each in sections if each.name.startswith(_ARGUMENTS)}
    own: dict[str, list[bytes]] = {name: [] for name in kernels & of_file}
    shared: list[bytes] = []
    for section in sections:
        found = _OF_KERNEL.fullmatch(section.name)
        kernel = found["kernel"] if found and found["kernel"] in of_file else None
        if kernel is None or kernel in own:
            part = own[kernel] if kernel else shared
            part += (b"\0".join(each) for each in [_described(elf, section)] if each)
    return {
        name: hashlib.sha256(b"\0\0".join([*sorted(parts), *sorted(shared)])).hexdigest()[:DIGEST_DIGITS]
        for name, parts in own.items()
    }


def _described(elf: Any, section: Any) -> Collection[bytes]:
    """What a section adds to a digest: its name, and its contents or their size; nothing if it is not loaded."""
    name = stable_name(section.name).encode()
    if section["sh_type"] in ("SHT_RELA", "SHT_REL"):
        if not elf.get_section(section["sh_info"])["sh_flags"] & _ALLOCATED:
            return ()
        places, symbols = [], elf.get_section(section["sh_link"])
        for entry in section.iter_relocations():  # the places that the loader fills in, each with its value's symbol
            symbol = symbols.get_symbol(entry["r_info_sym"])
            of = stable_name(symbol.name or elf.get_section(symbol["st_shndx"]).name)
            addend = entry["r_addend"] if entry.is_RELA() else 0
            places.append(f"{entry['r_offset']} {entry['r_info_type']} {addend} {of}".encode())
        return [name, *places]
    if not section["sh_flags"] & _ALLOCATED:
        return ()
    if section["sh_type"] == "SHT_NOBITS":
        return [name, str(section["sh_size"]).encode()]
    return [name, section.data()]
