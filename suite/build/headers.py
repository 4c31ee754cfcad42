"""The headers kernels include: CUDA's own where they are installed, and stand-ins for the host compiler's.

nvcc compiles kernels between a host's headers; NVRTC has none, and the emulator must not take those that redefine what
CUDA offers by itself. So both find small stand-ins under the usual names. Without any include, nvcc also offers
``uint``, ``INFINITY`` and the like: that is the prelude.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np

INSTALL = "install the extra nvrtc, or set CUDA_HOME to a toolkit"
FURTHER_WHEELS = {"crt/": "nvidia-cuda-crt", "curand": "nvidia-curand"}
"""Headers of CUDA that not every extra brings, by how their names begin: wmma's, cuRAND's."""

PRELUDE = "peakgate_prelude.h"

_CUB = "".join(
    f"#if __has_include(<cub/{name}.cuh>)\n#include <cub/{name}.cuh>\n#endif\n"
    for name in (
        *(
            f"block/block_{what}"
            for what in ("reduce", "scan", "load", "store", "exchange", "radix_sort", "discontinuity")
        ),
        *(f"warp/warp_{what}" for what in ("reduce", "scan")),
    )
)
"""The parts of <cub/cub.cuh> for blocks and warps: NVRTC refuses the whole, most of which is for the host."""

_CLAMP = """template <class T> __device__ constexpr const T& clamp(const T& v, const T& low, const T& high) {
    return v < low ? low : high < v ? high : v;
}
"""
_SMALLEST = f"""#include <cuda/std/utility>
namespace std {{
using namespace ::cuda::std;
template <class T> __device__ constexpr const T& min(const T& a, const T& b) {{ return b < a ? b : a; }}
template <class T> __device__ constexpr const T& max(const T& a, const T& b) {{ return a < b ? b : a; }}
{_CLAMP}}} // namespace std
"""
"""The part of <algorithm> that kernels use, for CUDA 13.0, whose libcu++ has no such header."""

_FORWARDED = (
    *("algorithm", "array", "bit", "complex", "concepts", "functional", "initializer_list", "iterator", "limits"),
    *("numeric", "optional", "ratio", "span", "tuple", "type_traits", "utility", "variant"),
)
"""Headers of the C++ library that cuda::std has for device code."""

_EMPTY = (
    *("cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "vector_types.h", "vector_functions.h"),
    *("driver_types.h", "builtin_types.h", "math_functions.h", "device_functions.h", "device_atomic_functions.h"),
    *("sm_30_intrinsics.h", "sm_35_intrinsics.h", "sm_60_atomic_functions.h", "cuda_profiler_api.h", "helper_math.h"),
    *("cublas_v2.h", "cublas.h", "cublasLt.h", "curand.h", "cufft.h", "cusparse.h", "cusolverDn.h", "cudnn.h"),
    *("torch/extension.h", "torch/types.h", "torch/all.h", "torch/library.h", "torch/python.h", "ATen/ATen.h"),
    *("ATen/cuda/CUDAContext.h", "c10/cuda/CUDAGuard.h", "c10/cuda/CUDAStream.h", "c10/cuda/CUDAException.h"),
    *("nvrtc.h", "nvml.h", "nccl.h", "mpi.h", "omp.h", "nvtx3/nvToolsExt.h", "nvToolsExt.h"),
    *("assert.h", "cassert", "stdio.h", "cstdio", "stdlib.h", "string.h", "stddef.h", "errno.h", "ctype.h", "time.h"),
    *("ctime", "cerrno", "cctype", "cstdarg", "stdarg.h", "stdbool.h", "signal.h", "locale.h", "unistd.h"),
    *("sys/time.h", "sys/stat.h", "sys/types.h", "iostream", "fstream", "sstream", "ostream", "istream", "iomanip"),
    *("string", "string_view", "vector", "list", "map", "set", "deque", "queue", "stack", "unordered_map"),
    *("unordered_set", "chrono", "thread", "mutex", "future", "condition_variable", "random", "memory", "exception"),
    *("stdexcept", "system_error", "filesystem", "regex", "atomic", "new", "typeinfo", "sched.h", "pthread.h"),
    *(
        "clocale",
        "ios",
        "bitset",
        "valarray",
        "any",
        "malloc.h",
        "getopt.h",
        "dirent.h",
        "fcntl.h",
        "channel_descriptor.h",
    ),
    *("texture_types.h", "surface_types.h", "cuda_texture_types.h", "texture_fetch_functions.h", "surface_functions.h"),
    *(
        f"thrust/{name}.h"
        for name in (
            *("host_vector", "device_vector", "device_ptr", "device_malloc", "device_free", "execution_policy", "sort"),
            *("reduce", "transform_reduce", "scan", "copy", "fill", "sequence", "transform", "for_each", "generate"),
            *("extrema", "unique", "remove", "count", "find", "binary_search", "gather", "scatter", "merge"),
            *("inner_product", "iterator/counting_iterator", "iterator/zip_iterator", "iterator/transform_iterator"),
            *("iterator/constant_iterator", "iterator/discard_iterator", "system/cuda/execution_policy"),
        )
    ),
)
"""Headers for host code only, or that NVRTC and the emulator provide themselves."""

_WITH_HALVES = ("cublas_v2.h", "cublas.h", "cublasLt.h")
"""Transitive includes of the toolkit's headers, which kernels rely on."""

