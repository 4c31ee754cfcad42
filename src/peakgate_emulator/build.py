"""Compiles kernels and the emulator's runtime to shared objects, which are cached on disk."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TypedDict, Unpack

from peakgate_emulator import bounded, headers
from peakgate_emulator.attempts import refused_by
from peakgate_emulator.attributes import apart, with_bounds, with_keyword, without_prototypes
from peakgate_emulator.binary import spread, symbols_of
from peakgate_emulator.compiler import (
    COMMON,
    Compiler,
    builds_folder,
    failed,
    find_compiler,
    kernel_flags,
    link,
    must_run,
    places_of_errors,
    run,
    runtime_flags,
)
from peakgate_emulator.errors import EmulatorError, KernelBuildError
from peakgate_emulator.files import alone, scratch_folder, writing
from peakgate_emulator.kernel_object import dynamic_shared_arrays, dynamic_shared_source, refused_object
from peakgate_emulator.ptx import collides, preprocessed, put_together, translated
from peakgate_emulator.sources import KernelEntry, SourceFile, entry_of, missing_header, read_sources

RUNTIME_FOLDER = Path(__file__).parent
KERNEL_HEADERS = (*sorted(path.name for path in RUNTIME_FOLDER.glob("cuda_*.h")), "runtime_api.h")
REWRITERS = (
    *sorted(path.name for path in RUNTIME_FOLDER.glob("ptx*.py")),
    "attempts.py",
    "attributes.py",
    "binary.py",
    "declarations.py",
    "device_code.py",
)
"""Modules that rewrite a kernel's source or object file."""
_ON_DEMAND = {
    "cuda_textures.h": re.compile(
        r"\b(?:tex[123]D|texCubemap|surf[123]D|cudaTextureObject_t|cudaSurfaceObject_t|CU(?:tex|surf)Object)"
    ),
    "cuda_atomics.h": re.compile(r"\b__nv_atomic_"),
    "cuda_shadowed.h": re.compile(
        r"\b(?:u?int3|dim3|int|unsigned)\s*&?\s*(?:threadIdx|blockIdx|blockDim|gridDim)\s*[;,)=]"
    ),
    "cuda_simd.h": re.compile(r"\b__v[a-z]+\w*[24su]\b"),
    "cuda_rounded.h": re.compile(r"\b__[a-z]\w*_r[nzud]\b"),
    "cuda_ptx_values.h": re.compile(r"\b(?:asm|__asm__|__asm)\b"),
    "cuda_half.h": re.compile(r"\basm\b.*?\.b?f16", re.DOTALL),
    "cuda_narrow.h": re.compile(r"\basm\b.*?\.u?e\dm\dx2", re.DOTALL),
    "cuda_matrix.h": re.compile(r"\b(?:(?:mma|ldmatrix|stmatrix|movmatrix)\.sync|mma\.sp)\b"),
    "cuda_wgmma.h": re.compile(r"\bwgmma\."),
    "cuda_tcgen05.h": re.compile(r"\btcgen05\."),
}
"""Headers that are included only if the source matches; each would add 10 ms to every build."""
PRODUCTS = "matrix_products.cpp"
"""Linked to the kernels that multiply matrices, which alone wait for its compilation."""
_CHANGED_MEANING = "' changes meaning of '"
"""An error of g++ at a member that is named as a type which its class has used; nvcc accepts it, as CUTLASS needs."""
_OF_RUNTIME = ("peakgate_", "__tsan_", "__ubsan_", "__tls_get_addr", "_GLOBAL_OFFSET_TABLE_")
"""How the names of symbols begin that a kernel has of the runtime, or of every process."""
_UNITS = (
    ("checks.cpp", "warp.cpp"),
    (
        *("absent.cpp", "async_copy.cpp", "blocks.cpp", "casts.cpp", "faults.cpp", "memory.cpp", "named_barriers.cpp"),
        *("readers.cpp", "reports.cpp", "runtime.cpp", "sync_objects.cpp", "tested_reads.cpp", "watchdog.cpp"),
    ),
    ("order.cpp", "clusters.cpp"),
)
"""The runtime's sources, by what is compiled as one file: the compiler's start and the headers take 0.05 s each."""
_FURTHER_UNITS = (
    ("agents.cpp", "bulk_copy.cpp", "textures.cpp"),
    ("tensor_memory.cpp", "tensor_products.cpp"),
    ("tensor_cores.cpp",),
)
"""The same of a runtime for kernels that call them, a third of its compilation; in others absent.cpp replaces them."""
RUNTIME_SOURCES = tuple(sorted(name for unit in (*_UNITS, *_FURTHER_UNITS) for name in unit))
RUNTIME_HEADERS = ("runtime.h", "runtime_api.h", "fiber.h", "halves.h", "shadow.h", "sparse.h", "tensor_memory.h")

