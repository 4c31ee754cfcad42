"""Which options a project may give NVRTC: a list, because others write files, read foreign ones or replace our own.

NVRTC's ``--time=FILE`` writes a file of the kernel's choice, its precompiled headers are code that no source shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from peakgate.core import config

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

    Folders of includes are those of the project around ``source``, without one those below its folder.
    """
    if not options:
        return None
    project = config.find(source.parent.resolve())
    root = (project.root if project is not None else source.parent).resolve()
    for option in options:
        folder = _INCLUDE_FOLDER.fullmatch(option)
        inside = folder is not None and (root / folder["folder"]).resolve().is_relative_to(root)
        if not inside and (folder is not None or ALLOWED_OPTIONS.fullmatch(option) is None):
            return f"{source.name}: compiler option {option!r} is not allowed; expected {_EXPECTED}"
    return None
