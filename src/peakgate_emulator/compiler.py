"""The C++ compiler that builds kernels for the emulator: how it is found and called, and its error messages."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from peakgate_emulator import bounded
from peakgate_emulator.device_code import remedy
from peakgate_emulator.errors import KernelBuildError, NoCompiler
from peakgate_emulator.files import cache_folder
from peakgate_emulator.headers import FURTHER_WHEELS, INSTALL, NVIDIA_HEADER
from peakgate_emulator.sources import SourceFile, missing_header, no_such_kernel

MIN_GCC = 12
MIN_CLANG = 16
"""Older versions instrument vector accesses so that they look like a race."""
MIN_ZIG = (0, 14)

COMMON = (
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-U_FORTIFY_SOURCE",
    "-fno-stack-protector",
)
_KERNEL = (
    *COMMON,
    "-w",  # no warnings about code that a CUDA compiler accepts
    "-g1",
    "-gdwarf-4",
    "-fdata-sections",  # binary.py adds a gap after each
    "-fno-strict-aliasing",  # kernels reinterpret float* as float4*
    "-fwrapv",
    "-fno-finite-loops",  # endless loops are to be reported, not optimised away
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-optimize-sibling-calls",  # return addresses must be in the caller
    "-ftrivial-auto-var-init=pattern",  # what a thread has not initialised changes its result
)
# The launch may continue after a misaligned access to a thread's own memory (checks.cpp).
_CHECKED = ("-O1", "-fsanitize=thread", "-fno-sanitize-recover=all", "-fsanitize-recover=alignment")
_CHECKED_GCC = (
    "-fsanitize=bounds,alignment,return,float-cast-overflow",
    "-fsanitize-recover=float-cast-overflow",  # casts.cpp
    *("-fno-tree-dse", "-fno-tree-dce", "-fno-tree-sink"),  # these delete stores, and loads whose values are not used
    "--param",
    "tsan-instrument-func-entry-exit=0",
    "--param",
    "tsan-distinguish-volatile=1",
)
# Vectorized accesses wider than 16 bytes would go unchecked.
_CHECKED_CLANG = (
    "-fsanitize=array-bounds,alignment,return",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
    "-mllvm",
    "-tsan-distinguish-volatile=1",
)
# Unique symbols would merge variables of kernels with one name; a wrapper around every access to shared memory would be
# slow. Tracking variables takes up to a quarter of the time even at -g1, which does not use it. Local arrays that are
# larger than a stack and its guard of 2^16 bytes must touch the guard, not what is behind it.
_GCC = (
    *("-fno-gnu-unique", "-fno-extern-tls-init", "-fno-var-tracking"),
    *("-fstack-clash-protection", "--param", "stack-clash-protection-guard-size=16"),
)

_HOT = {"checks.cpp", "warp.cpp", "matrix_products.cpp"}
"""Sources of the runtime that are optimised most; for the others it takes longer than it saves."""

_NOT_EMULATED = {
    r"\basm\b(?!.* was not declared)": "this inline PTX",
    r"\btex[123]D\w*\b|cudaTextureObject_t|\btexture\s*<|cudaSurfaceObject_t": "texture memory",
    r"\bcuda(?:/|::)annotated_ptr": "this part of libcu++",
    r"\bcub/|\bcub::": "this part of CUB",
    r"\bthrust/|\bthrust::": "Thrust",
    r"'__(?:cluster|threadfence_cluster|is[A-Z]|nv_|u128|pm\d|uni_sync)\w*' was not declared": "this function of CUDA",
}

DEFINED_NOWHERE = (
    "declared and used, but defined in none of the files that the kernel's file includes; define it in a header that "
    "the stage's `include` has"
)
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:|(?:protected |hidden )?symbol) [`']?(\w+(?:::\w+)*)")
"""A variable that is declared and not defined, by the linkers of g++, clang and zig."""

_CUDA_HEADER = re.compile(
    r"(?!cuda\w*\.cuh$)(?:cuda/|cuda_|cuda\w*\.|cooperative_groups|cub/|thrust/|nv/|mma|crt/|curand)[\w/.]*"
)
"""A missing header of CUDA that has no stand-in; installing CUDA's would not help."""

NEEDS_TWIN = " is not emulated: give it a twin under `#ifdef PEAKGATE_EMULATED`"
"""End of the message about a feature that is not emulated."""


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
        """Part of a build's cache key."""
        return f"{self.name} {self.version} {' '.join(self.command[1:])} {platform.machine()}"


