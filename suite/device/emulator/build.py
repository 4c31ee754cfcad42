"""Compiles kernels and the emulator's runtime to shared objects, once: results are kept on disk."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from peakgate.build.cubin import CACHE_VARIABLE
from peakgate.common.errors import PeakgateError
from peakgate.device.emulator.compiler import Compiler, find_compiler
from peakgate.device.emulator.toolchain import (
    COMMON,
    KernelBuildError,
    builds_folder,
    first_error,
    kernel_flags,
    link,
    must_run,
    run,
    runtime_flags,
)

HERE = Path(__file__).parent
HEADERS = ("cuda_cpu.h", "cuda_math.h", "cuda_types.h", "runtime_api.h")
RUNTIME_SOURCES = ("runtime.cpp", "warp.cpp", "memory.cpp", "checks.cpp", "async_copy.cpp", "watchdog.cpp")
RUNTIME_HEADERS = ("runtime.h", "runtime_api.h", "fiber.h", "shadow.h")

MAX_STATIC_SHARED = 48 * 1024
"""Bytes of ``__shared__`` variables of known size that CUDA lets one kernel have."""


def build_kernel(
    source: Path,
    kernel: str,
    defines: tuple[tuple[str, str], ...] = (),
    *,
    include: tuple[Path, ...] = (),
    checked: bool = True,
    compiler: Compiler | None = None,
) -> Path:
    """The shared object of one ``extern "C" __global__`` function; built unless an equal build is there already.

    Equal means: same source, same files it includes with quotes, same defines and options, same compiler and emulator.
    Any number of processes may ask for the same build at once.

    Raises KernelBuildError if it does not compile, PeakgateError if a file or a compiler is missing.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", kernel):
        raise PeakgateError(f"{kernel!r} given as the name of a kernel in {source.name}; expected a C identifier")
    compiler = compiler or find_compiler()
    source = source.resolve()
    folders = tuple(folder.resolve() for folder in include)
    flags = (*kernel_flags(compiler, checked=checked), *(f"-D{name}={value}" for name, value in defines))
    texts = _source_texts(source, folders)
    runtime = build_runtime(compiler)
    key = _digest((kernel, source.name, flags, runtime.name, _own_texts(HEADERS), texts))
    library = builds_folder() / f"{source.stem}-{key}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=builds_folder(), prefix="build-") as scratch:
        wrapper = Path(scratch, "kernel.cpp")
        wrapper.write_text(_wrapper(source, kernel), encoding="utf-8")
        kernel_object = Path(scratch, "kernel.o")
        # The file's own folder needs no -I: quotes search it first.
        searched = [f"-I{folder}" for folder in folders]
        done = run([*compiler.command, *flags, *searched, "-c", str(wrapper), "-o", str(kernel_object)])
        if done.returncode:
            raise first_error(done.stderr, source, kernel, wrapper)
        names = _dynamic_shared_names(kernel_object, source, kernel)
        shared = Path(scratch, "shared.cpp")
        shared.write_text(_dynamic_shared(names), encoding="utf-8")
        shared_object = Path(scratch, "shared.o")
        must_run((*compiler.command, *COMMON, "-O1", "-c", shared, "-o", shared_object))
        link((kernel_object, shared_object, runtime), library, scratch, compiler)
    return library


def build_runtime(compiler: Compiler) -> Path:
    """The shared object of the emulator's runtime, built unless it is there already.

    Raises PeakgateError if builds cannot be kept.
    """
    folder = builds_folder()
    flags = runtime_flags(compiler)
    key = _digest((compiler.identity, flags, _own_texts((*RUNTIME_SOURCES, *RUNTIME_HEADERS))))
    library = folder / f"runtime-{key}.so"
    if library.exists():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PeakgateError(
            f"{folder}: builds cannot be kept there ({error}); point {CACHE_VARIABLE} at a writable folder"
        ) from error
    with tempfile.TemporaryDirectory(dir=folder, prefix="build-") as scratch:
        objects = [Path(scratch, f"{name}.o") for name in RUNTIME_SOURCES]
        for name, built in zip(RUNTIME_SOURCES, objects, strict=True):
            must_run((*compiler.command, *flags, "-c", HERE / name, "-o", built))
        link(objects, library, scratch, compiler)
    return library


