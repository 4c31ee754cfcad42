"""How a compiler is called: with which flags, with which caches, and what is made of its answer."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from suite.build import advice, cache_folder
from suite.device.emulator.compiler import Compiler
from suite.errors import PeakgateError
from suite.sources import SourceFile, no_such_kernel

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
    "-w",  # what a CUDA compiler accepts is not to be judged by another
    "-g1",
    "-gdwarf-4",
    "-fno-strict-aliasing",  # kernels reinterpret float* as float4*
    "-fwrapv",
    "-fno-finite-loops",  # an endless loop is to be found, not assumed away
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-optimize-sibling-calls",  # a return address must lie in the caller
)
_CHECKED = ("-O1", "-fsanitize=thread", "-fno-sanitize-recover=all")
_CHECKED_GCC = ("-fsanitize=bounds,alignment", "--param", "tsan-instrument-func-entry-exit=0")
# Vectorized accesses wider than 16 bytes would go unchecked.
_CHECKED_CLANG = (
    "-fsanitize=array-bounds,alignment",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
)
_FAST = ("-O2",)
_FAST_CLANG = ("-fno-sanitize=all",)  # zig turns some on by itself
# Unique symbols would tie kernels of one name together; a wrapper around every access to shared memory would be slow.
_GCC = ("-fno-gnu-unique", "-fno-extern-tls-init")


class KernelBuildError(PeakgateError):
    """A kernel that does not compile: the message is ``file:line: error``, ``output`` all the compiler said."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def builds_folder() -> Path:
    """Where builds of the emulator are kept."""
    return cache_folder() / "emulator"


def runtime_flags(compiler: Compiler) -> tuple[str, ...]:
    """For the runtime, which is never checked itself."""
    return (*COMMON, "-O2", *(() if compiler.is_gcc else _FAST_CLANG))


def kernel_flags(compiler: Compiler, *, checked: bool) -> tuple[str, ...]:
    """For a kernel, with or without its memory accesses watched."""
    if checked:
        own = _CHECKED_GCC if compiler.is_gcc else _CHECKED_CLANG
        mode = (*_CHECKED, *own)
    else:
        mode = (*_FAST, *(() if compiler.is_gcc else _FAST_CLANG))
    return (*_KERNEL, *(_GCC if compiler.is_gcc else ()), *mode)


def link(objects: Iterable[Path], library: Path, scratch: str, compiler: Compiler) -> None:
    """Links beside ``library`` and moves it there in one step; it finds the runtime in its own folder."""
    options: tuple[str, ...] = ("-soname", library.name, "-rpath", "$ORIGIN")
    if compiler.name != "zig":
        options = (*(f"-Wl,{option}" for option in options), "-nodefaultlibs", "-lm", "-lc")
    linked = Path(scratch, "linked.so")
    must_run((*compiler.linker, "-shared", "-o", linked, *objects, *options))
    linked.replace(library)


def _environment() -> dict[str, str]:
    zig = str(builds_folder() / "zig")
    return {"ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig, **os.environ, "LC_ALL": "C"}


def run(command: Iterable[str | Path]) -> subprocess.CompletedProcess[str]:
    """Runs a compiler; the caller looks at the exit code."""
    arguments = [str(part) for part in command]
    return subprocess.run(arguments, capture_output=True, text=True, errors="replace", env=_environment(), check=False)


def must_run(command: Iterable[str | Path]) -> None:
    """The same for what belongs to the emulator: it is not the user's doing if that does not compile."""
    arguments = tuple(command)
    done = run(arguments)
    if done.returncode:
        words = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()
        raise KernelBuildError(f"the emulator itself does not build with {arguments[0]}: {words[0]}", done.stderr)


def first_error(output: str, files: Sequence[SourceFile], kernel: str, wrapper: Path) -> KernelBuildError:
    """The compiler's first error, in one line."""
    source = files[0].path
    found = re.search(
        r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<message>.*)$", output, re.MULTILINE
    )
    if not found:
        words = output.strip().splitlines() or ["the compiler gave no reason"]
        return KernelBuildError(f"{source.name}: {words[0]}", output)
    message = found["message"].replace("peakgate_kernel_", "")
    if Path(found["file"]) == wrapper:
        return KernelBuildError(no_such_kernel(files, kernel, f" ({message})"), output)
    name, line = Path(found["file"]).name, int(found["line"])
    return KernelBuildError(f"{name}:{line}: {message}{advice(files, name, line, message)}", output)
