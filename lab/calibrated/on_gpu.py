"""``python -m lab.calibrated.on_gpu OUT [--saved]``: the calibrated suite under compute-sanitizer, on a GPU.

Takes at most 190 s. Outputs of the kernels in both folders ``digests`` come first, then synccheck and the other
tools, many processes at a time: each has a GPU context of its own. Processes leave their journals and logs in OUT as
they go; from these come ``TOOL.json`` (what each tool reports of each kernel), ``disagreements.json`` and a table of
where tools and emulator differ, and ``digests.json`` (the outputs on this GPU beside the emulator's).
Where a process was stopped without records, what the tool printed until then counts; a kernel that its tool did not
come to is not compared. ``--saved`` reads what an earlier run left in OUT again, without a GPU, and runs the emulator
anew.
Exits 1 where an output differs or a tool did not come to all of its kernels.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from lab.calibrated import outputs
from lab.calibrated.built import built
from lab.calibrated.emulated import RECORD
from lab.calibrated.kernels import kernels
from lab.calibrated.sanitized import MEANT_FOR, disagreements, for_tool, left_in, read
from lab.pages import ROOT, read_json
from peakgate.base.files import a_line_each, write_whole
from peakgate.base.processes import run_in_group
from peakgate.inspect.sanitize.command import SANITIZER, command_line

WHOLE_LIMIT_S = 190.0
RESTARTS = 8
PROCESS_LIMIT_S, HANGING_LIMIT_S = 90.0, 30.0
"""Processes share the GPU, with some that never end: less would stop slow ones."""
PROCESSES, PARTS = 12, 4
"""Processes at a time, and in how many a tool's kernels are divided that can share one."""


def start_outputs(device: str, out: Path) -> subprocess.Popen[bytes]:
    """A process that writes what the kernels of both folders ``digests`` put out on a device."""
    line = [sys.executable, "-m", "lab.calibrated.outputs", device, str(out / f"{device}.npz")]
    with (out / f"{device}.log").open("wb") as log:
        return subprocess.Popen(line, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)


def end(process: subprocess.Popen[bytes], limit_s: float) -> None:
    """Wait so long for a process, then end it."""
    try:
        process.wait(max(limit_s, 0))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_tool(program: str, tool: str, names: Sequence[str], folder: Path, deadline: float) -> None:
    """Run these kernels under a tool; a process that dies is followed by one for the rest."""
    left = list(names)
    for attempt in range(RESTARTS):
        limit_s = min(HANGING_LIMIT_S if len(names) == 1 else PROCESS_LIMIT_S, deadline - time.monotonic())
        if not left or limit_s <= 0:
            return
        stem = folder / f"{tool}-{names[0]}-{attempt}"
        target = [sys.executable, "-m", "lab.calibrated.launches", str(stem.with_suffix(".jsonl")), *left]
        line = command_line(program, tool, stem.with_suffix(".xml"), left, target)
        with stem.with_suffix(".log").open("wb") as log:
            run_in_group(line, limit_s, stdout=log, stderr=subprocess.STDOUT)
        found = read(stem)
        left = [name for name in left if name not in found]
        if not found:
            return


def jobs() -> list[tuple[str, list[str]]]:
    """A tool and the kernels of one process, in the order in which they are to begin."""
    found: list[tuple[str, list[str]]] = []
    for tool in MEANT_FOR:
        together, alone = for_tool(tool)
        found += [(tool, together[part::PARTS]) for part in range(PARTS)]
        found += [(tool, [name]) for name in alone]
    return found


def run(out: Path) -> None:
    """Leave in ``out`` what both devices put out and what the tools report."""
    import cupy  # noqa: PLC0415  (``--saved`` needs none)

    start = time.monotonic()
    deadline = start + WHOLE_LIMIT_S
    program = shutil.which(SANITIZER)
    if program is None:
        print("compute-sanitizer is not on PATH: outputs only")  # noqa: T201
    real, emulated = start_outputs("gpu", out), start_outputs("cpu", out)
    text = cupy.cuda.Device(0).compute_capability
    capability = int(text[:-1]), int(text[-1])
    by_name = {kernel.name: kernel for kernel in kernels()}
    wanted = jobs() if program else []
    order = dict.fromkeys(name for _, names in wanted for name in names)
    # NVRTC compiles one program at a time in a process.
    compilers = ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn"))
    with ThreadPoolExecutor(PROCESSES) as pool:
        builds = {name: compilers.submit(built, by_name[name], capability) for name in order}
        end(real, deadline - time.monotonic())
        print(f"outputs: {time.monotonic() - start:.0f} s", flush=True)  # noqa: T201

        def job(tool: str, names: Sequence[str]) -> str:
            assert program is not None
            # One that does not build is a fault in the journal.
            wait([builds[name] for name in names], deadline - time.monotonic())
            try:
                run_tool(program, tool, names, out, deadline)
            except OSError as error:
                return f"{tool}: {names[0]}: {error}"
            return f"{tool}: {len(names)} kernels from {names[0]}"

        running: list[Future[str]] = [pool.submit(job, *each) for each in wanted]
        for done in as_completed(running):
            print(f"{time.monotonic() - start:.0f} s: {done.result()}", flush=True)  # noqa: T201
    compilers.shutdown(cancel_futures=True)
    end(emulated, deadline - time.monotonic())


def compared_outputs(out: Path) -> bool:
    """Write the digests of both devices; whether all are equal."""
    found = outputs.rows(outputs.read(out / "cpu.npz"), outputs.read(out / "gpu.npz"))
    equal = bool(found) and all(row["equal"] for row in found.values())
    write_whole(out / "digests.json", a_line_each({"equal": equal}, "outputs", found))
    for name, row in found.items():
        if not row["equal"]:
            print(f"output {name} differs: {row}", flush=True)  # noqa: T201
    print(f"outputs: {sum(row['equal'] for row in found.values())} of {len(found)} equal")  # noqa: T201
    return equal


def compared(out: Path) -> int:
    """Write what each tool reports and where it and the emulator differ; the exit code."""
    equal, complete = compared_outputs(out), True
    outcome = {tool: left_in(out, tool) for tool in MEANT_FOR}
    for tool, found in outcome.items():
        missing = [name for names in for_tool(tool) for name in names if name not in found]
        complete = complete and not missing
        facts: Mapping[str, Any] = {"tool": tool, "whole": not missing, "not_run": missing}
        write_whole(out / f"{tool}.json", a_line_each(facts, "kernels", found))
        objected = sum(bool(entry["errors"]) for entry in found.values())
        print(f"{tool}: {len(found)} kernels, objects to {objected}, {len(missing)} not run", flush=True)  # noqa: T201
    ours = read_json(RECORD)["kernels"]
    differ = disagreements(outcome, ours)
    write_whole(out / "disagreements.json", a_line_each({"kernels": len(kernels())}, "differ", differ))
    for row in differ:
        print(  # noqa: T201
            f"{row['label']:<10} {row['kernel']}: emulator: {', '.join(row['emulator']) or 'nothing'}; "
            f"compute-sanitizer: {', '.join(row['tools']) or 'nothing'}; "
            f"warnings of {', '.join(row['warned']) or 'none'}"
        )
    return 0 if equal and complete else 1


def main(out: Path, saved: bool) -> int:
    """Run everything, or read again what an earlier run left."""
    out.mkdir(parents=True, exist_ok=True)
    if saved:
        end(start_outputs("cpu", out), WHOLE_LIMIT_S)
    else:
        run(out)
    return compared(out)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), "--saved" in sys.argv[2:]))
