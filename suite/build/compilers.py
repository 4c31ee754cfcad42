"""What both compilers are given: the headers that kernels include, options of a list, limits of time and memory.

nvcc compiles kernels between a host's headers; NVRTC has none, and the emulator must not take those that redefine what
CUDA offers by itself. So both find small stand-ins under the usual names: the files of ``stand_ins/``, in ``both``,
``nvrtc`` or ``emulator``, and empty ones for those of ``empty.txt``. Without any include, nvcc also offers ``uint``,
``INFINITY`` and the like: that is the prelude. CUDA's own headers are taken where they are installed.

Compiling a source may not end. Both compilers run in processes of their own under limits: g++ or clang++ for the
emulator through ``run``, NVRTC in ``nvrtc``. A legitimate kernel takes seconds and some hundred MB.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from peakgate.core.processes import WALL_PER_PROCESSOR_S

INSTALL = "install the extra nvrtc, or set CUDA_HOME to a toolkit"
FURTHER_WHEELS = {"crt/": "nvidia-cuda-crt", "curand": "nvidia-curand"}
"""Headers of CUDA that not every extra brings, by how their names begin: wmma's, cuRAND's."""

PRELUDE = "peakgate_prelude.h"
STAND_INS = Path(__file__).with_name("stand_ins")

_FORWARDED = (
    *("algorithm", "array", "bit", "complex", "concepts", "functional", "initializer_list", "iterator", "limits"),
    *("numeric", "optional", "ratio", "span", "tuple", "type_traits", "utility", "variant"),
)
"""Headers of the C++ library that cuda::std has for device code."""

_BACKWARD = (
    *("algorithm", "array", "cfloat", "climits", "cmath", "cstddef", "cstdint", "functional", "initializer_list"),
    *("limits", "numeric", "optional", "tuple", "type_traits", "utility", "variant"),
)
"""Headers of cuda::std that are the C++ library's in the emulator."""

_OF_SYNC = ("cuda/barrier", "cuda/atomic", "cuda/pipeline", "cuda/std/atomic")
_OWN = {
    "cuda_groups.h": [f"cooperative_groups{part}.h" for part in ("", "/reduce", "/scan", "/memcpy_async")],
    "cuda_half.h": [f"cuda_{kind}.{end}" for kind in ("fp16", "bf16") for end in ("h", "hpp")]
    + ["cublas_v2.h", "cublas.h", "cublasLt.h"],
    "cuda_narrow.h": ["cuda_fp8.h", "cuda_fp4.h"],
    "cuda_wmma.h": ["mma.h"],
    "cuda_complex.h": ["cuComplex.h"],
    "cuda_cub.h": ["cub/cub.cuh"]
    + [f"cub/block/block_{what}.cuh" for what in ("reduce", "scan", "load", "store")]
    + [f"cub/warp/warp_{what}.cuh" for what in ("reduce", "scan")],
}
"""Headers of the emulator that stand in for some of CUDA's."""
_EMPTY_EMULATED = ("complex", "complex.h", "cuda_pipeline.h", "cuda_pipeline_primitives.h")
_OF_THE_COMPILER = ("stddef.h", "stdarg.h", "stdbool.h", "cstdarg")
"""Harmless in the emulator, and its C++ library is built on them."""


WALL_BASE_S = 100.0
"""Of the limit of a compilation's wall time: a compiler may wait, for example on an included pipe."""

MEMORY_BYTES = 8 << 30

FILE_BYTES = 1 << 30

_EXHAUSTED = re.compile(
    r"memory exhausted|out of memory|Cannot allocate memory|bad_alloc|(?:time|size) limit|[Kk]illed|terminated program"
)

_SHELL = 'ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; ulimit -c 0; shift 3; exec "$@"'
"""Limits that are lower already stay: then ulimit fails, and the compiler starts all the same."""


