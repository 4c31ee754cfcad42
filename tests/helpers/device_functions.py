"""``python tests/helpers/device_functions.py VERSION FOLDER...``: the functions that headers declare for device code.

``cuda_device_functions.txt`` has what it prints of the headers of the wheels nvidia-cuda-crt and nvidia-cuda-runtime.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

RECORD = Path(__file__).parents[1] / "data" / "cuda_device_functions.txt"
HEADERS = (
    *("crt/math_functions.h", "crt/device_functions.h", "crt/device_double_functions.h", "crt/sm_70_rt.h"),
    *("crt/sm_80_rt.h", "crt/sm_90_rt.h", "device_atomic_functions.h", "vector_functions.h"),
    *("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"),
    *(f"sm_{number}_{what}.h" for number in (20, 30, 32, 35, 60, 61) for what in ("intrinsics", "atomic_functions")),
)
_DECLARED = re.compile(r"(?:\b__device__|\b__device_builtin__|\b__[A-Z]\w*_DECL__)[^;{}()]*?\b(?P<name>\w+)\s*\(")
_INTERNAL = re.compile(
    r"_[A-Za-z].*|__(?:is(?:inf|nan|finite)|finite|signbit|libcpp_|pow_helper|cmath_|cudaPush|nv_\w+_impl)\w*|"
    r"__(?:DOUBLE|FLOAT|NV|CUDA|DEPRECATED|u128)\w*|__noinv__|operator|defined|if|return|noexcept|alignas"
)
"""What the headers need for themselves."""


def declared(text: str) -> set[str]:
    """The names that a header declares, without its own."""
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    plain = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", plain, flags=re.MULTILINE | re.DOTALL)
    names = {match["name"] for match in _DECLARED.finditer(plain)}
    return {name for name in names if not _INTERNAL.fullmatch(name)}


def recorded() -> list[str]:
    """The names of the record."""
    return [line for line in RECORD.read_text().splitlines() if not line.startswith("#")]


if __name__ == "__main__":
    version, *folders = sys.argv[1:]
    found = [Path(folder, header) for folder in folders for header in HEADERS if Path(folder, header).is_file()]
    names = set().union(*(declared(path.read_text(encoding="utf-8", errors="replace")) for path in found))
    print(f"# Functions for device code that the headers of CUDA {version} declare, by device_functions.py.")  # noqa: T201
    print(*sorted(names), sep="\n")  # noqa: T201
