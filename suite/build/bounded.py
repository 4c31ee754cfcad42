"""Limits for compilers: of time and memory, as compiling a source may not end, and of the options they are given.

Both compilers run in processes of their own under them: g++ or clang++ for the emulator through ``run``, NVRTC in
``nvrtc``. A legitimate kernel takes seconds and some hundred MB.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

CPU_S = 60
"""Processor time of one compilation: independent of what else the machine does."""
WALL_S = 100.0
"""Wall-time limit of one compilation, for a compiler that waits, for example on an included pipe."""
MEMORY_BYTES = 8 << 30
FILE_BYTES = 1 << 30

_EXHAUSTED = re.compile(
    r"memory exhausted|out of memory|Cannot allocate memory|bad_alloc|(?:time|size) limit|[Kk]illed|terminated program"
)
_SHELL = 'ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; ulimit -c 0; shift 3; exec "$@"'
"""Limits that are lower already stay: then ulimit fails, and the compiler starts all the same."""


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler under the limits; one that exceeds the wall time is killed with all it started.

    The exit code is 124 then.
    """
    limits = (str(CPU_S), str(MEMORY_BYTES >> 10), str(FILE_BYTES >> 9))
    process = subprocess.Popen(
        ["/bin/sh", "-c", _SHELL, "sh", *limits, *command],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    with process:
        try:
            output, errors = process.communicate(timeout=WALL_S)
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
    return (
        f"the compiler was ended: more than {CPU_S} s of processor time, {WALL_S:.0f} s or {MEMORY_BYTES >> 30} GiB; "
        "look for templates or constant expressions that grow without end, and at what it includes"
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
