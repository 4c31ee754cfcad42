"""compute-sanitizer as a program: where it is, which version, how it is run over the launches."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from peakgate.common.processes import end_group

PROGRAM = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")

_PADDING_BYTES = 64
"""Kept free behind every allocation, so that an overrun cannot land in a neighbour and look legal."""
_RECORDS_LIMIT = 10_000


def find() -> str | None:
    """The path of compute-sanitizer; None where it is not on PATH."""
    return shutil.which(PROGRAM)


def version(program: str) -> str:
    """Its version, ``2025.3.1.0``; what it prints instead where that names none."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Version (\S+)", said)
    return match[1] if match else " ".join(said.split())


def command(program: str, tool: str, records: Path, functions: Sequence[str], target: Sequence[str]) -> list[str]:
    """The command line that runs ``target`` under one tool; ``functions`` are the kernels to check.

    They match as a word of a mangled or a plain name: ``scale``, ``_Z7softmaxIfEvPT_``, ``softmax<float>(float*)``.

    Initcheck must see every kernel: what fills the inputs is a kernel too, and unseen its writes would not count.
    """
    line = [program, "--tool", tool, "--xml", "--save", str(records)]
    line += ["--target-processes", "application-only", "--show-backtrace", "no"]
    line += ["--print-limit", str(_RECORDS_LIMIT)]
    # A kernel that is caught ends alone, so that one run checks them all; faults of calls are in the journal.
    line += ["--destroy-on-device-error", "kernel", "--report-api-errors", "no"]
    if tool == "memcheck":
        line += ["--padding", str(_PADDING_BYTES)]
    if tool != "initcheck":
        line += ["--kernel-name", f"regex=(^|[^A-Za-z_])({'|'.join(sorted(set(functions)))})"]
    return [*line, *target]


def launches(journal: Path, text: str, index: int) -> list[str]:
    """The target: this interpreter launching every problem."""
    line = [sys.executable, "-m", "peakgate.sanitize.launches", str(journal), "--index", str(index)]
    return [*line, "-k", text] if text else line


def run(line: Sequence[str], log: Path, limit_s: float) -> bool:
    """Run a command with its output in ``log``; False when it was stopped because it took longer than ``limit_s``."""
    with log.open("wb") as stream:
        # A session of its own: the target is the sanitizer's child and must end with it.
        process = subprocess.Popen(line, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        finally:
            end_group(process)
    return True