DEFAULT_CAPABILITY = (9, 0)
"""Default compute capability, which defines ``__CUDA_ARCH__``."""


class BuildOptions(TypedDict, total=False):
    """Build options that several kernels have in common."""

    include: tuple[Path, ...]
    options: tuple[str, ...]
    capability: tuple[int, int]
    specific: bool
    compiler: Compiler
    limit_s: float
    folder: Path


_OPTION = re.compile(r"-D|-U|-I|-std=|--define-macro=|--undefine-macro=|--include-path=|--std=")
_SPELLED = {"--define-macro=": "-D", "--undefine-macro=": "-U", "--include-path=": "-I", "--std=": "-std="}
"""NVRTC options translated for a C++ compiler."""
_OLDER_STANDARDS = ("-std=c++03", "-std=c++11", "-std=c++14")
"""Without effect: the emulator's headers need C++17, the default."""


def build_kernel(
    source: Path,
    kernel: str,
    defines: tuple[tuple[str, str], ...] = (),
    *,
    include: tuple[Path, ...] = (),
    options: tuple[str, ...] = (),
    capability: tuple[int, int] = DEFAULT_CAPABILITY,
    specific: bool = False,
    compiler: Compiler | None = None,
    limit_s: float = bounded.PROCESSOR_LIMIT_S,
    folder: Path | None = None,
) -> Path:
    """The shared object of one ``__global__`` function; built unless it is in the cache.

    The cache's key is the source, the files it includes from its own folder or those in ``include``, defines, options,
    compiler and emulator. Several processes may request the same build at once. The compiler's working directory is
    ``folder``, to which paths in options are relative, and its limit is ``limit_s`` of processor time.

    Raises KernelBuildError if it does not compile or a file is missing, NoCompiler without a usable compiler.
    """
    compiler = compiler or find_compiler()
    source = source.resolve()
    folders = tuple(folder.resolve() for folder in include)
    taken = [
        _SPELLED.get(option[0], option[0]) + option.string[option.end() :]
        for option in map(_OPTION.match, options)
        if option
    ]
    apart = ("-D", "-U", *_OLDER_STANDARDS)
    flags = (*kernel_flags(compiler), *(option for option in taken if not option.startswith(apart)))
    given = (*_of_architecture(capability, specific=specific), *(f"{name}={value}" for name, value in defines))
    macros = [
        _directive(option) for option in (*(f"-D{macro}" for macro in given), *taken) if option[:2] in ("-D", "-U")
    ]
    files = _read(source, folders)
    entry = entry_of(kernel, files)
    runtime = build_runtime(compiler)
    of_nvidia = headers.needs_nvidia(file.text for file in files)
    stand_ins = _written(headers.headers_beside_nvidia() if of_nvidia else headers.emulator_headers())
    of_hosts = _written(headers.host_headers(files))
    texts = tuple((file.path.name, file.text) for file in files)
    key = _digest(
        (
            entry,
            source.name,
            flags,
            macros,
            runtime.name,
            _own_digest((*KERNEL_HEADERS, *REWRITERS)),
            (stand_ins.name, of_hosts.name),
            headers.nvidia_version() if of_nvidia else "",
            texts,
        )
    )
    library = builds_folder() / f"{source.stem}-{key}.so"
    if library.exists():
        return library
    with scratch_folder(builds_folder()) as scratch:
        wrapper = scratch / "kernel.cpp"
        written = (*macros, *(file.text for file in files))
        by_macros = of_nvidia or any(map(put_together, written)) or collides(written)
        included = [RUNTIME_FOLDER / "cuda_cpu.h", stand_ins / headers.PRELUDE]
        if compiler.is_gcc and not of_nvidia:
            included = [_precompiled(compiler, flags, stand_ins)]
        included += [RUNTIME_FOLDER / name for name in ("cuda_library.h", "cuda_ptx_values.h") if of_nvidia]
        included += [
            RUNTIME_FOLDER / name for name, used in _ON_DEMAND.items() if any(used.search(text) for text in written)
        ]
        kernel_object = scratch / "kernel.o"
        searched = [f"-I{folder}" for folder in (*folders, of_hosts, stand_ins, RUNTIME_FOLDER)]
        searched += [f"-idirafter{folder}" for folder in headers.nvidia_folders() if of_nvidia]
        # Quoted includes of a copied file are searched in the folder of its original too.
        command = [*compiler.command, *flags, *searched, f"-iquote{source.parent}"]
        unit = scratch / ("unit.ii" if compiler.is_gcc else "unit.cpp") if by_macros else wrapper
        with_ptx = {file.path.name for file in files}
        with_ptx |= headers.headers_with_ptx(written) if of_nvidia else set()
        rewritten = _watched if by_macros else lambda text: _watched(translated(text))

        def attempt(compiled: Path) -> subprocess.CompletedProcess[str] | None:
            wrapper.write_text(
                _wrapper(compiled, included, macros, entry, capability if specific else (0, 0)), encoding="utf-8"
            )
            done = _preprocess(command, wrapper, unit, with_ptx, (limit_s, folder)) if by_macros else None
            if done is None or not done.returncode:
                done = _compiled([*command, "-c", str(unit), "-o", str(kernel_object)], (limit_s, folder))
            if not done.returncode and (why := refused_object(kernel_object, files, entry.name, kernel)):
                done = subprocess.CompletedProcess(command, 1, "", why)
            return done if done.returncode else None

        refused = refused_by(attempt, places_of_errors, files, [entry.name], rewritten)
        if refused is not None:
            further = _missing_headers(command, wrapper, files, scratch) if missing_header(refused.stderr) else []
            raise failed(refused, files, kernel, wrapper, limit_s=limit_s, missing=further)
        names = dynamic_shared_arrays(kernel_object)
        described = _description(names, compiler, has_variables=spread(kernel_object))
        _link_kernel(kernel_object, described, library, compiler)
    return library