def prebuild(
    wanted: Iterable[tuple[Path, str, tuple[tuple[str, str], ...]]],
    *,
    include: tuple[Path, ...] = (),
    checked: bool = True,
    compiler: Compiler | None = None,
) -> None:
    """Builds kernels, each a ``(source, kernel, defines)``, in parallel on every processor.

    What does not build is left for ``load`` to tell: it names the kernel that is really asked for.
    """
    compiler = compiler or find_compiler()
    build_runtime(compiler)

    def build(item: tuple[Path, str, tuple[tuple[str, str], ...]]) -> None:
        try:
            build_kernel(*item, include=include, checked=checked, compiler=compiler)
        except KernelBuildError:
            return

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(build, dict.fromkeys(wanted)):
            pass


def _wrapper(source: Path, kernel: str) -> str:
    """The translation unit: the emulator's header, the source, the entry point.

    The kernel gets a name of its own there, because ``fma`` or ``read`` would be that of a C library function.
    """
    renamed = f"peakgate_kernel_{kernel}"
    return "\n".join(
        (
            f'#include "{HERE / "cuda_cpu.h"}"',
            f"#define {kernel} {renamed}",
            f'#include "{source}"',
            f"PEAKGATE_ENTRY({renamed})",
            "",
        )
    )


def _dynamic_shared_names(built: Path, source: Path, kernel: str) -> list[str]:
    """The ``extern __shared__`` arrays of an object file: they are its undefined thread-local symbols."""
    with built.open("rb") as file:
        elf = ELFFile(file)
        static = sum(section["sh_size"] for section in elf.iter_sections() if section["sh_flags"] & SH_FLAGS.SHF_TLS)
        tables = (section for section in elf.iter_sections() if isinstance(section, SymbolTableSection))
        symbols = [symbol for table in tables for symbol in table.iter_symbols()]
    if static > MAX_STATIC_SHARED:
        raise KernelBuildError(
            f"{source.name}: kernel {kernel} has {static} bytes of static shared memory, CUDA allows "
            f"{MAX_STATIC_SHARED}; declare it 'extern __shared__' and give the size at launch"
        )
    return [
        symbol.name
        for symbol in symbols
        if symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_TLS"
    ]


def _dynamic_shared(names: list[str]) -> str:
    """Source that puts every dynamic shared array at one address, as on a GPU."""
    aliases = "".join(
        f'extern thread_local char {name}[PEAKGATE_MAX_DYNAMIC_SHARED] __attribute__((alias("peakgate_dynamic")));\n'
        for name in names
    )
    return (
        f'#include "{HERE / "runtime_api.h"}"\n'
        'extern "C" {\n'
        "alignas(1024) thread_local char peakgate_dynamic[PEAKGATE_MAX_DYNAMIC_SHARED];\n"
        f"{aliases}}}\n"
        "PEAKGATE_API char* peakgate_dynamic_shared() { return peakgate_dynamic; }\n"
    )


def _source_texts(source: Path, folders: tuple[Path, ...]) -> tuple[tuple[str, str], ...]:
    """Text of a source and of all it includes with quotes, whether or not a condition lets the compiler see it."""
    texts: dict[Path, str] = {}
    pending = [source]
    while pending:
        path = pending.pop()
        if path in texts:
            continue
        texts[path] = _read(path)
        for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', texts[path], re.MULTILINE):
            candidates = (folder / name for folder in (path.parent, *folders))
            found = next((candidate for candidate in candidates if candidate.is_file()), None)
            if found is not None:
                pending.append(found.resolve())
    return tuple((path.name, text) for path, text in texts.items())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PeakgateError(f"{path}: expected the readable UTF-8 source of a kernel ({error})") from error


@lru_cache
def _own_texts(names: tuple[str, ...]) -> str:
    return "".join((HERE / name).read_text(encoding="utf-8") for name in names)


def _digest(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
