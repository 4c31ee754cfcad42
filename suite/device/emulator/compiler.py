"""The C++ compiler that kernels are built with for the emulator: whichever of three is there."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache

from peakgate.common.errors import PeakgateError

MIN_GCC = 12
MIN_CLANG = 16
"""Older ones instrument vector accesses in a way that reads as a race."""
MIN_ZIG = (0, 14)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler: ``name`` is ``g++``, ``clang++`` or ``zig``, ``command`` compiles, ``linker`` links.

    ``linker`` takes the options of ``ld`` itself where ``name`` is ``zig``, those of a compiler driver otherwise.
    """

    name: str
    command: tuple[str, ...]
    linker: tuple[str, ...]
    version: str

    @property
    def is_gcc(self) -> bool:
        return self.name == "g++"

    @property
    def identity(self) -> str:
        """What a cached build depends on."""
        return f"{self.name} {self.version} {' '.join(self.command[1:])} {platform.machine()}"


def find_compiler() -> Compiler:
    """The first usable of g++ >= 12, clang++ >= 16 and the ``ziglang`` wheel >= 0.14.

    Raises PeakgateError if there is none; it names the versions that are there but too old.
    """
    return _find(os.environ.get("PATH", ""))


def available_compilers() -> tuple[Compiler, ...]:
    """Every usable compiler, the preferred one first."""
    found, _ = _search(os.environ.get("PATH", ""))
    return found


@lru_cache
def _find(path: str) -> Compiler:
    found, unusable = _search(path)
    if found:
        return found[0]
    seen = f" ({', '.join(unusable)})" if unusable else ""
    raise PeakgateError(
        f"no C++ compiler for the kernel emulator{seen}: expected g++ >= {MIN_GCC} or clang++ >= {MIN_CLANG} on PATH, "
        f"or the ziglang package >= {_dotted(MIN_ZIG)}; install one of the three, e.g. 'pip install ziglang'"
    )


@lru_cache
def _search(path: str) -> tuple[tuple[Compiler, ...], tuple[str, ...]]:
    """Usable compilers, and words about those that are not."""
    found: list[Compiler] = []
    unusable: list[str] = []
    for name in ("g++", "clang++"):
        executable = shutil.which(name, path=path)
        if executable is None:
            continue
        identified = _identify(executable)
        if identified is None:
            unusable.append(f"{executable} does not run")
            continue
        family, version = identified
        if int(version.split(".")[0]) < (MIN_GCC if family == "g++" else MIN_CLANG):
            unusable.append(f"{executable} is {family} {version}")
        elif all(compiler.name != family for compiler in found):
            found.append(Compiler(family, (executable,), (executable,), version))
    zig = _zig_version()
    if zig is not None:
        if tuple(int(part) for part in re.findall(r"\d+", zig)[:2]) < MIN_ZIG:
            unusable.append(f"ziglang is {zig}")
        else:
            found.append(_zig(zig))
    return tuple(found), tuple(unusable)


def _identify(executable: str) -> tuple[str, str] | None:
    """Family and version by the program's own word; a ``g++`` may well be clang under another name."""
    try:
        answer = subprocess.run(
            [executable, "--version"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    clang = re.search(r"clang version (\d+(?:\.\d+)*)", answer)
    if clang:
        return "clang++", clang.group(1)
    gcc = re.search(r"\) (\d+(?:\.\d+)+)", answer.splitlines()[0] if answer else "")
    return ("g++", gcc.group(1)) if gcc else None


def _zig_version() -> str | None:
    if importlib.util.find_spec("ziglang") is None:
        return None
    return importlib.metadata.version("ziglang")


def _zig(version: str) -> Compiler:
    # An explicit target makes zig use the C library headers it brings along; by default it looks for installed ones.
    # Linking goes straight to its lld: the driver would first build runtime libraries that nothing here needs.
    target = f"{platform.machine()}-linux-gnu"
    zig = (sys.executable, "-m", "ziglang")
    return Compiler("zig", (*zig, "c++", "-target", target), (*zig, "ld.lld"), version)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
