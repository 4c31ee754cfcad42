"""``peakgate sanitize``: every kernel, on small and edge-size problems, under the tools of compute-sanitizer.

Exits 0 when no tool found an error, 1 when one did, 2 on bad arguments, 3 when the check could not be made or did not
reach its end. The findings are left in ``sanitize.json``, the tools' own records beside it.

``python -m peakgate.inspect.sanitize.command JOURNAL`` is what runs under the sanitizer. Each small problem is launched
once, nothing is timed and nothing compared: the sanitizer watches. The journal, a JSON object a line, records what was
launched even when a kernel takes the process with it: first the machine, then each problem before its launch, each
fault after it, at last ``{"done": true}``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peakgate.base import config
from peakgate.base.errors import BuildError, Code, PeakgateError, refused
from peakgate.base.files import make_folder, open_output, remove_output
from peakgate.base.options import VerbParser
from peakgate.base.processes import run_in_group
from peakgate.base.report import Report, leave_verdict
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode
from peakgate.device import driver
from peakgate.device.choose import gpu_indices
from peakgate.device.interface import KernelFault
from peakgate.inspect.sanitize.report import ToolReport, read_report, report
from peakgate.judge import waivers
from peakgate.render import terminal
from peakgate.spec.case import Case, Role
from peakgate.spec.catalogue import kernel_name, problems
from peakgate.spec.selection import add_selection

if TYPE_CHECKING:
    from peakgate.device.gpu import GpuDevice
    from peakgate.device.launcher import GpuLaunchable

SANITIZE_FILE = "sanitize.json"
SANITIZER = "compute-sanitizer"
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")

Note = Callable[[dict[str, Any]], None]

_PADDING_BYTES = 64
"""Kept free behind every allocation, so that an overrun cannot land in a neighbour and look legal."""
_RECORDS_LIMIT = 10_000


def main(verb: str, arguments: Sequence[str]) -> int:
    """Run the chosen tools, one process each; the exit code is the worst of theirs."""
    chosen = _parser().parse_args(arguments)
    chosen.out = chosen.out or config.near(config.current().out)
    functions = {name for case in problems(chosen.text) for name in case.stage.functions}
    program = shutil.which(SANITIZER)
    if reason := _missing(program, chosen.device):
        left = Report(verb, ExitCode.UNDECIDED, sentences=(f"not checked: {reason}",), fields={"reason": reason})
        terminal.show(left)
        return leave_verdict(left, chosen.out / SANITIZE_FILE)
    assert program is not None
    version = _version(program)
    folder = chosen.out / "sanitize"
    make_folder(folder)
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
    parser = VerbParser(prog="peakgate sanitize", description="Run every kernel under a sanitizer.")
    parser.add_argument(
        "--tool", dest="tools", action="append", choices=SANITIZER_TOOLS, help="one tool (default: all four)"
    )
    add_selection(parser, default="")
    _add_device(parser)
    parser.add_argument("--limit-s", type=float, default=900, help="seconds a tool may take (default: 900)")
    parser.add_argument("--out", type=Path, help="folder for the verdict (default: the project's)")
    return parser


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="gpu:0", help="gpu or gpu:N, N the CUDA device index (default: gpu:0)")
    parser.add_argument("--index", dest="device", type="gpu:{}".format, help=argparse.SUPPRESS)  # its name until 0.3


def _missing(program: str | None, device: str) -> str | None:
    if driver.gpu_count() == 0:
        return "no GPU answers on this machine; check nvidia-smi"
    if len(gpu_indices(device)) != 1:
        raise PeakgateError(f"--device {device}: expected one GPU, gpu or gpu:N", Code.OPTION)
    if program is None:
        return f"{SANITIZER} is not on PATH; it comes with the CUDA toolkit, add that toolkit's bin folder to PATH"
    return None


def _check(program: str, name: str, functions: Iterable[str], folder: Path, chosen: argparse.Namespace) -> ToolReport:
    records, log, journal = (folder / f"{name}.{kind}" for kind in ("xml", "log", "jsonl"))
    for left_over in (records, log, journal):
        remove_output(left_over)
    target = [sys.executable, "-P", "-m", "peakgate.inspect.sanitize.command", str(journal), "--device", chosen.device]
    target += ["-k", chosen.text] if chosen.text else []
    with open_output(log, "wb") as stream:
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


def _launch_all(device: GpuDevice, wanted: Iterable[Case], note: Note) -> None:
    """Launch each problem the device takes; a fault is noted, and ends the walk when the device is lost to it."""
    from peakgate.device.gpu import FAULTS  # noqa: PLC0415  (it needs CuPy, the command does not)

    for case in wanted:
        if device.refusal(case) is not None:
            continue
        named = {"case": case.id, "kernel": kernel_name(case), "functions": case.stage.functions}
        note(named)
        try:
            _launch(device.prepare(case))
        except (BuildError, KernelFault) as error:
            note({**named, "fault": str(error)})
        except FAULTS as fault:
            note({**named, "fault": str(device.faulted(case, fault))})
        if device.lost:
            return


def _launch(launchable: GpuLaunchable) -> None:
    """Launch once and wait; outputs are left unwritten, so that a kernel that reads what it should write is seen."""
    import cupy  # noqa: PLC0415  (as above)

    if any(buffer.role is Role.INOUT for buffer in launchable.case.buffers):
        launchable.run()
    else:
        launchable.launch()
        cupy.cuda.get_current_stream().synchronize()


def launched(arguments: Sequence[str]) -> int:
    """Launch what was asked for, under the sanitizer; 0 when the journal is complete, whatever it says."""
    import cupy  # noqa: PLC0415  (as above)

    from peakgate.device.gpu import GpuDevice  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m peakgate.inspect.sanitize.command")
    parser.add_argument("journal", type=Path)
    add_selection(parser, default="")
    _add_device(parser)
    chosen = parser.parse_args(arguments)
    with open_output(chosen.journal) as journal:

        def note(entry: dict[str, Any]) -> None:
            journal.write(json.dumps(entry) + "\n")
            journal.flush()

        # Without a pool every buffer is an allocation of its own, and memory past its end is unallocated.
        cupy.cuda.set_allocator(None)
        device = GpuDevice(*driver.named_gpus(chosen.device), guarded=False)
        note({"machine": device.describe()})
        wanted = problems(chosen.text)
        device.prebuild(wanted, checked=False)
        _launch_all(device, wanted, note)
        note({"done": True})
    return ExitCode.OK


if __name__ == "__main__":
    try:
        sys.exit(launched(sys.argv[1:]))
    except PeakgateError as error:
        sys.exit(refused(error))
