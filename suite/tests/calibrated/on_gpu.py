"""``python suite/tests/calibrated/on_gpu.py OUT [--saved]``: the calibrated suite under compute-sanitizer, on a GPU.

Writes into OUT as it goes: ``TOOL.json`` (what each tool reports of each kernel), ``disagreements.json`` and a table of
where tools and emulator differ, and ``digests.json`` (the outputs of the kernels in ``digests/`` on this GPU beside the
emulator's). Takes about five minutes. Where a process was stopped without records, what the tool printed until then
counts; a kernel that its tool did not come to is not compared. ``--saved`` reads what an earlier run left in OUT again,
without a GPU. Exits 1 where a digest differs or a tool did not come to all of its kernels.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from calibrated.emulated import RECORD
from calibrated.kernels import BOUNDS, CLEAN, DIVERGENT, RACY, Kernel, kernels
from peakgate.common.files import a_line_each, write_whole
from peakgate.sanitize import tool as sanitizer
from peakgate.sanitize.report import read_records

HERE = Path(__file__).parent
MEANT_FOR = {"memcheck": BOUNDS, "racecheck": RACY, "synccheck": DIVERGENT, "initcheck": None}
"""Which kernels a tool is expected to object to."""
RESTARTS = 8
PROCESS_LIMIT_S, HANGING_LIMIT_S, TOOL_LIMIT_S = 40.0, 15.0, 45.0
PRINTED = re.compile(r"^=+ (?P<what>.+)\n=+ +at (?P<kernel>\w+)\+\S+ in (?P<where>\w+\.cu:\d+)$", re.MULTILINE)
"""An error as compute-sanitizer prints it."""


def launched(journal: Path) -> tuple[list[str], dict[str, str], bool]:
    """The kernels of a journal, their faults, and whether it is whole."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith("}")]
    names = [entry["kernel"] for entry in entries if "kernel" in entry and "fault" not in entry]
    faults = {entry["kernel"]: entry["fault"] for entry in entries if "fault" in entry}
    return names, faults, any(entry.get("done") for entry in entries)


def run_tool(program: str, tool: str, names: Sequence[str], folder: Path, limit_s: float) -> dict[str, Any]:
    """What a tool reports of these kernels, by name; a process that dies is followed by one for the rest."""
    outcome: dict[str, Any] = {}
    left, deadline = list(names), time.monotonic() + TOOL_LIMIT_S
    for attempt in range(RESTARTS):
        if not left or time.monotonic() > deadline:
            break
        # A kernel alone has its name in its files.
        stem = folder / f"{tool}-{names[0] if len(names) == 1 else len(names)}-{attempt}"
        target = [sys.executable, str(HERE / "launches.py"), str(stem.with_suffix(".jsonl")), *left]
        line = sanitizer.command(program, tool, stem.with_suffix(".xml"), left, target)
        sanitizer.run(line, stem.with_suffix(".log"), limit_s)
        found = read(stem)
        outcome |= found
        left = [name for name in left if name not in outcome]
        if not found:
            break
    return outcome


def read(stem: Path) -> dict[str, Any]:
    """What a process under a tool left: errors, warnings and fault of each kernel that it launched."""
    records, log, journal = (stem.with_suffix(kind) for kind in (".xml", ".log", ".jsonl"))
    done, faults, whole = launched(journal)
    if done and not whole and done[-1] not in faults:
        faults[done[-1]] = "did not end"
    errors: dict[str, list[str]] = {name: [] for name in done}
    warnings: dict[str, list[str]] = {name: [] for name in done}
    try:
        for defect in read_records(records.read_bytes(), {name: [f"calibrated.{name}"] for name in done}):
            name = defect.kernel.removeprefix("calibrated.")
            if name in errors:
                said = warnings if defect.warning else errors
                said[name].append(defect.what[:120] if defect.warning else f"{defect.what} at {defect.where}"[:200])
    except Exception:  # a process that was stopped leaves no records, or a part of them
        for match in PRINTED.finditer(log.read_text(encoding="utf-8", errors="replace")):
            said_of = errors.get(match["kernel"], [])
            error = f"{match['what']} at {match['where']}"
            if error not in said_of:
                said_of.append(error)
    return {
        name: {"errors": errors[name][:3], "warnings": warnings[name][:2], "fault": faults.get(name)} for name in done
    }


def disagreements(outcome: dict[str, dict[str, Any]], ours: dict[str, Any]) -> list[dict[str, Any]]:
    """Kernels of which a tool and the emulator, or a tool and the kernel's label, say different things."""
    found = []
    for kernel in kernels():
        if any(kernel.name not in outcome[tool] for tool, label in MEANT_FOR.items() if label == kernel.label):
            continue
        reported = {
            tool: bool(entries[kernel.name]["errors"] or entries[kernel.name]["fault"])
            for tool, entries in outcome.items()
            if kernel.name in entries
        }
        tools = sorted(tool for tool, objects in reported.items() if objects)
        meant = [tool for tool, label in MEANT_FOR.items() if label == kernel.label and tool in reported]
        missed = bool(meant) and not tools
        emulator = ours.get(kernel.name, {}).get("reported", [])
        if missed or (kernel.label == CLEAN and tools) or bool(emulator) != bool(tools):
            warned = sorted(tool for tool, entries in outcome.items() if entries.get(kernel.name, {}).get("warnings"))
            row = {"kernel": kernel.name, "label": kernel.label, "emulator": emulator}
            found.append({**row, "tools": tools, "warned": warned})
    return found