def _compiled(command: Sequence[str], limits: tuple[float, Path | None]) -> subprocess.CompletedProcess[str]:
    """Run a compiler; g++ a second time if it refuses what nvcc accepts."""
    done = run(command, *limits)
    return run([*command, "-fpermissive"], *limits) if done.returncode and _CHANGED_MEANING in done.stderr else done


def _preprocess(
    command: Sequence[str], wrapper: Path, unit: Path, with_ptx: Collection[str], limits: tuple[float, Path | None]
) -> subprocess.CompletedProcess[str]:
    """Write the preprocessor's output of ``wrapper`` to ``unit``, and translate inline PTX that macros generate."""
    by_name = ["-fpch-preprocess"] if unit.suffix == ".ii" else []  # what g++ has precompiled is named, not copied
    done = run([*command, *by_name, "-E", str(wrapper), "-o", str(unit)], *limits)
    if not done.returncode:
        unit.write_text(preprocessed(unit.read_text(encoding="utf-8"), with_ptx), encoding="utf-8")
    return done


def _missing_headers(command: Sequence[str], wrapper: Path, files: Sequence[SourceFile], scratch: Path) -> list[str]:
    """The headers that files include and that are not found, under the conditions of this build, in order."""
    empty = scratch / "missing"
    names = dict.fromkeys(name for file in files for _, name in file.foreign if ".." not in name and name[0] != "/")
    for name in names:
        (empty / name).parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # the name of a folder
            (empty / name).touch()
    listed = run([*command, f"-idirafter{empty}", "-M", str(wrapper)]).stdout
    return [name for name in names if re.search(rf"{re.escape(str(empty / name))}(?=\s|$)", listed)]


def _written(texts: Mapping[str, str]) -> Path:
    """The folder of stand-ins, given by name, written if it does not exist."""
    folder = builds_folder() / f"headers-{_digest(texts)}"
    if not folder.is_dir():
        with scratch_folder(builds_folder()) as scratch:
            made = scratch / "headers"
            made.mkdir()
            for name, text in texts.items():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_text(text, encoding="utf-8")
            with suppress(OSError):  # another process was first
                made.rename(folder)
    return folder


