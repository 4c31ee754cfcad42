"""What compute-sanitizer's tools report of the calibrated kernels: read from what they leave, and compared."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from lab.calibrated.kernels import kernels
from lab.calibrated.pattern import BOUNDS, CLEAN, DIVERGENT, RACY, Kernel
from peakgate.inspect.sanitize.report import read_records

MEANT_FOR = {"synccheck": DIVERGENT, "racecheck": RACY, "memcheck": BOUNDS, "initcheck": None}
"""Which kernels a tool is expected to object to; in the order in which they run."""
PRINTED = re.compile(r"^=+ (?P<what>.+)\n=+ +at (?P<kernel>\w+)\+\S+ in (?P<where>\w+\.cu:\d+)$", re.MULTILINE)
"""An error as compute-sanitizer prints it."""


def for_tool(tool: str) -> tuple[list[str], list[str]]:
    """The kernels a tool runs: those of one process, and those that each need their own, the ones that may hang last.

    Under synccheck a divergent barrier ends the process (an illegal instruction) or never ends.
    """

    def takes(kernel: Kernel) -> bool:
        return kernel.label in (CLEAN, MEANT_FOR[tool]) or (kernel.label == RACY and tool != "synccheck")

    chosen = [kernel for kernel in kernels() if takes(kernel)]
    alone = [kernel for kernel in chosen if kernel.label == DIVERGENT or kernel.may_hang]
    together = [kernel.name for kernel in chosen if kernel not in alone]
    return together, [kernel.name for kernel in sorted(alone, key=lambda kernel: kernel.may_hang)]


def launched(journal: Path) -> tuple[list[str], dict[str, str], bool]:
    """The kernels of a journal, their faults, and whether it is whole."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith("}")]
    names = [entry["kernel"] for entry in entries if "kernel" in entry and "fault" not in entry]
    faults = {entry["kernel"]: entry["fault"] for entry in entries if "fault" in entry}
    return names, faults, any(entry.get("done") for entry in entries)


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


def left_in(folder: Path, tool: str) -> dict[str, Any]:
    """What all processes under a tool left in a folder, by kernel."""
    journals = sorted(folder.glob(f"{tool}-*.jsonl"), key=lambda path: path.stat().st_mtime)
    found = {name: entry for journal in journals for name, entry in read(journal).items()}
    return dict(sorted(found.items()))


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
