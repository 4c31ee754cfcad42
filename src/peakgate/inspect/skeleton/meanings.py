"""What a name without a declaration means: its header or its definition, where every user of it means the same.

These are names of CUDA, C++ and PyTorch, and conventions such as ``CEIL_DIV``. A name that two projects may give two
meanings, such as ``warpReduceSum``, has none here.
"""

from __future__ import annotations

import re

from peakgate_emulator.headers import STANDARD_NAMES

_HEADERS = {
    "cuda_fp16.h": r"half2?|nv_half2?|__half\w*|__\w+2half\w*|"
    r"__h(?:add|sub|mul|div|fma|neg|abs|max|min|eq|ne|[gl][te])2?",
    "cuda_bf16.h": r"__nv_bfloat16\w*|nv_bfloat16\w*|__\w+2bfloat16\w*|__bfloat16\w+",
    "cuda_fp8.h": r"__nv_fp8\w*",
    "cuda_fp6.h": r"__nv_fp6\w*",
    "cuda_fp4.h": r"__nv_fp4\w*",
    "mma.h": r"nvcuda",
    "cooperative_groups.h": r"cooperative_groups",
    "cub/cub.cuh": r"cub",
    "curand_kernel.h": r"curand\w*",
    "cuComplex.h": r"cu(?:Float|Double)?Complex|make_cu\w*Complex|cuC(?:add|sub|mul|div|abs|real|imag|onj)f?",
    "math_constants.h": r"CUDART_\w+",
    **STANDARD_NAMES,
    "ATen/ATen.h": r"(?:at|c10|torch)(?:::\w+)*|C10_\w+|CUDA_KERNEL_(?:ASSERT|LOOP\w*)|gpuAtomicAdd\w*|"
    r"WARP_(?:SHFL|BALLOT)\w*",
}
"""By header, the names that it declares."""

_IN_GRID = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)"
_IN_PLANE = f"{_IN_GRID} for (int j = blockIdx.y * blockDim.y + threadIdx.y; j < (m); j += blockDim.y * gridDim.y)"
_CONVENTIONS = {
    r"k?_?WARP_?SIZE|k?WarpSize|k?_?WARP_THREADS|THREADS_PER_WARP": "#define {name} 32",
    r"FULL_(?:WARP_)?MASK|WARP_FULL_MASK|kFullMask": "#define {name} 0xffffffffu",
    r"CEIL_?DIV|DIV_?CEIL|I?DIV_?UP|CDIV": "#define {name}(a, b) (((a) + (b) - 1) / (b))",
    r"[ik]?(?:(?i:ceil_?div|div_?ceil|div_?up)|cdiv)": "template <class A, class B> __host__ __device__ constexpr auto "
    "{name}(A a, B b) {{ return (a + b - 1) / b; }}",
    r"MIN": "#define {name}(a, b) ((a) < (b) ? (a) : (b))",
    r"MAX": "#define {name}(a, b) ((a) > (b) ? (a) : (b))",
    r"(?:CUDA|GPU)_(?:1D_)?KERNEL_LOOP(?:_X)?|KERNEL_LOOP": f"#define {{name}}(i, n) {_IN_GRID}",
    r"(?:CUDA|GPU)_2D_KERNEL_LOOP": f"#define {{name}}(i, n, j, m) {_IN_PLANE}",
    r"(?i:kernel|device)_(?i:assert)": "#include <cassert>\n#define {name}(condition) assert(condition)",
    r"(?:CUDA_|GPU_)?RESTRICT": "#define {name} __restrict__",
    r"u(8|16|32|64)": "#include <cstdint>\nusing {name} = uint{0}_t;",
    r"[is](8|16|32|64)": "#include <cstdint>\nusing {name} = int{0}_t;",
    r"(u?int(?:8|16|32|64))": "#include <cstdint>\nusing {name} = {0}_t;",
    r"f32": "using {name} = float;",
    r"f64": "using {name} = double;",
    r"uchar": "using {name} = unsigned char;",
}
"""By name, what it means by convention; ``{0}`` is the pattern's group."""

_WHERE = "CUDA|GPU|NV|HOST|DEVICE|HD|DEV|FORCE|ALWAYS|INLINE|FUNC|FUNCTION"
_ANNOTATION = re.compile(f"(?:{_WHERE})(?:_?(?:{_WHERE}))*")
"""Macros before a function that say where it runs, and whether it is inline."""


def meaning(name: str) -> str | None:
    """The lines of C++ that declare a name, such as ``half`` or ``std::min``; None if they are not certain."""
    for header, names in _HEADERS.items():
        if re.fullmatch(names, name):
            return f"#include <{header}>"
    for names, text in _CONVENTIONS.items():
        if match := re.fullmatch(names, name):
            return text.format(*match.groups(), name=name)
    if _ANNOTATION.fullmatch(name):
        host, device = "HOST" in name or "HD" in name, re.search("DEV|HD|CUDA|GPU", name) is not None
        said = ["__host__"] * host + ["__device__"] * device + ["inline"] * ("INLINE" in name)
        if said:
            return f"#define {name} {' '.join(said)}"
    return None
