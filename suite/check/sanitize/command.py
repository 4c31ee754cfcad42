"""``peakgate sanitize``: every kernel, on small and edge-size problems, under the tools of compute-sanitizer.

Exits 0 when no tool found an error, 1 when one did, 2 on bad arguments, 3 when the check could not be made or did not
reach its end. The findings are left in ``sanitize.json``, the tools' own records beside it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from peakgate.check.sanitize.report import ToolReport, read_report, report
from peakgate.core import config, terminal
from peakgate.core.catalogue import problems
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.processes import run_in_group
from peakgate.core.report import Report, leave_verdict
from peakgate.core.selection import add_selection
from peakgate.core.text import counted, say
from peakgate.core.verdict import ExitCode
from peakgate.device import driver
from peakgate.judge import waivers

SANITIZE_FILE = "sanitize.json"
SANITIZER = "compute-sanitizer"
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")

_PADDING_BYTES = 64
"""Kept free behind every allocation, so that an overrun cannot land in a neighbour and look legal."""
_RECORDS_LIMIT = 10_000


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run the chosen tools, one process each; the exit code is the worst of theirs."""
    chosen = _parser().parse_args(arguments)
    chosen.out = chosen.out or config.near(config.current().out)
    functions = {name for case in problems(chosen.text) for name in case.stage.functions}
    program = shutil.which(SANITIZER)
    if reason := _missing(program, chosen.index):
        left = Report(verb, ExitCode.UNDECIDED, sentences=(f"not checked: {reason}",), fields={"reason": reason})
        terminal.show(left)
        return leave_verdict(left, chosen.out / SANITIZE_FILE)
    assert program is not None
    version = _version(program)
    folder = chosen.out / "sanitize"
    folder.mkdir(parents=True, exist_ok=True)
    accepted, today = waivers.read(config.current().baselines / waivers.WAIVERS_FILE).defects, datetime.now(UTC).date()
    tools = []
    for name in dict.fromkeys(chosen.tools or SANITIZER_TOOLS):
        start = time.perf_counter()
        tools.append(_check(program, name, functions, folder, chosen))
        say(f"{name}: {time.perf_counter() - start:.0f} s")
    whole = {tool.tool for tool in tools if tool.unfinished is None and not chosen.text}
    every = [defect for tool in tools for defect in tool.found]
    ruling = waivers.rule(every, accepted, lambda entry: entry.command in whole, today)
    offer = ruling.offer(accepted, config.near(config.current().baselines / waivers.WAIVERS_FILE))
    found = report(tools, ruling, offer)
    terminal.show(found)
    return leave_verdict(replace(found, fields={"sanitizer": version, **found.fields}), chosen.out / SANITIZE_FILE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="peakgate sanitize", description="Run every kernel under a sanitizer.")
    parser.add_argument(
        "--tool", dest="tools", action="append", choices=SANITIZER_TOOLS, help="one tool (default: all four)"
    )
    add_selection(parser, default="")
    parser.add_argument("--index", type=int, default=0, help="the CUDA device index (default: 0)")
    parser.add_argument("--limit-s", type=float, default=900, help="seconds a tool may take (default: 900)")
    parser.add_argument("--out", type=Path, help="folder for the verdict (default: the project's)")
    return parser


def _missing(program: str | None, index: int) -> str | None:
    count = driver.gpu_count()
    if count == 0:
        return "no GPU answers on this machine; check nvidia-smi"
    if not 0 <= index < count:
        raise PeakgateError(f"--index {index}: this machine has {counted(count, 'GPU')}, numbered from 0", Code.NO_GPU)
    if program is None:
        return f"{SANITIZER} is not on PATH; it comes with the CUDA toolkit, add that toolkit's bin folder to PATH"
    return None


def _check(program: str, name: str, functions: Iterable[str], folder: Path, chosen: argparse.Namespace) -> ToolReport:
    records, log, journal = (folder / f"{name}.{kind}" for kind in ("xml", "log", "jsonl"))
    for left_over in (records, log, journal):
        left_over.unlink(missing_ok=True)
    target = [
        sys.executable,
        "-P",
        "-m",
        "peakgate.check.sanitize.launches",
        str(journal),
        "--index",
        str(chosen.index),
    ]
    target += ["-k", chosen.text] if chosen.text else []
    with log.open("wb") as stream:
        line = command_line(program, name, records, sorted(functions), target)
        ended = run_in_group(line, chosen.limit_s, stdout=stream, stderr=subprocess.STDOUT)
    report = read_report(name, records, log, journal)
    if ended is None:
        report = replace(report, unfinished=f"stopped after {chosen.limit_s:g} s, see {log}; allow more with --limit-s")
    return report


def _version(program: str) -> str:
    """Its version, ``2025.3.1.0``; what it prints instead where that names none."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Version (\S+)", said)
    return match[1] if match else " ".join(said.split())


def command_line(program: str, tool: str, records: Path, functions: Sequence[str], target: Sequence[str]) -> list[str]:
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