def find_compiler() -> Compiler:
    """The first usable of g++ >= 12, clang++ >= 16 and the ``ziglang`` wheel >= 0.14.

    Raises NoCompiler if there is none; the message lists installed versions that are too old.
    """
    found, unusable = _search(os.environ.get("PATH", ""))
    if found:
        return found[0]
    seen = f" ({', '.join(unusable)})" if unusable else ""
    raise NoCompiler(
        f"no C++ compiler for the kernel emulator{seen}: expected g++ >= {MIN_GCC} or clang++ >= {MIN_CLANG} on PATH, "
        f"or the ziglang package >= {'.'.join(map(str, MIN_ZIG))}; install one of them: pip install ziglang"
    )


def available_compilers() -> tuple[Compiler, ...]:
    """All usable compilers, the preferred one first."""
    return _search(os.environ.get("PATH", ""))[0]


@lru_cache
def _search(path: str) -> tuple[tuple[Compiler, ...], tuple[str, ...]]:
    """Usable compilers, and descriptions of unusable ones."""
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
    """Family and version by ``--version``, since a ``g++`` may be clang."""
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
    """The version of the ziglang package; None if it is not installed."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    return importlib.metadata.version("ziglang")


def _zig(version: str) -> Compiler:
    # With an explicit target zig uses its own C library headers; by default it looks for installed ones. Linking calls
    # its lld directly: the driver would first build runtime libraries that are not needed.
    target = f"{platform.machine()}-linux-gnu"
    zig = (sys.executable, "-P", "-m", "ziglang")
    return Compiler("zig", (*zig, "c++", "-target", target), (*zig, "ld.lld"), version)


def builds_folder() -> Path:
    """Cache folder of the emulator's builds."""
    return cache_folder() / "emulator"


def runtime_flags(compiler: Compiler, names: Sequence[str]) -> tuple[str, ...]:
    """Flags for sources of the runtime, which are compiled together and not instrumented."""
    own = () if compiler.is_gcc else ("-fno-sanitize=all",)  # zig enables some by default
    return (*COMMON, "-O1" if _HOT.isdisjoint(names) else "-O2", "-ffp-contract=fast", *own)


def kernel_flags(compiler: Compiler) -> tuple[str, ...]:
    """Flags for a kernel, whose memory accesses are instrumented."""
    own = (*_GCC, *_CHECKED, *_CHECKED_GCC) if compiler.is_gcc else (*_CHECKED, *_CHECKED_CLANG)
    return (*_KERNEL, *own)


def link(
    objects: Iterable[Path], library: Path, scratch: Path, compiler: Compiler, *, with_libraries: bool = True
) -> None:
    """Link in ``scratch`` and move the result to ``library`` atomically; it finds the runtime in its own folder.

    Reading C's libraries takes two thirds of the time: ``with_libraries`` only for objects that call them.
    """
    # The runtime is called through the kernel's image, even if the kernel itself does not use it.
    options: tuple[str, ...] = ("--no-as-needed", "-Bsymbolic-functions", "-soname", library.name, "-rpath", "$ORIGIN")
    if compiler.name != "zig":
        options = (*(f"-Wl,{option}" for option in options), "-nodefaultlibs")
    linked = scratch / "linked.so"
    libraries = ("-lm", "-lc") if with_libraries and compiler.name != "zig" else ()
    command = (*compiler.linker, "-shared", "-o", linked, *options, *objects, *libraries)
    done = run(command)
    if elsewhere := dict.fromkeys(_UNDEFINED.findall(done.stderr)):
        names = ", ".join(f"`{name}`" for name in elsewhere)
        raise KernelBuildError(f"{names}: {DEFINED_NOWHERE}")
    _must_end_well(done, command)
    linked.replace(library)


