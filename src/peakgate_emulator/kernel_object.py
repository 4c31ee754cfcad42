"""What the object file of a kernel shows of it: functions that nothing defines, and its shared memory."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from peakgate_emulator.binary import RESERVED_SHARED, Symbol, plain_name, symbols_of
from peakgate_emulator.compiler import DEFINED_NOWHERE
from peakgate_emulator.masking import code_of
from peakgate_emulator.sources import SourceFile, kernels

MAX_STATIC_SHARED = 48 * 1024
"""CUDA's limit of static shared memory per kernel, in bytes."""
_OF_THE_COMPILER = re.compile(r"_(?!Z)|_ZT|_ZG|_Zn|_Zd|peakgate_")
"""How the names of symbols begin that no source of a kernel defines."""


def refused_object(kernel_object: Path, files: Sequence[SourceFile], name: str, kernel: str) -> str:
    """Why a kernel cannot be linked or launched, as a compiler writes it; empty if it can.

    A function that it calls is defined nowhere, or it has more static shared memory than CUDA allows. ``name`` is that
    of its function, ``kernel`` that of its instance.
    """
    symbols_of.cache_clear()  # an earlier attempt had an object file of the same name
    symbols = symbols_of(kernel_object)
    if calls := _calls_of_nothing(symbols, files):
        return calls
    static = _static_shared(symbols, files, name)
    if static <= MAX_STATIC_SHARED:
        return ""
    return (
        f"kernel {kernel} has {static} bytes of static shared memory, CUDA allows {MAX_STATIC_SHARED}; declare it "
        "'extern __shared__' and give the size at launch"
    )


def dynamic_shared_arrays(kernel_object: Path) -> list[str]:
    """The ``extern __shared__`` arrays of an object file, which are its undefined thread-local symbols."""
    return [each.name for each in symbols_of(kernel_object) if each.kind == "STT_TLS" and not each.section]


def dynamic_shared_source(names: Collection[str], header: Path) -> str:
    """Source that puts every dynamic shared array at one address, as on a GPU; ``header`` is the runtime's."""
    aliases = "".join(
        f'extern thread_local char {name}[PEAKGATE_MAX_DYNAMIC_SHARED] __attribute__((alias("peakgate_dynamic")));\n'
        for name in names
    )
    return (
        f'#include "{header}"\n'
        'extern "C" {\n'
        # First in the segment: see PEAKGATE_RESERVED_SHARED.
        'asm(".section .tdata, \\"awT\\", %progbits\\n.balign 262144\\n'
        f'.zero {RESERVED_SHARED}\\n.previous");\n'
        "alignas(1024) thread_local char peakgate_dynamic[PEAKGATE_MAX_DYNAMIC_SHARED];\n"
        f"{aliases}}}\n"
        "PEAKGATE_API char* peakgate_dynamic_shared() { return peakgate_dynamic; }\n"
    )


def _calls_of_nothing(symbols: Sequence[Symbol], files: Sequence[SourceFile]) -> str:
    """Errors at the calls of functions that no file and no library of C defines."""
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    of_c = ctypes.CDLL(None)
    undefined = [each.name for each in symbols if each.name and not each.section and each.kind != "STT_TLS"]
    names = {
        plain_name(name).rpartition("::")[2]
        for name in undefined
        if not _OF_THE_COMPILER.match(name) and not hasattr(of_c, name)
    }
    calls = re.compile(rf"\b({'|'.join(map(re.escape, names))})\s*(?:<[^;{{}}()]*>\s*)?\(")
    return "".join(
        f"{file.path.name}:{code.count(chr(10), 0, match.start()) + 1}: error: `{match[1]}`: {DEFINED_NOWHERE}\n"
        for file in files
        for code in [code_of(file.text)]
        for match in (calls.finditer(code) if names else ())
    )


def _static_shared(symbols: Sequence[Symbol], files: Sequence[SourceFile], name: str) -> int:
    """The bytes of a kernel's static shared variables.

    Those of other kernels do not count. Those of device functions do, since the callers are not known.
    """
    known = {each.partition("<")[0] for file in files for each in kernels(file.text)}
    others = [f"{len(other)}{other}" for other in known - {name}]
    return sum(
        symbol.size
        for symbol in symbols
        if symbol.kind == "STT_TLS"
        and symbol.section
        and not symbol.name.startswith("_ZGV")
        and not (symbol.name.startswith("_ZZ") and any(other in symbol.name for other in others))
    )
