"""``peakgate inspect sanitize``: run every kernel, on small and edge-size problems, under compute-sanitizer.

Exits 0 if no tool found an error, 1 if one did, 2 on bad arguments, 3 if the check could not run or finish. The
findings are written to ``sanitize.json``, the tools' own records to the folder ``sanitize``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from peakgate.base import config, progress
from peakgate.base.files import make_folder, open_output, remove_output
from peakgate.base.options import VerbParser, add_selection
from peakgate.base.processes import run_in_group
from peakgate.base.report import clear_verdict
from peakgate.base.streams import say
from peakgate.device import driver
from peakgate.inspect import add_verdict_folder, leave_not_checked
from peakgate.inspect.sanitize.report import read_report, report
from peakgate.judge import waivers
from peakgate.render import terminal
from peakgate.render.findings import leave_verdict
from peakgate.spec.catalogue import kernel_name, problems

SANITIZE_FILE = "sanitize.json"
SANITIZER = "compute-sanitizer"
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run the chosen tools, one process each, and return the exit code of the report."""
    chosen = _parser(verb).parse_args(arguments)
    clear_verdict(chosen.out / SANITIZE_FILE)
    cases = problems(chosen.text)
    functions = {name for case in cases for name in case.stage.functions}
    program = shutil.which(SANITIZER)
    reason = None
    if driver.gpu_count() == 0:
        reason = "no usable GPU on this machine; check nvidia-smi"
    elif program is None:
        reason = f"{SANITIZER} is not on PATH; it comes with the CUDA toolkit, add that toolkit's bin folder to PATH"
    if program is None or reason:
        return leave_not_checked(verb, str(reason), chosen.out / SANITIZE_FILE)

    printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"Version (\S+)", printed)
    version = match[1] if match else " ".join(printed.split())  # 2025.3.1.0
    folder = chosen.out / "sanitize"
    make_folder(folder)
    waivers_file = config.current().baselines / waivers.WAIVERS_FILE
    accepted, today = waivers.read(waivers_file).defects, datetime.now(UTC).date()
    tools, limit_s = [], config.current().sanitizer_timeout_s
    for name in dict.fromkeys(chosen.tools or SANITIZER_TOOLS):
        start = time.perf_counter()
        xml, log, journal = (folder / f"{name}.{kind}" for kind in ("xml", "log", "jsonl"))
        for left_over in (xml, log, journal):
            remove_output(left_over)
        target = [sys.executable, "-P", "-m", "peakgate.inspect.sanitize.launches", str(journal)]
        target += ["-k", chosen.text] if chosen.text else []
        with open_output(log, "wb") as stream:
            line = command_line(program, name, xml, sorted(functions), target)
            with progress.shown(f"{name}: running every kernel"):
                ended = run_in_group(line, limit_s, stdout=stream, stderr=subprocess.STDOUT)
        tool = read_report(name, xml, log, journal)
        if ended is None:
            unfinished = f"stopped after {limit_s:g} s, see {log}; allow more: the setting sanitizer_timeout_s"
            tool = replace(tool, unfinished=unfinished)
        tools.append(tool)
        say(f"{name}: {time.perf_counter() - start:.0f} s")
    whole = {tool.tool for tool in tools if tool.unfinished is None and not chosen.text}
    lines = {kernel_name(case): case.stage.source_line for case in cases}
    every = [replace(defect, source=lines.get(defect.key.kernel)) for tool in tools for defect in tool.defects]
    ruling = waivers.rule(every, accepted, lambda entry: entry.command in whole, today)
    found = report(tools, ruling)
    terminal.show(found)
    fields = {"sanitizer": version, **found.fields}
    annotations = [*ruling.annotations(waivers_file), *found.annotations]
    found = replace(found, fields=fields, annotations=annotations, entries=ruling.entries(accepted))
    return leave_verdict(found, chosen.out / SANITIZE_FILE)


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = VerbParser(
        prog=f"peakgate {verb}",
        description="Run every kernel under NVIDIA's compute-sanitizer, on the first GPU of CUDA_VISIBLE_DEVICES.",
        epilog="exit codes: 0 no defect, 1 a defect, 2 bad input, 3 something could not be checked",
    )
    parser.add_argument(
        "--tool",
        dest="tools",
        action="append",
        choices=SANITIZER_TOOLS,
        help="run only this tool, again for more (default: all four)",
    )
    add_selection(parser, default="")
    add_verdict_folder(parser)
    return parser


def command_line(program: str, tool: str, xml: Path, functions: Sequence[str], target: Sequence[str]) -> list[str]:
    """The command line that runs ``target`` under one tool; ``functions`` are the kernels to check.

    Each matches as a word of a mangled or a plain name: ``scale``, ``_Z7softmaxIfEvPT_``, ``softmax<float>(float*)``.

    Initcheck must instrument every kernel, because inputs are also written by kernels.
    """
    line = [program, "--tool", tool, "--xml", "--save", str(xml)]
    line += ["--target-processes", "application-only", "--show-backtrace", "no"]
    line += ["--print-limit", "10000"]
    # An error ends only its kernel, so that one run checks all of them; failed API calls are in the journal.
    line += ["--destroy-on-device-error", "kernel", "--report-api-errors", "no"]
    if tool == "memcheck":
        # Padding after every allocation, so that an overrun cannot hit a neighbouring allocation and look valid.
        line += ["--padding", "64"]
    if tool != "initcheck":
        line += ["--kernel-name", f"regex=(^|[^A-Za-z_])({'|'.join(sorted(set(functions)))})"]
    return [*line, *target]