def processor_limit_s() -> float:
    """The processor time of one compilation, of the project's settings."""
    from peakgate.core import config  # noqa: PLC0415  (a process of NVRTC does without)

    return config.current().compile_timeout_s


def working_folder() -> Path:
    """Where compilers work: options may name folders from there."""
    from peakgate.core import config  # noqa: PLC0415  (as above)

    return config.here()


def wall_limit_s(processor_s: float) -> float:
    """The far limit of its wall time."""
    return WALL_BASE_S + WALL_PER_PROCESSOR_S * processor_s


@lru_cache
def nvrtc_headers() -> dict[str, str]:
    """Name to text of the prelude and of each stand-in, as NVRTC takes them."""
    forward = "#include <cuda/std/{0}>\nnamespace std {{ using namespace ::cuda::std; }}\n"
    texts = {**{name: forward.format(name) for name in _FORWARDED}, **_texts("nvrtc")}
    return _with_empty(_empty(), texts)


@lru_cache
def emulator_headers() -> dict[str, str]:
    """The same for the emulator, whose compiler has most of the C++ library; what clashes with CUDA's words is here."""
    back = "#include <{0}>\nnamespace cuda {{ namespace std {{ using namespace ::std; }} }}\n"
    texts = {
        **_texts("emulator"),
        **{name: f'#include "{own}"\n' for own, names in _OWN.items() for name in names},
        **dict.fromkeys(_OF_SYNC, '#include <utility>\n#include "cuda_sync.h"\n'),  # libcu++'s have std::move
        **{f"cuda/std/{name}": back.format(name) for name in _BACKWARD},
    }
    return _with_empty({*_empty(), *_EMPTY_EMULATED} - {*_OF_THE_COMPILER}, texts)


@lru_cache
def headers_beside_nvidia() -> dict[str, str]:
    """Those for the emulator where NVIDIA's own headers are in use: ``cuda::std`` is theirs but for atomics."""
    theirs = {f"cuda/std/{name}" for name in _BACKWARD}
    kept = {name: text for name, text in emulator_headers().items() if name not in theirs}
    return kept | _files("beside_nvidia")


def _texts(folder: str) -> dict[str, str]:
    """The files of one build, those that both have among them; its prelude ends with the mathematical functions."""
    found = {**_files("both"), **_files(folder)}
    found[PRELUDE] += found.pop("peakgate_math.h")
    return found


def _files(folder: str) -> dict[str, str]:
    root = STAND_INS / folder
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _empty() -> list[str]:
    """Headers for host code only, or that NVRTC and the emulator provide themselves."""
    return (STAND_INS / "empty.txt").read_text(encoding="utf-8").split()


def _with_empty(empty: Iterable[str], texts: dict[str, str]) -> dict[str, str]:
    """All of them, each text taken once per translation unit."""
    guards = {name: f"PEAKGATE_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}" for name in texts}
    once = {name: f"#ifndef {guards[name]}\n#define {guards[name]}\n{text}#endif\n" for name, text in texts.items()}
    return {**dict.fromkeys(sorted(empty), "\n"), **once}


PROBED_HEADERS = ("cuda_fp16.h", "cuda/std/limits", "nv/target", "curand_kernel.h")
"""One of CUDA's own, two of its C++ libraries, one of cuRAND: a folder that has it is the one for its like."""


@lru_cache
def cuda_folders(major: int) -> tuple[Path, ...]:
    """Where CUDA's own headers are: the wheels of NVRTC's release, then $CUDA_HOME, $CUDA_PATH or a system toolkit.

    CUDA's headers and those of its C++ libraries (``cccl``) are looked for apart: PyTorch installs the first alone.
    """
    spec = importlib.util.find_spec("nvidia")
    wheels = ("cuda_runtime", "cuda_cccl") if major < 13 else (f"cu{major}",)
    roots = (spec.submodule_search_locations or ()) if spec else ()
    toolkits = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    includes = [Path(root, wheel, "include") for root in roots for wheel in wheels]
    includes += [Path(toolkit, "include") for toolkit in toolkits if toolkit]
    folders = [part for include in includes for part in (include, include / "cccl")]
    first = (next((folder for folder in folders if (folder / header).exists()), None) for header in PROBED_HEADERS)
    return tuple(dict.fromkeys(folder for folder in first if folder is not None))


