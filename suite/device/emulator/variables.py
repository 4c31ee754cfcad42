"""Sets the ``__constant__`` and ``__device__`` variables of a loaded kernel, which its symbol table lists."""

from __future__ import annotations

import ctypes
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from peakgate.common.errors import PeakgateError


class Variables:
    """Variables of a shared object; ``entry_address`` is where its ``peakgate_call`` is loaded."""

    def __init__(self, kernel: str, library: Path, entry_address: int) -> None:
        self._kernel = kernel
        self._library = library
        self._entry_address = entry_address

    def set(self, name: str, values: np.ndarray[Any, Any]) -> None:
        """Copy ``values`` to the variable, from its start. PeakgateError where there is none so large."""
        names = [name, *_mangled(name.split("::"))]
        found = next((self._symbols[known] for known in names if known in self._symbols), None)
        if found is None:
            raise PeakgateError(
                f"{self._kernel}: no variable {name!r}; expected a __constant__ or __device__ one that is not const"
            )
        offset, size = found
        if values.nbytes > size:
            raise PeakgateError(f"{self._kernel}: {values.nbytes} bytes given for variable {name}, which has {size}")
        contiguous = np.ascontiguousarray(values)
        loaded_at = self._entry_address - self._symbols["peakgate_call"][0]
        ctypes.memmove(loaded_at + offset, contiguous.ctypes.data, contiguous.nbytes)

    @cached_property
    def _symbols(self) -> dict[str, tuple[int, int]]:
        """Address and size of each function and each variable that can be written, by its name in the object file."""
        from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # few kernels have variables
        from elftools.elf.sections import SymbolTableSection  # noqa: PLC0415

        with self._library.open("rb") as file:
            elf = ELFFile(file)
            sections = list(elf.iter_sections())
            return {
                symbol.name: (symbol["st_value"], symbol["st_size"])
                for table in sections
                if isinstance(table, SymbolTableSection)
                for symbol in table.iter_symbols()
                if symbol["st_info"]["type"] in ("STT_OBJECT", "STT_FUNC")
                and isinstance(symbol["st_shndx"], int)
                and not sections[symbol["st_shndx"]].name.startswith(".rodata")
            }


def _mangled(parts: list[str]) -> list[str]:
    """How C++ names a variable that is static or in namespaces, or both."""
    spelled = [f"{len(part)}{part}" for part in parts]
    if len(parts) == 1:
        return [f"_ZL{spelled[0]}"]
    outer, last = "".join(spelled[:-1]), spelled[-1]
    return [f"_ZN{outer}{last}E", f"_ZN{outer}L{last}E"]
