"""The headers that kernels include, where there is no nvcc: small stand-ins, and CUDA's own where they are installed.

nvcc compiles kernels between a host's headers. A C++ compiler must not take those that redefine what CUDA offers by
itself, and NVRTC has none. So both find small stand-ins under the usual names: the files of ``stand_ins/``, in ``both``
and ``emulator`` (NVRTC's own are given by who uses it), and empty ones for those of ``empty.txt``. Without any include,
nvcc also offers ``uint``, ``INFINITY`` and the like: that is the prelude.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

INSTALL = "install the extra nvrtc, or set CUDA_HOME to a toolkit"
FURTHER_WHEELS = {"crt/": "nvidia-cuda-crt", "curand": "nvidia-curand"}
"""Headers of CUDA that not every extra brings, by how their names begin: wmma's, cuRAND's."""

PRELUDE = "peakgate_prelude.h"
STAND_INS = Path(__file__).with_name("stand_ins")

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


@lru_cache
def emulator_headers() -> dict[str, str]:
    """Name to text of the prelude and of each stand-in: a C++ compiler has most of its library by itself."""
    back = "#include <{0}>\nnamespace cuda {{ namespace std {{ using namespace ::std; }} }}\n"
    texts = {
        **texts_of(STAND_INS / "emulator"),
        **{name: f'#include "{own}"\n' for own, names in _OWN.items() for name in names},
        **dict.fromkeys(_OF_SYNC, '#include <utility>\n#include "cuda_sync.h"\n'),  # libcu++'s have std::move
        **{f"cuda/std/{name}": back.format(name) for name in _BACKWARD},
    }
    return with_empty({*empty_names(), *_EMPTY_EMULATED} - {*_OF_THE_COMPILER}, texts)


@lru_cache
def headers_beside_nvidia() -> dict[str, str]:
    """Those for the emulator where NVIDIA's own headers are in use: ``cuda::std`` is theirs but for atomics."""
    theirs = {f"cuda/std/{name}" for name in _BACKWARD}
    kept = {name: text for name, text in emulator_headers().items() if name not in theirs}
    return kept | _files(STAND_INS / "beside_nvidia")


def texts_of(folder: Path) -> dict[str, str]:
    """The files of one build, those that both have among them; its prelude ends with the mathematical functions."""
    found = {**_files(STAND_INS / "both"), **_files(folder)}
    found[PRELUDE] += found.pop("peakgate_math.h")
    return found


def _files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def empty_names() -> list[str]:
    """Headers for host code only, or that NVRTC and the emulator provide themselves."""
    return (STAND_INS / "empty.txt").read_text(encoding="utf-8").split()


def with_empty(empty: Iterable[str], texts: dict[str, str]) -> dict[str, str]:
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