_HALVES = "#if __has_include(<cuda_bf16.h>)\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#endif\n"

_FFT = (
    "#include <cuComplex.h>\ntypedef float cufftReal;\ntypedef double cufftDoubleReal;\n"
    "typedef cuComplex cufftComplex;\ntypedef cuDoubleComplex cufftDoubleComplex;\n"
)
"""The elements of transforms."""

_STRINGS = (
    'extern "C" {\n'
    + "".join(
        f"{result} {name}({parameters}) noexcept;\n"
        for result, name, parameters in (
            ("size_t", "strlen", "const char*"),
            ("int", "strcmp", "const char*, const char*"),
            ("int", "strncmp", "const char*, const char*, size_t"),
            ("char*", "strcpy", "char*, const char*"),
            ("char*", "strncpy", "char*, const char*, size_t"),
        )
    )
    + "}\n"
)
"""Macros before functions of types that exist on the host and on the device."""

_THREADS = "typedef unsigned long pthread_t, pthread_mutex_t, pthread_cond_t;\n"
"""Names in the declarations of host functions beside kernels."""

_WHOLE_LIBRARY = "".join(
    f"#include <{name}>\n"
    for name in ("algorithm", "cmath", "cstdint", "cstdlib", "cstring", "limits", "type_traits", "utility")
)
"""The part of <bits/stdc++.h> that kernels use."""

_OPERATORS = {
    **{name: f"T operator()(const T& a, const T& b) const {{ return a {sign} b; }}" for name, sign in (
        ("plus", "+"), ("minus", "-"), ("multiplies", "*"), ("divides", "/"), ("modulus", "%"), ("bit_and", "&"),
        ("bit_or", "|"), ("bit_xor", "^"))},
    **{name: f"bool operator()(const T& a, const T& b) const {{ return a {sign} b; }}" for name, sign in (
        ("less", "<"), ("greater", ">"), ("less_equal", "<="), ("greater_equal", ">="), ("equal_to", "=="),
        ("not_equal_to", "!="), ("logical_and", "&&"), ("logical_or", "||"))},
}  # fmt: skip
_FUNCTIONAL = "".join(
    (
        "namespace std {\n",
        *(f"template <class T = void> struct {n} {{ constexpr {b} }};\n" for n, b in _OPERATORS.items()),
        "}\n",
    )
)
"""The part of <functional> that kernels use; g++'s needs run-time type information."""

_EXCEPTION = """#include <utility>
#ifdef __GLIBCXX__
namespace std {
struct exception {
    virtual ~exception() {}
    virtual const char* what() const noexcept { return ""; }
};
}
#endif
"""
"""The base of classes that g++'s <functional>, <optional> and <variant> declare."""

_OF_SYNC = ("cuda/barrier", "cuda/atomic", "cuda/pipeline", "cuda/std/atomic")

_OF_THE_COMPILER = ("stddef.h", "stdarg.h", "stdbool.h", "cstdarg")
"""Harmless in the emulator, and its C++ library is built on them."""

_MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh"),
    *("erf", "erfc", "exp", "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "hypot"),
    *("isfinite", "isinf", "isnan", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "pow", "remainder"),
    *("rint", "round", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc"),
)
_INTEGERS = tuple(f"{sign}int{bits}_t" for bits in (8, 16, 32, 64) for sign in ("", "u"))

_NVRTC_PRELUDE = """#pragma once
namespace std {}
typedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t;
typedef unsigned long long uint64_t;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
"""

_PI = {
    "E": "2.7182818284590452354",
    "LOG2E": "1.4426950408889634074",
    "LOG10E": "0.43429448190325182765",
    "LN2": "0.69314718055994530942",
    "LN10": "2.30258509299404568402",
    "PI": "3.14159265358979323846",
    "PI_2": "1.57079632679489661923",
    "PI_4": "0.78539816339744830962",
    "1_PI": "0.31830988618379067154",
    "2_PI": "0.63661977236758134308",
    "2_SQRTPI": "1.12837916709551257390",
    "SQRT2": "1.41421356237309504880",
    "SQRT1_2": "0.70710678118654752440",
}
_OF_INTEGERS = ("sqrt", "cbrt", "ceil", "floor", "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh")


def math_constants() -> str:
    """``M_PI`` and its kin, as macros."""
    return "".join(f"#define M_{name} {value}\n" for name, value in _PI.items())


def math_of_integers() -> str:
    """``sqrt(int)`` and its kin, which nvcc takes from the host's library: the double function."""
    types = ("int", "unsigned", "long", "unsigned long", "long long", "unsigned long long")
    return "".join(
        f"inline double {name}({integer} x) {{ return {name}(static_cast<double>(x)); }}\n"
        for name in _OF_INTEGERS
        for integer in types
    )


def _using(names: Iterable[str]) -> str:
    return "namespace std {\n" + "".join(f"using ::{name};\n" for name in names) + "}\n"


def host_names() -> str:
    """Names of ``std`` without an include: nvcc takes them from the host's library."""
    return _using((*_INTEGERS, "intptr_t", "uintptr_t", "size_t", "ptrdiff_t", "min", "max", "abs"))


def _limits_of_floats() -> str:
    """<cfloat>'s macros where libcu++'s header does not define them under NVRTC, as CUDA 13.0's does not."""
    lines = []
    for name, dtype, suffix, mantissa_bits, exponent in (
        ("FLT", "float32", "f", 24, 38),
        ("DBL", "float64", "", 53, 308),
    ):
        info = np.finfo(dtype)
        values = {
            "MAX": f"{float(info.max)!r}{suffix}",
            "MIN": f"{float(info.tiny)!r}{suffix}",
            "EPSILON": f"{float(info.eps)!r}{suffix}",
            "DIG": f"{info.precision}",
            "MANT_DIG": f"{mantissa_bits}",
            "MAX_10_EXP": f"{exponent}",
        }
        lines += [f"#ifndef {name}_{key}\n#define {name}_{key} {value}\n#endif\n" for key, value in values.items()]
    return "".join(lines)


@lru_cache
def nvrtc_headers() -> dict[str, str]:
    """Name to text of the prelude and of each stand-in, as NVRTC takes them."""
    forward = "#include <cuda/std/{0}>\nnamespace std {{ using namespace ::cuda::std; }}\n"
    own = {
        PRELUDE: _NVRTC_PRELUDE + math_constants() + math_of_integers(),
        **dict.fromkeys(("cmath", "math.h"), _using((*_MATH, "abs"))),
        **dict.fromkeys(("cstdint", "stdint.h"), "#include <cuda/std/cstdint>\n" + _using(_INTEGERS)),
        **dict.fromkeys(("cfloat", "float.h"), "#include <cuda/std/cfloat>\n" + _limits_of_floats()),
        **dict.fromkeys(("climits", "limits.h"), "#include <cuda/std/climits>\n"),
        "cstddef": "namespace std { using ::size_t; using ::ptrdiff_t; }\n",
        "cstdlib": _using(("abs",)),
        "cstring": _using(("memcpy", "memset")),
        "pthread.h": _THREADS,
        "bits/stdc++.h": _WHOLE_LIBRARY,
        "cufft.h": _FFT,
        "cub/cub.cuh": _CUB,
    }
    return {
        **dict.fromkeys(_EMPTY, "\n"),
        **dict.fromkeys(_WITH_HALVES, _HALVES),
        **{name: forward.format(name) for name in _FORWARDED},
        "algorithm": f"#if __has_include(<cuda/std/algorithm>)\n{forward.format('algorithm')}#else\n{_SMALLEST}"
        "#endif\n",
        **{name: _once(name, text) for name, text in own.items()},
    }


_OF_CUB = (
    "cub/cub.cuh",
    *(f"cub/block/block_{what}.cuh" for what in ("reduce", "scan", "load", "store")),
    *(f"cub/warp/warp_{what}.cuh" for what in ("reduce", "scan")),
)


@lru_cache
def emulator_headers() -> dict[str, str]:
    """The same for the emulator, whose compiler has most of the C++ library; what clashes with CUDA's words is here."""
    twins = {
        "cuda_groups.h": ("", "/reduce", "/scan", "/memcpy_async"),
        "cuda_half.h": ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp16.hpp", "cuda_bf16.hpp"),
    }
    own = {
        **dict.fromkeys(("cmath", "math.h"), _using((*_MATH, "abs"))),
        "cstdlib": "#include <utility>\n" + _using(("abs", "min", "max")),
        "algorithm": "#include <utility>\n" + _using(("min", "max")) + f"namespace std {{\n{_CLAMP}}}\n",
        **dict.fromkeys(("cstring", "string.h"), _STRINGS),
        "exception": _EXCEPTION,
        **dict.fromkeys(("new", "typeinfo"), "#include <exception>\n"),
        "iterator": "#include <array>\n",
        "functional": "#include <utility>\n#ifdef __GLIBCXX__\n"
        f"{_FUNCTIONAL}#else\n#include_next <functional>\n#endif\n",
        **dict.fromkeys(("cufft.h", "cufftXt.h"), _FFT),
        **dict.fromkeys(("complex", "complex.h"), ""),
        "bits/stdc++.h": _WHOLE_LIBRARY,
        "pthread.h": _THREADS,
        "sys/time.h": 'struct timeval { long tv_sec, tv_usec; };\nextern "C" int gettimeofday(timeval*, void*);\n',
        "stdexcept": "#ifdef _LIBCPP_VERSION\nnamespace std {\n"
        "[[noreturn]] inline void __throw_out_of_range(const char*) { __builtin_trap(); }\n"
        "[[noreturn]] inline void __throw_length_error(const char*) { __builtin_trap(); }\n}\n#endif\n",
        "math_constants.h": "#define CUDART_INF_F INFINITY\n#define CUDART_NAN_F NAN\n#define CUDART_INF HUGE_VAL\n"
        "#define CUDART_PI_F 3.141592654f\n#define CUDART_PI 3.1415926535897931\n",
        **{f"cooperative_groups{part}.h": '#include "cuda_groups.h"\n' for part in twins["cuda_groups.h"]},
        **dict.fromkeys((*twins["cuda_half.h"], *_WITH_HALVES), '#include "cuda_half.h"\n'),
        **dict.fromkeys(("cuda_fp8.h", "cuda_fp4.h"), '#include "cuda_narrow.h"\n'),
        "mma.h": '#include "cuda_wmma.h"\n',
        "cuComplex.h": '#include "cuda_complex.h"\n',
        **dict.fromkeys(_OF_CUB, '#include "cuda_cub.h"\n'),
        **dict.fromkeys(_OF_SYNC, '#include <utility>\n#include "cuda_sync.h"\n'),  # libcu++'s have std::move
        **dict.fromkeys(("cuda_pipeline.h", "cuda_pipeline_primitives.h"), ""),
        "cuda.h": "#define CUDA_VERSION CUDART_VERSION\n"
        "typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;\n",
    }
    in_cuda_std = (
        *(
            "limits",
            "type_traits",
            "utility",
            "cstdint",
            "array",
            "tuple",
            "algorithm",
            "cmath",
            "cstddef",
            "functional",
        ),
        *("optional", "variant", "initializer_list", "numeric", "climits", "cfloat"),
    )
    return {
        **dict.fromkeys((name for name in _EMPTY if name not in _OF_THE_COMPILER), "\n"),
        **{name: _once(name, text) for name, text in own.items()},
        **{
            f"cuda/std/{name}": _once(
                f"std_{name}", f"#include <{name}>\nnamespace cuda {{ namespace std {{ using namespace ::std; }} }}\n"
            )
            for name in in_cuda_std
        },
    }


_TARGET = """#pragma push_macro("__CUDACC_RTC__")
#undef __CUDACC_RTC__
#include_next <nv/target>
#pragma pop_macro("__CUDACC_RTC__")
"""
"""NVRTC needs only a part of it, a host compiler all."""


@lru_cache
def headers_beside_nvidia() -> dict[str, str]:
    """Those for the emulator where NVIDIA's own headers are in use: ``cuda::std`` is theirs but for atomics."""
    theirs = {name for name in emulator_headers() if name.startswith("cuda/std/")} - {*_OF_SYNC}
    kept = {name: text for name, text in emulator_headers().items() if name not in theirs}
    return {**kept, "nv/target": _TARGET}


def _once(name: str, text: str) -> str:
    guard = "PEAKGATE_" + re.sub(r"\W", "_", name).upper()
    return f"#ifndef {guard}\n#define {guard}\n{text}#endif\n"


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