def _precompiled(compiler: Compiler, given: Sequence[str], stand_ins: Path) -> Path:
    """A header with what every kernel includes, precompiled by g++: parsing takes half as long as a small kernel.

    Only the stand-ins and the emulator's own folder are searched, not those in ``given``. g++ ignores what it
    precompiled with other flags, so that these are part of the header.
    """
    flags = [flag for flag in given if not flag.startswith("-I")]
    lines = [f"// {compiler.identity} {' '.join(flags)} {_own_digest(KERNEL_HEADERS)}"]
    # By its place in the cache, so that a cache that is copied keeps it.
    lines += [
        f'#include "{path}"' for path in (RUNTIME_FOLDER / "cuda_cpu.h", f"../{stand_ins.name}/{headers.PRELUDE}")
    ]
    searched = (f"-I{stand_ins}", f"-I{RUNTIME_FOLDER}")
    header = _written({"kernel.h": "\n".join([*lines, ""])}) / "kernel.h"
    precompiled = header.with_name("kernel.h.gch")
    if not precompiled.exists():
        with alone(header.with_name("kernel.lock")), scratch_folder(builds_folder()) as scratch:
            made = scratch / precompiled.name
            if not precompiled.exists():  # otherwise another process was first
                must_run((*compiler.command, *flags, *searched, "-x", "c++-header", header, "-o", made))
                made.replace(precompiled)
    return header


def build_runtime(compiler: Compiler, *, whole: bool = False) -> Path:
    """The shared object of the emulator's runtime, built if it does not exist, by one process at a time.

    ``whole``: for kernels that use the copy engine, textures, products of warpgroups or tensor memory.
    Raises UnwritableCache if builds cannot be stored.
    """
    folder = builds_folder()
    flags = [runtime_flags(compiler, unit) for unit in (*_UNITS, *_FURTHER_UNITS)]
    key = _digest((compiler.identity, flags, _own_digest((*RUNTIME_SOURCES, *RUNTIME_HEADERS))))
    library = folder / f"runtime-{key}{'-whole' if whole else ''}.so"
    if library.exists():
        return library
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with alone(library.with_suffix(".lock")), scratch_folder(folder) as scratch:
        if library.exists():  # another process was first
            return library
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            if compiler.is_gcc:  # the first kernel will need it
                pool.submit(_precompiled, compiler, kernel_flags(compiler), _written(headers.emulator_headers()))
            objects = list(pool.map(partial(_object, compiler), (*_UNITS, *(_FURTHER_UNITS if whole else ()))))
        link(objects, library, scratch, compiler)
    return library


def _object(compiler: Compiler, unit: tuple[str, ...]) -> Path:
    """The object file of some of the runtime's sources, built if it does not exist, by one process at a time."""
    flags = runtime_flags(compiler, unit)
    digest = _digest((compiler.identity, flags, _own_digest((*unit, *RUNTIME_HEADERS))))
    built = builds_folder() / f"{Path(unit[0]).stem}-{digest}.o"
    with alone(built.with_suffix(".lock")), scratch_folder(builds_folder()) as scratch:
        if not built.exists():
            source = scratch / "unit.cpp"
            source.write_text("".join(f'#include "{RUNTIME_FOLDER / name}"\n' for name in unit), encoding="utf-8")
            must_run((*compiler.command, *flags, "-c", source, "-o", scratch / built.name))
            (scratch / built.name).replace(built)
    return built


def _link_kernel(kernel_object: Path, described: Path, library: Path, compiler: Compiler) -> None:
    """Link a kernel with what it calls: a runtime, before that products of matrices, and C's libraries, if any."""
    undefined = [each for each in symbols_of(kernel_object) if each.name and not each.section]
    called = {each.name for each in undefined if each.kind not in ("STT_FILE", "STT_TLS")}
    products = [_object(compiler, (PRODUCTS,))] if any(name.startswith("peakgate_multiply") for name in called) else []
    runtime = build_runtime(compiler, whole=not called.isdisjoint(further_functions()))
    of_c = not all(name.startswith(_OF_RUNTIME) for name in called)
    objects = (kernel_object, described, *products, runtime)
    link(objects, library, kernel_object.parent, compiler, with_libraries=of_c or bool(products))


@lru_cache
def further_functions() -> frozenset[str]:
    """The functions that kernels may call and only a whole runtime has."""
    texts = [(RUNTIME_FOLDER / name).read_text(encoding="utf-8") for unit in _FURTHER_UNITS for name in unit]
    return frozenset(re.findall(r"^\w[^\n;(]*\b(peakgate_\w+)\(", "".join(texts), re.MULTILINE))