def run(
    command: Iterable[str | Path], limit_s: float = bounded.PROCESSOR_LIMIT_S, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler in a folder with a limit of processor time; the caller checks the exit code."""
    zig = str(builds_folder() / "zig")
    environment = {"ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig, **os.environ, "LC_ALL": "C"}
    return bounded.run([str(part) for part in command], environment, limit_s, folder)


def must_run(command: Iterable[str | Path]) -> None:
    """As ``run``, for the emulator's own sources; raises KernelBuildError if they do not compile."""
    arguments = tuple(command)
    _must_end_well(run(arguments), arguments)


def _must_end_well(done: subprocess.CompletedProcess[str], command: Sequence[str | Path]) -> None:
    if done.returncode:
        words = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()
        raise KernelBuildError(f"the emulator itself does not build with {command[0]}: {words[0]}")


def failed(
    done: subprocess.CompletedProcess[str],
    files: Sequence[SourceFile],
    kernel: str,
    wrapper: Path,
    *,
    limit_s: float,
    missing: Sequence[str] = (),
) -> KernelBuildError:
    """The error for a kernel that did not compile: an exceeded limit, or else the compiler's first error.

    ``missing`` are all headers that are not found.
    """
    if bounded.exceeded(done):
        return KernelBuildError(f"{files[0].path.name}: {bounded.why(limit_s)}")
    message = first_error(done.stderr, files, kernel, wrapper, missing)
    first = missing_header(done.stderr)
    not_found = dict.fromkeys([*([first] if first else []), *missing])
    with_errors = dict.fromkeys(Path(name).name for name, _ in places_of_errors(done))
    return KernelBuildError(message, undeclared(done.stderr), tuple(not_found), tuple(with_errors))


def places_of_errors(done: subprocess.CompletedProcess[str]) -> list[tuple[str, int]]:
    """The file and the line of each of a compiler's errors, also those of macros with an error in their bodies."""
    what = "(?:fatal )?error: |note: (?:in expansion of|expanded from) macro"
    found = re.findall(rf"^([^:\n]+):(\d+):(?:\d+:)? (?:{what})", done.stderr, re.MULTILINE)
    return [(name, int(line)) for name, line in found]


_ON_A_NAME = re.compile(
    r" error: (?P<before>there are no arguments to |use of undeclared identifier |unknown type name |"
    r"no (?:member |type |template )?named )?'(?P<name>[A-Za-z_]\w*)(?:<[^']*>)?'(?P<behind>.*)"
)
_NO_DECLARATION = re.compile(
    r" (?:was not declared|has not been declared|does not name a |in namespace .* does not name a |is not a (?:member|"
    r"namespace))"
)
"""What g++ and clang++ say of a name without a declaration: before it, or behind it."""


def undeclared(output: str) -> tuple[str, ...]:
    """The names without a declaration in a compiler's errors, in order of first mention."""
    found: dict[str, None] = {}
    for match in _ON_A_NAME.finditer(output):
        if match["before"] or _NO_DECLARATION.match(match["behind"]):
            of = re.match(r" (?:is not a member of|in(?: namespace)?) '(?:::)?([\w:]+)'", match["behind"])
            name = match["name"].removeprefix("peakgate_kernel_")
            found[f"{of[1]}::{name}" if of else name] = None
    return tuple(found)


def first_error(
    output: str, files: Sequence[SourceFile], kernel: str, wrapper: Path, missing: Sequence[str] = ()
) -> str:
    """The compiler's first error, in one line, with the further headers of those that are ``missing``."""
    source = files[0].path
    found = re.search(
        r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<message>.*)$", output, re.MULTILINE
    )
    if not found:
        words = output.strip().splitlines() or ["the compiler gave no reason"]
        return f"{source.name}: {words[0]}"
    message = found["message"].split("; did you mean")[0].replace("peakgate_kernel_", "")
    if Path(found["file"]) == wrapper:
        return no_such_kernel(files, kernel, f" ({message})")
    name, line = Path(found["file"]).name, int(found["line"])
    users = [file.path.name for file in files]
    if name not in users:  # an error in a library's header is reported at the line that includes it
        chain = re.findall(r"^(?:In file included|\s+) from ([^:\n]+):(\d+)", output[: found.start()], re.MULTILINE)
        included = next(((Path(file).name, int(at)) for file, at in chain if Path(file).name in users), None)
        if included is not None:
            message = f"{message} (in {name}:{line})"
            name, line = included
    others = ", ".join(header for header in missing if header not in message)
    further = f"; also missing: {others}" if others else ""
    return f"{name}:{line}: {message}{further}{_advice(files, name, line, message)}"


def _advice(files: Sequence[SourceFile], name: str, line: int, message: str) -> str:
    """Advice for an error: features that the emulator lacks, missing headers, or host code."""
    text = next((file.text for file in files if file.path.name == name), "")
    written = text.splitlines()[line - 1] if 0 < line <= text.count("\n") + 1 else ""
    for pattern, feature in _NOT_EMULATED.items():
        if re.search(pattern, f"{written} {message}"):
            return f"; {feature}{NEEDS_TWIN}"
    header = missing_header(message) or ""
    if NVIDIA_HEADER.fullmatch(header):
        wheel = FURTHER_WHEELS["curand"] if header.startswith("curand") else ""
        return f"; {header} is NVIDIA's own: {f'pip install {wheel}' if wheel else INSTALL}"
    if _CUDA_HEADER.fullmatch(header):
        return f"; {header}{NEEDS_TWIN}"
    return remedy(files, name, line, message)