_VERSIONS = (
    ("cuda.h", "CUDA_VERSION"),
    ("cuda/std/__cccl/version.h", "CCCL_VERSION"),
    ("curand.h", "CURAND_VERSION"),
)
"""Macros that say which release a header is of."""


@lru_cache
def cuda_version(major: int) -> str:
    """Which of CUDA's headers those are, for the key of a build that may include them."""
    versions = []
    for folder in cuda_folders(major):
        for name, macro in _VERSIONS:
            path = folder / name
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            if match := re.search(rf"#\s*define\s+{macro}\s+(\d+)", text):
                versions.append(f"{macro} {match[1]}")
    return ", ".join(versions)


_NVIDIA_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]((?:cuda/|curand_)[\w/.]+)[>"]', re.MULTILINE)
NVIDIA_HEADER = re.compile(r"cuda/(?:std/\w+|bit|cmath|iterator|numeric|ptx|type_traits|utility|warp)|curand_\w+\.h")
"""NVIDIA's own headers that compile for the emulator, with what its ``cuda_library.h`` has in front: most of
``cuda::std``, ``cuda::ptx``, cuRAND's device code. Their inline PTX is translated as a kernel's own."""


def needs_nvidia(texts: Iterable[str]) -> bool:
    """Whether emulated sources include a header that has to be NVIDIA's own."""
    own = emulator_headers()
    included = (name for text in texts for name in _NVIDIA_INCLUDE.findall(text))
    return any(NVIDIA_HEADER.fullmatch(name) and name not in own for name in included)


def nvidia_folders() -> tuple[Path, ...]:
    """Where NVIDIA's own headers are, of the newest CUDA that is installed; empty if none is."""
    return cuda_folders(_newest())


def nvidia_version() -> str:
    """Which ones those are, for the key of a build."""
    return f"{nvidia_folders()} {cuda_version(_newest())}"


@lru_cache
def _newest() -> int:
    return next((major for major in (13, 12) if cuda_folders(major)), 13)


def headers_with_ptx(texts: Iterable[str]) -> set[str]:
    """Names of such headers whose PTX sources may come to; that of ``cuda::ptx`` is in files named like functions."""
    written, folders = "\n".join(texts), nvidia_folders()
    words = set(re.findall(r"\w+", written)) if "cuda/ptx" in written else set()
    begun = {start for word in words for start in _starts(word)}
    ptx = (path for folder in folders for path in (folder / "cuda/__ptx/instructions").rglob("*.h"))
    named = {path.name for path in ptx if path.stem in begun or not words.isdisjoint(_starts(path.stem))}
    return named | {path.name for folder in folders for path in folder.glob("curand_*.h")}


def _starts(name: str) -> list[str]:
    """``a_b_c``, ``a_b``, ``a``."""
    parts = name.split("_")
    return ["_".join(parts[:count]) for count in range(len(parts), 0, -1)]


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler under the limits; one that exceeds the wall time is killed with all it started.

    The exit code is 124 then.
    """
    limit_s = processor_limit_s()
    limits = (str(math.ceil(limit_s)), str(MEMORY_BYTES >> 10), str(FILE_BYTES >> 9))
    process = subprocess.Popen(
        ["/bin/sh", "-c", _SHELL, "sh", *limits, *command],
        cwd=working_folder(),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    with process:
        try:
            output, errors = process.communicate(timeout=wall_limit_s(limit_s))
        except BaseException as ended:
            end_tree(process.pid)
            if not isinstance(ended, subprocess.TimeoutExpired):
                raise
            return subprocess.CompletedProcess(command, 124, "", "wall time limit exceeded")
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def exceeded(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a compiler ended because of a limit."""
    last = "\n".join(done.stderr.splitlines()[-5:])
    return done.returncode < 0 or (done.returncode != 0 and _EXHAUSTED.search(last) is not None)


def why() -> str:
    """The message for a compilation that exceeded a limit."""
    limit_s = processor_limit_s()
    return (
        f"the compiler was ended: more than {limit_s:g} s of processor time, {wall_limit_s(limit_s):g} s or "
        f"{MEMORY_BYTES >> 30} GiB; look for templates or constant expressions that grow without end, and at what it "
        "includes, or allow more: compile_timeout_s of [tool.peakgate]"
    )


def end_tree(process: int) -> None:
    """Kill a process and all its descendants; those are read from /proc while it is stopped."""
    for each in (process, *_descendants(process)):
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _descendants(process: int) -> list[int]:
    os.kill(process, signal.SIGSTOP)
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found = list(parents.get(process, ()))
    for each in found:
        found += parents.get(each, ())
    return found


ALLOWED_OPTIONS = re.compile(
    r"""
    (?:--define-macro=|-D\ ?)[A-Za-z_]\w*(?:\([\w,\ .]*\))?(?:=.*)?
    | (?:--undefine-macro=|-U\ ?)[A-Za-z_]\w*
    | (?:--std|-std)=c\+\+\d\d
    | (?:--gpu-architecture|-arch)=(?:sm|compute)_\d{2,3}[af]?
    | (?:--use_fast_math|-use_fast_math|--extra-device-vectorization|-extra-device-vectorization|--restrict|-restrict)
    | (?:--(?:ftz|prec-sqrt|prec-div|fmad)|-(?:ftz|prec-sqrt|prec-div|fmad))=(?:true|false)
    | (?:--maxrregcount|-maxrregcount)=\d{1,3}
    | (?:--ptxas-options|-Xptxas)[=\ ](?:-v|-O[0-3]|-d[ls]cm=c[agsvw]|--warn-[a-z-]+|--register-usage-level=\d{1,2}
        |--allow-expensive-optimizations=(?:true|false))
    | --?(?:device-debug|generate-line-info|lineinfo|device-int128|device-float128|minimal|disable-warnings|Wreorder
        |(?:no-)?display-error-number)
    | -G | -w | --?modify-stack-limit=(?:true|false) | --?jump-table-density=\d{1,3}
    | --?(?:builtin-move-forward|builtin-initializer-list)=(?:true|false)
    | (?:--diag-(?:error|suppress|warn)|-diag-(?:error|suppress|warn))=[\d,]+
    """,
    re.VERBOSE,
)
_INCLUDE_FOLDER = re.compile(r"(?:--include-path=|-I ?)(?P<folder>.+)")
_EXPECTED = (
    "macros, -std, -arch, -I of a folder of the project, or one that `peakgate help compiler options` lists, as "
    "--use_fast_math"
)


def objection_to(options: Sequence[str], source: Path) -> str | None:
    """Why a kernel is not compiled with these options; None where all are on the list.

    A list, because others write files (``--time=FILE``), read foreign ones (precompiled headers) or replace our own.
    Folders of includes are those of the project around ``source``, without one those below its folder.
    """
    if not options:
        return None
    from peakgate.core import config  # noqa: PLC0415  (few kernels have options; a process of NVRTC does without)

    project = config.find(source.parent.resolve())
    root = (project.root if project is not None else source.parent).resolve()
    for option in options:
        folder = _INCLUDE_FOLDER.fullmatch(option)
        inside = folder is not None and (root / folder["folder"]).resolve().is_relative_to(root)
        if not inside and (folder is not None or ALLOWED_OPTIONS.fullmatch(option) is None):
            return f"{source.name}: compiler option {option!r} is not allowed; expected {_EXPECTED}"
    return None
