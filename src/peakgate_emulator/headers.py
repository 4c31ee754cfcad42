"""The headers that kernels include, without nvcc: small stand-ins, and CUDA's own if they are installed.

nvcc compiles kernels together with the host's headers. A C++ compiler must not use headers that redefine built-ins of
CUDA, and NVRTC has no headers. So both use small stand-ins with the usual names: the files of ``stand_ins/both`` and
``stand_ins/emulator`` (NVRTC's are in ``peakgate``), and empty ones for those in ``empty.txt``. The prelude provides
what nvcc defines without any include, such as ``uint`` and ``INFINITY``.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from peakgate_emulator.sources import SourceFile

INSTALL = "install the extra nvrtc, or set CUDA_HOME to a toolkit"
FURTHER_WHEELS = {"crt/": "nvidia-cuda-crt", "curand": "nvidia-curand"}
"""Wheels with headers that not every extra installs, by the beginning of the header's name: wmma's, cuRAND's."""

PRELUDE = "peakgate_prelude.h"
STAND_INS = Path(__file__).with_name("stand_ins")

_BACKWARD = (
    *("algorithm", "array", "cfloat", "climits", "cmath", "cstddef", "cstdint", "functional", "initializer_list"),
    *("limits", "numeric", "optional", "tuple", "type_traits", "utility", "variant"),
)
"""Headers of cuda::std for which the emulator uses the C++ library's."""

_OF_SYNC = tuple(
    f"cuda/{name}" for name in ("barrier", "atomic", "pipeline", "latch", "semaphore", "std/atomic", "std/latch")
)
_OF_SYNC += ("cuda/std/semaphore",)
_OWN = {
    "cuda_groups.h": [f"cooperative_groups{part}.h" for part in ("", "/reduce", "/scan", "/memcpy_async")],
    "cuda_half.h": [f"cuda_{kind}.{end}" for kind in ("fp16", "bf16") for end in ("h", "hpp")],
    "cuda_narrow.h": ["cuda_fp8.h", "cuda_fp6.h", "cuda_fp4.h"],
    "cuda_wmma.h": ["mma.h"],
    "cuda_complex.h": ["cuComplex.h"],
    "cuda_cub.h": ["cub/util_type.cuh"]
    + [f"cub/block/block_{what}.cuh" for what in ("reduce", "scan")]
    + [f"cub/warp/warp_{what}.cuh" for what in ("reduce", "scan")],
    "cuda_cub_sort.h": ["cub/cub.cuh", "cub/warp/warp_merge_sort.cuh"]
    + [f"cub/block/block_{what}.cuh" for what in ("load", "store", "exchange", "merge_sort", "radix_sort")],
}
"""Headers of the emulator that replace headers of CUDA."""
_EMPTY_EMULATED = (
    "complex",
    "complex.h",
    "cuda_device_runtime_api.h",
    "cuda_pipeline.h",
    "cuda_pipeline_primitives.h",
    "cub/util_type.cuh",
)
_OF_THE_COMPILER = ("stddef.h", "stdarg.h", "stdbool.h", "cstdarg")
"""Headers of the compiler that are not replaced: the C++ library needs them."""


@lru_cache
def emulator_headers() -> dict[str, str]:
    """Text of the prelude and of each stand-in, by name."""
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
    """The stand-ins for use with NVIDIA's own headers, which provide ``cuda::std`` except atomics."""
    theirs = {f"cuda/std/{name}" for name in _BACKWARD}
    kept = {name: text for name, text in emulator_headers().items() if name not in theirs}
    return kept | _files(STAND_INS / "beside_nvidia")


def texts_of(folder: Path) -> dict[str, str]:
    """The stand-ins of one build, including the common ones; its prelude ends with the mathematical functions."""
    found = {**_files(STAND_INS / "both"), **_files(folder)}
    found[PRELUDE] += found.pop("peakgate_math.h")
    return found


STANDARD_NAMES = {
    "cstdint": r"(?:std::)?u?int(?:8|16|32|64|ptr)_t|U?INT(?:8|16|32|64)_(?:MAX|MIN)",
    "cfloat": r"(?:FLT|DBL)_[A-Z0-9_]+",
    "climits": r"U?(?:CHAR|SHRT|INT|LONG|LLONG)_(?:MAX|MIN)|CHAR_BIT",
    "cassert": r"assert",
    "cstdio": r"printf",
    "cstring": r"mem(?:cpy|set)",
    "cmath": r"M_[A-Z0-9_]+|"
    r"std::(?:abs|sqrt|exp|log|pow|sin|cos|tanh?|fma|floor|ceil|round|is(?:nan|inf)|f(?:abs|max|min))",
    "cstddef": r"std::(?:size_t|ptrdiff_t|nullptr_t|byte)",
    "type_traits": r"std::(?:is_\w+|enable_if\w*|conditional\w*|remove_\w+|add_\w+|decay\w*|integral_constant|void_t|"
    r"(?:true|false)_type|make_(?:un)?signed\w*|underlying_type\w*|common_type\w*)",
    "limits": r"std::numeric_limits",
    "algorithm": r"std::(?:min|max|clamp)",
    "utility": r"std::(?:pair|make_pair|move|forward|declval|swap|exchange|(?:make_)?(?:index|integer)_sequence)",
    "array": r"std::array",
    "tuple": r"std::(?:tuple\w*|make_tuple|tie|get)",
    "iterator": r"std::(?:\w+_iterator_tag|iterator_traits)",
    "functional": r"std::(?:less|greater|less_equal|greater_equal|equal_to|plus|minus|multiplies|divides)",
    "unordered_map": r"std::hash",
    "thrust/tuple.h": r"thrust::(?:tuple\w*|make_tuple|tie|get)",
    "thrust/pair.h": r"thrust::(?:pair|make_pair)",
    "thrust/complex.h": r"thrust::complex",
}
"""By header of C or C++, the names that it declares, of those that device code or a type beside it may use."""

