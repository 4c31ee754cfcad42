"""``python suite/tests/calibrated/on_gpu.py OUT``: the calibrated suite under compute-sanitizer's four tools, on a GPU.

Writes into OUT as it goes: ``TOOL.json`` (what each tool reports of each kernel), ``disagreements.json`` and a table of
where tools and emulator differ, and ``digests.json`` (the outputs of the kernels in ``digests/`` on this GPU beside the
emulator's). Takes about three minutes. Exits 1 where a digest differs or a tool did not finish.
"""

from __future__ import annotations

import json
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


def launched(journal: Path) -> tuple[list[str], dict[str, str], bool]:
    """The kernels of a journal, their faults, and whether it is whole."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith("}")]
    names = [entry["kernel"] for entry in entries if "kernel" in entry and "fault" not in entry]
    faults = {entry["kernel"]: entry["fault"] for entry in entries if "fault" in entry}
    return names, faults, any(entry.get("done") for entry in entries)


def run_tool(
    program: str, tool: str, names: Sequence[str], folder: Path, limit_s: float
) -> tuple[dict[str, Any], bool]:
    """What a tool reports of these kernels, by name; a process that dies is followed by one for the rest."""
    outcome: dict[str, Any] = {}
    left, deadline = list(names), time.monotonic() + TOOL_LIMIT_S
    for attempt in range(RESTARTS):
        if not left or time.monotonic() > deadline:
            break
        stem = folder / f"{tool}-{len(names)}-{attempt}"
        records, log, journal = (stem.with_suffix(kind) for kind in (".xml", ".log", ".jsonl"))
        target = [sys.executable, str(HERE / "launches.py"), str(journal), *left]
        line = sanitizer.command(program, tool, records, left, target)
        ended = sanitizer.run(line, log, min(limit_s, max(5.0, deadline - time.monotonic())))
        done, faults, whole = launched(journal)
        defects: list[Any] = []
        if records.exists():
            try:
                defects = list(read_records(records.read_bytes(), {name: [f"calibrated.{name}"] for name in done}))
            except Exception as error:
                print(f"{tool}: {records.name}: {error}", flush=True)  # noqa: T201
        for name in done:
            found = [defect for defect in defects if defect.kernel in (name, f"calibrated.{name}")]
            outcome[name] = {
                "errors": [f"{defect.what} at {defect.where}"[:200] for defect in found if not defect.warning][:3],
                "warnings": [defect.what[:120] for defect in found if defect.warning][:2],
                "fault": faults.get(name),
            }
        if not ended and done:
            outcome[done[-1]]["fault"] = "did not end"
        left = [name for name in left if name not in outcome]
        if whole or not done:
            break
    return outcome, not left


def disagreements(outcome: dict[str, dict[str, Any]], ours: dict[str, Any]) -> list[dict[str, Any]]:
    """Kernels of which a tool and the emulator, or a tool and the kernel's label, say different things."""
    found = []
    for kernel in kernels():
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
            found.append({"kernel": kernel.name, "label": kernel.label, "emulator": emulator, "tools": tools})
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


def main(out: Path) -> int:
    """Digests first, then the four tools."""
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
    ours = json.loads(RECORD.read_text(encoding="utf-8"))["kernels"]
    outcome: dict[str, dict[str, Any]] = {}
    complete = True
    for tool in ("racecheck", "synccheck", "memcheck", "initcheck"):
        chosen, hanging = _for_tool(tool)
        found, whole = run_tool(program, tool, chosen, out, PROCESS_LIMIT_S)
        if tool == "synccheck":
            late, ended = run_tool(program, tool, hanging, out, HANGING_LIMIT_S)
            found |= late
            whole = whole and ended
        outcome[tool] = found
        complete = complete and whole
        write_whole(out / f"{tool}.json", a_line_each({"tool": tool, "whole": whole}, "kernels", found))
        objected = sum(bool(entry["errors"]) for entry in found.values())
        print(  # noqa: T201
            f"{tool}: {len(found)} kernels, objects to {objected}, {time.monotonic() - start:.0f} s", flush=True
        )
    rows = disagreements(outcome, ours)
    write_whole(out / "disagreements.json", a_line_each({"kernels": len(kernels())}, "differ", rows))
    for row in rows:
        print(  # noqa: T201
            f"{row['label']:<10} {row['kernel']}: emulator: {', '.join(row['emulator']) or 'nothing'}; "
            f"compute-sanitizer: {', '.join(row['tools']) or 'nothing'}"
        )
    return 0 if equal and complete else 1


def _for_tool(tool: str) -> tuple[list[str], list[str]]:
    """The kernels a tool runs, those that cannot hang first, and those that may."""

    def takes(kernel: Kernel) -> bool:
        return kernel.label in (CLEAN, MEANT_FOR[tool]) or (kernel.label == RACY and tool != "synccheck")

    chosen = [kernel for kernel in kernels() if takes(kernel)]
    return [k.name for k in chosen if not k.may_hang], [k.name for k in chosen if k.may_hang]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