def digests(out: Path) -> bool:
    """Record the digests of both devices; whether all are equal."""
    for device in ("cpu", "gpu"):
        line = [sys.executable, "-m", "peakgate", "check", "--device", device, "--digests", str(out / f"{device}.json")]
        done = subprocess.run(line, cwd=HERE / "digests", capture_output=True, text=True, timeout=120, check=False)
        print(done.stdout.strip()[-400:], done.stderr.strip()[-400:], flush=True)  # noqa: T201
        if done.returncode:
            return False
    both = [json.loads((out / f"{device}.json").read_text(encoding="utf-8"))["problems"] for device in ("cpu", "gpu")]
    emulated, real = both
    rows = {
        name: {"equal": emulated.get(name) == outputs, "gpu": outputs, "emulator": emulated.get(name)}
        for name, outputs in real.items()
    }
    write_whole(out / "digests.json", a_line_each({"equal": all(row["equal"] for row in rows.values())}, "cases", rows))
    for name, row in rows.items():
        print(f"digest of {name}: {'equal' if row['equal'] else 'DIFFERENT'}", flush=True)  # noqa: T201
    return bool(rows) and all(row["equal"] for row in rows.values())


def main(out: Path, saved: bool) -> int:
    """Digests first, then the four tools; or what they left in ``out``."""
    if saved:
        equal = bool(json.loads((out / "digests.json").read_text(encoding="utf-8"))["equal"])
        return _compared(out, {tool: _left(out, tool) for tool in MEANT_FOR}, equal)
    from calibrated.launches import built  # noqa: PLC0415  (imports CuPy)

    out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    equal = digests(out)
    import cupy  # noqa: PLC0415

    text = cupy.cuda.Device(0).compute_capability
    capability = int(text[:-1]), int(text[-1])
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda kernel: built(kernel, capability), kernels()))
    print(f"built {len(kernels())} kernels after {time.monotonic() - start:.0f} s", flush=True)  # noqa: T201
    program = sanitizer.find()
    if program is None:
        print("compute-sanitizer is not on PATH")  # noqa: T201
        return 1
    outcome: dict[str, dict[str, Any]] = {}
    for tool in MEANT_FOR:
        together, alone = _for_tool(tool)
        outcome[tool] = run_tool(program, tool, together, out, PROCESS_LIMIT_S)
        for name in alone:
            outcome[tool] |= run_tool(program, tool, [name], out, HANGING_LIMIT_S)
        print(f"{tool}: {time.monotonic() - start:.0f} s", flush=True)  # noqa: T201
    return _compared(out, outcome, equal)


def _left(out: Path, tool: str) -> dict[str, Any]:
    """What the processes under a tool left, in the order in which they ran."""
    journals = sorted(out.glob(f"{tool}-*.jsonl"), key=lambda path: path.stat().st_mtime)
    return {name: entry for journal in journals for name, entry in read(journal).items()}


def _compared(out: Path, outcome: dict[str, dict[str, Any]], equal: bool) -> int:
    """Write what each tool reports and where it and the emulator differ; the exit code."""
    complete = True
    for tool, found in outcome.items():
        missing = [name for names in _for_tool(tool) for name in names if name not in found]
        complete = complete and not missing
        facts = {"tool": tool, "whole": not missing, "not_run": missing}
        write_whole(out / f"{tool}.json", a_line_each(facts, "kernels", found))
        objected = sum(bool(entry["errors"]) for entry in found.values())
        print(f"{tool}: {len(found)} kernels, objects to {objected}, {len(missing)} not run", flush=True)  # noqa: T201
    ours = json.loads(RECORD.read_text(encoding="utf-8"))["kernels"]
    rows = disagreements(outcome, ours)
    write_whole(out / "disagreements.json", a_line_each({"kernels": len(kernels())}, "differ", rows))
    for row in rows:
        print(  # noqa: T201
            f"{row['label']:<10} {row['kernel']}: emulator: {', '.join(row['emulator']) or 'nothing'}; "
            f"compute-sanitizer: {', '.join(row['tools']) or 'nothing'}; "
            f"warnings of {', '.join(row['warned']) or 'none'}"
        )
    return 0 if equal and complete else 1


def _for_tool(tool: str) -> tuple[list[str], list[str]]:
    """The kernels a tool runs: those of one process, and those that each need their own.

    Under synccheck a divergent barrier ends the process (an illegal instruction) or never ends.
    """

    def takes(kernel: Kernel) -> bool:
        return kernel.label in (CLEAN, MEANT_FOR[tool]) or (kernel.label == RACY and tool != "synccheck")

    chosen = [kernel for kernel in kernels() if takes(kernel)]
    alone = [kernel.name for kernel in chosen if kernel.label == DIVERGENT or kernel.may_hang]
    return [kernel.name for kernel in chosen if kernel.name not in alone], alone


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), "--saved" in sys.argv[2:]))
