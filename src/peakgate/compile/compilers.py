"""What NVRTC compiles kernels with, header stand-ins and allowed options, and what its errors mean.

NVRTC has no host headers. Stand-ins for those that kernels include are in ``stand_ins/``, and in
``peakgate_emulator.headers`` for those that the emulator's compiler needs too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from peakgate_emulator.device_code import remedy
from peakgate_emulator.headers import FURTHER_WHEELS, INSTALL, cuda_folders, empty_names, texts_of, with_empty
from peakgate_emulator.sources import SourceFile, missing_header, no_such_kernel

STAND_INS = Path(__file__).with_name("stand_ins")

_FORWARDED = (
    *("algorithm", "array", "bit", "complex", "concepts", "functional", "initializer_list", "iterator", "limits"),
    *("numeric", "optional", "ratio", "span", "tuple", "type_traits", "utility", "variant"),
)
"""Headers of the C++ library that cuda::std provides for device code."""


@lru_cache
def nvrtc_headers() -> dict[str, str]:
    """The prelude and the stand-ins for NVRTC: each header's name and text."""
    forward = "#include <cuda/std/{0}>\nnamespace std {{ using namespace ::cuda::std; }}\n"
    texts = {**{name: forward.format(name) for name in _FORWARDED}, **texts_of(STAND_INS)}
    return with_empty(empty_names(), texts)


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
_OF_CUDA = re.compile(r"(?!cuda\w*\.cuh$)(?:cuda|cooperative|cub/|thrust/|nv/|mma)")
_INCLUDE_FOLDER = re.compile(r"(?:--include-path=|-I ?)(?P<folder>.+)")
_EXPECTED = (
    "macros, -std, -arch, -I of a folder of the project, or one that `peakgate help compiler options` lists, such as "
    "--use_fast_math"
)


def objection_to(options: Sequence[str], source: Path) -> str | None:
    """Why a kernel may not be compiled with these options; None if all are allowed.

    Only listed options are allowed, because others write files (``--time=FILE``), read any file (precompiled headers)
    or override Peakgate's own options. Include folders must be inside the project of ``source``, or inside the folder
    of ``source`` if it has no project.
    """
    if not options:
        return None
    from peakgate.base import config  # noqa: PLC0415  (few kernels have options; not needed in a compiler process)

    project = config.find(source.parent.resolve())
    root = (project.root if project is not None else source.parent).resolve()
    for option in options:
        folder = _INCLUDE_FOLDER.fullmatch(option)
        inside = folder is not None and (root / folder["folder"]).resolve().is_relative_to(root)
        if not inside and (folder is not None or ALLOWED_OPTIONS.fullmatch(option) is None):
            return f"{source.name}: compiler option {option!r} is not allowed; expected {_EXPECTED}"
    return None


_ERROR = re.compile(r"^(?P<file>[^(\n]+)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>.*)", re.MULTILINE)


def places_of_errors(log: str) -> list[tuple[str, int]]:
    """The file and the line of each of NVRTC's errors."""
    return [(match["file"], int(match["line"])) for match in _ERROR.finditer(log)]


def first_error(log: str, compiled_as: str, files: Sequence[SourceFile], entries: Sequence[str], cuda: int) -> str:
    """The compiler's first error in one line, with a remedy if one is known.

    ``compiled_as`` is the compiler's name for the first of the files; it gives the others by their path. ``cuda`` is
    the first number of its version.
    """
    source = files[0].path
    for match in _ERROR.finditer(log):
        if match["file"] == "__nv_name_map":
            text = match["text"]
            if 'template "peakgate_kernel"' in text:
                text = "several kernels have this name"
            entry = next((each for each in entries if each.partition("<")[0].rpartition("::")[2] in text), entries[0])
            return no_such_kernel(files, entry, f" ({text})")
        name = source.name if match["file"] == compiled_as else Path(match["file"]).name
        number = int(match["line"])
        # An error in a stand-in is reported at the line that includes it.
        included = ((file.path.name, at) for file in files for at, header in file.foreign if header == match["file"])
        name, number = next(included, (name, number))
        place = f"{source.parent.name}/{name}:{number}"
        return f"{place}: {match['text']}{advice(files, name, number, match['text'], cuda)}"
    return f"{source.parent.name}/{source.name}: {' '.join(log.split())[:300] or 'NVRTC failed without a message'}"


def advice(files: Sequence[SourceFile], name: str, line: int, message: str, cuda: int) -> str:
    """The remedy for a compiler's error, as ``; do this``; empty if none is known."""
    if header := missing_header(message):
        if wheel := next((wheel for start, wheel in FURTHER_WHEELS.items() if header.startswith(start)), None):
            return f"; a header of CUDA: install {wheel}, or set CUDA_HOME to a toolkit"
        if "/std/" in header or _OF_CUDA.match(header):
            if cuda_folders(cuda):
                return "; a header of CUDA that its wheels do not have: set CUDA_HOME to a toolkit"
            return f"; a header of CUDA: {INSTALL}"
    return remedy(files, name, line, message)
