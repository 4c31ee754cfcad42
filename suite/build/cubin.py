"""From a .cu file to a cubin: NVRTC, no GPU and no CUDA toolkit needed, kept in a cache on disk.

The options are those of a plain ``nvcc`` build; what they are and which NVRTC compiled is part of the cache key and
of the run file, because the same source has taken 93 registers under one NVRTC and 106 under another.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from peakgate.case import Stage
from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole

Defines = tuple[tuple[str, str], ...]

OPTIONS = ("--std=c++17", "--ptxas-options=-v", "--device-as-default-execution-space", "--no-cache")
"""NVRTC's own cache answers without the log that tells the resources, so ours is the only one."""

CACHE_VARIABLE = "PEAKGATE_CACHE"

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_USAGE = re.compile(
    r"Compiling entry function '(?P<kernel>[^']+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas allots a kernel: registers, stack and spilled bytes a thread; static shared bytes a block."""

    registers: int
    stack_bytes: int
    spill_bytes: int
    static_shared_bytes: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of one stage for one architecture; ``fingerprint`` is equal when the code is."""

    path: Path
    fingerprint: str
    resources: Resources


class BuildError(PeakgateError):
    """A kernel that does not compile; the first line names file and line."""


def cache_folder() -> Path:
    """Where all that can be made again is kept: cubins, the emulator's builds, the index of saved runs.

    ``$PEAKGATE_CACHE``, else ``.cache`` in the working directory, where ``.benchmarks`` lies too; absolute.
    """
    return Path(os.environ.get(CACHE_VARIABLE) or ".cache").resolve()


def source_files(source: Path) -> list[Path]:
    """The file and every file it includes with quotes, in the order of first mention."""
    found: list[Path] = []
    waiting = [source]
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        found.append(path)
        waiting += [(path.parent / name).resolve() for name in _INCLUDE.findall(path.read_text(encoding="utf-8"))]
    return found


def cubin(stage: Stage, defines: Defines, capability: tuple[int, int]) -> Cubin:
    """Compile a stage for a compute capability, or take it from the cache.

    Raises BuildError with the compiler's first message when the source does not compile.
    """
    from peakgate.build import nvrtc  # noqa: PLC0415  (a machine without a GPU need not have it)

    source, options = _source_and_options(stage, defines, capability)
    key = _key(source, options, nvrtc.version())
    stem = cache_folder() / "cubin" / f"{stage.name}-{key}"
    code, notes = stem.with_suffix(".cubin"), stem.with_suffix(".json")
    if notes.exists() and code.exists():
        saved = json.loads(notes.read_text(encoding="utf-8"))
        return Cubin(code, saved["fingerprint"], Resources(**saved["resources"]))
    machine_code, resources = _compiled(stage.name, source, options)
    fingerprint = hashlib.sha256(machine_code).hexdigest()[:16]
    write_whole(code, machine_code)
    described = json.dumps({"fingerprint": fingerprint, "resources": asdict(resources), "options": options})
    write_whole(notes, described)
    return Cubin(code, fingerprint, resources)


def compiled_anew(stage: Stage, defines: Defines, capability: tuple[int, int]) -> Resources:
    """What the compiler gives a stage this time, whatever is in the cache, which is left as it is.

    NVRTC does not always give the same text the same code: what it does depends on where its own data happen to lie.
    Raises BuildError as ``cubin`` does.
    """
    return _compiled(stage.name, *_source_and_options(stage, defines, capability))[1]


def _source_and_options(stage: Stage, defines: Defines, capability: tuple[int, int]) -> tuple[Path, list[str]]:
    if stage.source is None:
        raise ValueError(f"stage {stage.name} is an operation of the device; it has no source to build")
    options = [*OPTIONS, f"--gpu-architecture=sm_{capability[0]}{capability[1]}"]
    options += [f"--define-macro={name}={value}" for name, value in defines]
    return stage.source, [*options, f"--include-path={stage.source.parent}"]


def _compiled(name: str, source: Path, options: Sequence[str]) -> tuple[bytes, Resources]:
    from peakgate.build import nvrtc  # noqa: PLC0415

    try:
        machine_code, log = nvrtc.compile_to_cubin(source.read_text(encoding="utf-8"), f"{name}.cu", options)
    except nvrtc.CompilationFailed as failure:
        raise BuildError(_first_error(str(failure), source)) from None
    return machine_code, parse_resources(log, name)


def parse_resources(log: str, kernel: str) -> Resources:
    """Read one kernel's resources from what ``ptxas -v`` printed; spills are stores plus loads."""
    for match in _USAGE.finditer(log):
        if match["kernel"] == kernel:
            shared = _SHARED.search(match["rest"])
            return Resources(
                registers=int(match["registers"]),
                stack_bytes=int(match["stack"]),
                spill_bytes=int(match["stores"]) + int(match["loads"]),
                static_shared_bytes=int(shared[1]) if shared else 0,
            )
    raise BuildError(f"{kernel}.cu has no entry point `{kernel}`: a stage's kernel carries the name of its file")


def _key(source: Path, options: Sequence[str], version: str) -> str:
    digest = hashlib.sha256()
    for path in source_files(source):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    options_but_paths = [option for option in options if not option.startswith("--include-path")]
    digest.update("\0".join([*options_but_paths, version]).encode())
    return digest.hexdigest()[:20]


def _first_error(log: str, source: Path) -> str:
    for line in log.splitlines():
        if match := re.match(r"(?P<file>[^(]+)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>.*)", line):
            return f"{source.parent.name}/{match['file']}:{match['line']}: {match['text']}"
    return f"{source.parent.name}/{source.name}: {' '.join(log.split())[:300] or 'NVRTC failed without a message'}"