def _read(source: Path, folders: Sequence[Path]) -> list[SourceFile]:
    try:
        return read_sources(source, folders)
    except EmulatorError as error:
        raise KernelBuildError(error.message) from error


def prebuild(
    wanted: Iterable[tuple[Path, str, tuple[tuple[str, str], ...]]],
    built: Callable[[], object] = lambda: None,
    **common: Unpack[BuildOptions],
) -> None:
    """Build kernels, each a ``(source, kernel, defines)``, in parallel on all processors.

    ``built`` is called after each. Failures are ignored; ``load`` of the same kernel reports them.
    """
    build_runtime(common.get("compiler") or find_compiler())

    def build(item: tuple[Path, str, tuple[tuple[str, str], ...]]) -> None:
        try:
            build_kernel(*item, **common)
        except KernelBuildError:
            return

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(build, dict.fromkeys(wanted)):
            built()


def _watched(text: str) -> str:
    """The source with checked launch bounds, addresses of locals and calls of the compiler's ``memcpy``, ``memset``."""
    return (
        with_keyword(apart(with_bounds(without_prototypes(text))))
        .replace("__builtin_memcpy", "peakgate_memcpy")
        .replace("__builtin_memset", "peakgate_memset")
    )


def _of_architecture(capability: tuple[int, int], *, specific: bool) -> tuple[str, ...]:
    """The macros of nvcc for a compute capability; ``specific`` where it has architecture-specific features (90a)."""
    number = f"{capability[0]}{capability[1]}"
    names = (f"__CUDA_ARCH_{which}__={number}0" for which in ("SPECIFIC", "FAMILY_SPECIFIC"))
    features = (f"__CUDA_ARCH_FEAT_SM{number}_ALL=1", *names) if specific else ()
    return (*features, f"__CUDA_ARCH__={number}0")


def _directive(option: str) -> str:
    """``-DNAME=value`` or ``-UNAME`` as a line of source."""
    name, _, value = option[2:].partition("=")
    return f"#define {name} {value if '=' in option else 1}" if option.startswith("-D") else f"#undef {name}"


def _wrapper(
    source: Path, included: Sequence[Path], macros: Sequence[str], entry: KernelEntry, specific: tuple[int, int]
) -> str:
    """The translation unit: the emulator's headers, the macros, the source, the entry point.

    The macros follow the headers, which use short names themselves. The kernel is renamed, because ``fma`` or ``read``
    would be a C library function, unless its name is that of a member of CUDA's vectors, which would be renamed too.
    ``specific`` is the compute capability whose specific features are available; (0, 0) for none.
    """
    own_name = entry.name if entry.name in ("x", "y", "z", "w") else f"peakgate_kernel_{entry.name}"
    return "\n".join(
        (
            *(f'#include "{header}"' for header in included),
            f"enum {{ peakgate_specific = {100 * specific[0] + 10 * specific[1]} }};",
            *macros,
            f"#define {entry.name} {own_name}",
            f'#include "{source}"',
            f"PEAKGATE_API void peakgate_call(void** arguments) {{ peakgate::call({entry.expression}, arguments); }}",
            "PEAKGATE_API int peakgate_parameters(PeakgateParameter* described) {",
            f"    return peakgate::describe_all({entry.expression}, described);",
            "}",
            "",
        )
    )


def _description(names: Sequence[str], compiler: Compiler, *, has_variables: bool) -> Path:
    """An object file that defines dynamic shared arrays of these names, and whether the kernel has variables.

    It is cached: most kernels have no such array, or one of the same name.
    """
    text = dynamic_shared_source(names, RUNTIME_FOLDER / "runtime_api.h")
    text += f"PEAKGATE_API int peakgate_has_variables() {{ return {int(has_variables)}; }}\n"
    built = builds_folder() / f"shared-{_digest((compiler.identity, COMMON, _own_digest(RUNTIME_HEADERS), text))}.o"
    if not built.exists():
        with scratch_folder(builds_folder()) as scratch:
            source, compiled = scratch / "shared.cpp", scratch / "shared.o"
            source.write_text(text, encoding="utf-8")
            must_run((*compiler.command, *COMMON, "-O1", "-c", source, "-o", compiled))
            compiled.replace(built)
    return built


@lru_cache
def _own_digest(names: tuple[str, ...]) -> str:
    return _digest([(RUNTIME_FOLDER / name).read_text(encoding="utf-8") for name in names])


def _digest(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]