_OF_TORCH = re.compile(r"(?:ATen|c10|torch|THC)/.+")
_NAME = re.compile(r"(?:std\s*+::\s*+|thrust\s*+::\s*+)?[A-Za-z_]\w*+")
_OF_HOST = re.compile(
    r"pybind11/.+|Python\.h|cub/device/.+|thrust/.+|(?:sys|netinet|arpa|linux)/\w+\.h|"
    r"(?:dlfcn|grp|libgen|netdb|poll|pwd|spawn|syslog|termios|ucontext)\.h"
)
"""Headers of libraries and of the system that only host code uses."""


def host_headers(files: Iterable[SourceFile]) -> dict[str, str]:
    """Stand-ins for headers of host code that files include, by name; they precede the other stand-ins.

    PyTorch's bring its number types and macros to device code, those of Python, pybind11, Thrust and ``cub/device``
    nothing. Those of PyTorch, Thrust and the C++ library include the headers of other names that the files use, as the
    real ones do.
    """
    files = list(files)
    names = sorted({name for file in files for _, name in file.foreign})
    known = emulator_headers()
    texts = {name: "\n" for name in names if _OF_HOST.fullmatch(name) and name not in known}
    of_host = {name for name, text in known.items() if text == "\n" and "." not in name}
    of_host |= {name for name in texts if name.startswith("thrust/")}
    bringing = {
        name: _OF_TORCH.fullmatch(name) is not None for name in names if name in of_host or _OF_TORCH.match(name)
    }
    if not bringing:
        return texts
    words = {word for file in files for word in _NAME.findall(file.text)}
    std = "".join(
        f"#include <{header}>\n"
        for header, declared in STANDARD_NAMES.items()
        if header not in of_host and any(map(re.compile(declared).fullmatch, words))
    )
    torch = f"{std}#include <peakgate_torch.h>\n"
    if any(bringing.values()):
        torch += "".join(f"#undef {name}\n" for name in _macros_of_torch("\n".join(file.text for file in files)))
    return texts | {name: torch if of_torch else std or "\n" for name, of_torch in bringing.items()}


def _macros_of_torch(code: str) -> list[str]:
    """The macros of the stand-in for PyTorch's headers by whose names the code declares functions of its own."""
    macros = re.findall(r"#define (\w+)\(", (STAND_INS / "both/peakgate_torch.h").read_text(encoding="utf-8"))
    declared = r"(?<!\breturn)(?<!\belse)\s+{}\s*\(\s*(?:const\s+)?\w+[\s*&]+\w+\s*[,)=]"
    return [name for name in macros if name in code and re.search(rf"[\w>*&]{declared.format(name)}", code)]


def _files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def empty_names() -> list[str]:
    """Names of headers that are only for host code, or whose contents NVRTC and the emulator provide themselves."""
    return (STAND_INS / "empty.txt").read_text(encoding="utf-8").split()


def with_empty(empty: Iterable[str], texts: dict[str, str]) -> dict[str, str]:
    """The texts with include guards, and the empty headers."""
    guards = {name: f"PEAKGATE_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}" for name in texts}
    once = {name: f"#ifndef {guards[name]}\n#define {guards[name]}\n{text}#endif\n" for name, text in texts.items()}
    return {**dict.fromkeys(sorted(empty), "\n"), **once}


PROBED_HEADERS = ("cuda_fp16.h", "cuda/std/limits", "nv/target", "curand_kernel.h")
"""One header of each group: CUDA's, its C++ libraries' (two), cuRAND's; they identify the group's folder."""


@lru_cache
def cuda_folders(major: int) -> tuple[Path, ...]:
    """Folders of CUDA's own headers: the wheels of NVRTC's release, then $CUDA_HOME, $CUDA_PATH or a system toolkit.

    CUDA's headers and those of its C++ libraries (``cccl``) are looked for separately: PyTorch installs only the
    former.
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
"""Headers and their macros with the release."""


@lru_cache
def cuda_version(major: int) -> str:
    """The releases of those headers, for the key of a build that may include them."""
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
"""NVIDIA's own headers that compile for the emulator after ``cuda_library.h``: most of ``cuda::std``, ``cuda::ptx``,
cuRAND's device code. Their inline PTX is translated like a kernel's."""


def needs_nvidia(texts: Iterable[str]) -> bool:
    """Whether sources include a header for which the emulator needs NVIDIA's own."""
    own = emulator_headers()
    included = (name for text in texts for name in _NVIDIA_INCLUDE.findall(text))
    return any(NVIDIA_HEADER.fullmatch(name) and name not in own for name in included)


def nvidia_folders() -> tuple[Path, ...]:
    """Folders of NVIDIA's own headers, of the newest installed CUDA; empty if none is."""
    return cuda_folders(_newest())


def nvidia_version() -> str:
    """Their folders and releases, for the key of a build."""
    return f"{nvidia_folders()} {cuda_version(_newest())}"


@lru_cache
def _newest() -> int:
    return next((major for major in (13, 12) if cuda_folders(major)), 13)


def headers_with_ptx(texts: Iterable[str]) -> set[str]:
    """Names of those headers whose PTX the sources may use; ``cuda::ptx`` has files named after its functions."""
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
