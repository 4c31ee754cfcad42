"""NVIDIA's own headers where the emulator has no stand-in: most of ``cuda::std``, ``cuda::ptx``, cuRAND's device code.

They are found as NVRTC finds them, in the wheels or a toolkit, and compiled for the host with what ``cuda_library.h``
has in front; their inline PTX is translated as a kernel's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from peakgate.build import headers

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]((?:cuda/|curand_)[\w/.]+)[>"]', re.MULTILINE)
HEADER = re.compile(r"cuda/(?:std/\w+|bit|cmath|iterator|numeric|ptx|type_traits|utility|warp)|curand_\w+\.h")
"""Those that compile for the emulator."""


def included(texts: Iterable[str]) -> bool:
    """Whether sources include a header that has to be NVIDIA's own."""
    own = headers.emulator_headers()
    return any(HEADER.fullmatch(name) and name not in own for text in texts for name in _INCLUDE.findall(text))


@lru_cache
def _major() -> int:
    """The newest CUDA whose headers are installed."""
    return next((major for major in (13, 12) if headers.cuda_folders(major)), 13)


def folders() -> tuple[Path, ...]:
    """Where these headers are; empty if none is installed."""
    return headers.cuda_folders(_major())


def version() -> str:
    """Which ones those are, for the key of a build."""
    return f"{folders()} {headers.cuda_version(_major())}"


def translates(texts: Iterable[str]) -> set[str]:
    """Names of such headers whose PTX sources may come to; that of ``cuda::ptx`` is in files named like functions."""
    written = "\n".join(texts)
    words = set(re.findall(r"\w+", written)) if "cuda/ptx" in written else set()
    begun = {start for word in words for start in _starts(word)}
    ptx = (path for folder in folders() for path in (folder / "cuda/__ptx/instructions").rglob("*.h"))
    named = {path.name for path in ptx if path.stem in begun or not words.isdisjoint(_starts(path.stem))}
    return named | {path.name for folder in folders() for path in folder.glob("curand_*.h")}


def _starts(name: str) -> list[str]:
    """``a_b_c``, ``a_b``, ``a``."""
    parts = name.split("_")
    return ["_".join(parts[:count]) for count in range(len(parts), 0, -1)]
