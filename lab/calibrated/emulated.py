"""``python -m lab.calibrated.emulated [--write]``: runs every kernel of both suites in the emulator.

Reports the results by label and the kernels that were judged wrongly, and exits 1 if fewer than 95 % of the defective
ones (99 % of those in order.py) are found or a correct one is flagged. ``--write`` saves the outcomes in
``record.json`` and ``record-order.json``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import peakgate_emulator as emulator
from lab.calibrated import order
from lab.calibrated.pattern import BLOCK, BOUNDS, CLEAN, DIVERGENT, RACY, SHARED_BYTES, STUCK, Kernel, kernels
from lab.pages import read_json, table
from peakgate.base.files import a_line_each, cache_folder, write_whole
from peakgate.device.cpu import seen_texels
from peakgate.inspect.emulate import schedules
from peakgate_emulator import DefectKind, KernelDefect, TexelArray

RECORD = Path(__file__).parent / "record.json"
ORDER_RECORD = Path(__file__).parent / "record-order.json"
LEAST_FOUND, LEAST_FOUND_OF_ORDER = 0.95, 0.99

EXPECTED = {
    CLEAN: frozenset[DefectKind](),
    RACY: frozenset(
        {
            *(DefectKind.SHARED_RACE, DefectKind.GLOBAL_RACE, DefectKind.SAME_VALUE_RACE),
            DefectKind.UNINITIALISED_SHARED,  # an asynchronous copy without a wait
        }
    ),
    DIVERGENT: frozenset({DefectKind.DIVERGENT_BARRIER, DefectKind.WARP_MASK}),
    BOUNDS: frozenset({DefectKind.OUT_OF_BOUNDS, DefectKind.INDEX_OUT_OF_BOUNDS}),
    STUCK: frozenset({DefectKind.ENDLESS_LOOP}),
}
"""The kinds of defect that count as found, by label."""


def reported(kernel: Kernel, folder: Path, schedule: int = 0) -> list[str]:
    """The kinds of defect that the emulator reports for a kernel in this thread order, in words."""
    loaded = emulator.load(source(kernel, folder), kernel.name)
    values, out = np.arange(kernel.n, dtype=kernel.dtype), np.zeros(kernel.n, kernel.dtype)
    seen = [
        array if described is None else TexelArray(array, seen_texels(described))
        for array, described in zip((out, values), kernel.objects, strict=True)
    ]
    try:
        loaded.launch(
            (kernel.grid, 1, 1),
            (BLOCK, 1, 1),
            (*seen, np.int32(kernel.n)),
            shared_bytes=SHARED_BYTES,
            cooperative=kernel.cooperative,
            schedule=schedule,
        )
    except KernelDefect as defect:
        return sorted({found.kind.words for found in defect.defects})
    return []


def source(kernel: Kernel, folder: Path) -> Path:
    """Path of the kernel's source, written if needed."""
    path = folder / f"{kernel.name}.cu"
    if not path.exists() or path.read_text(encoding="utf-8") != kernel.text:
        write_whole(path, kernel.text)
    return path


def judged(label: str, kinds: Iterable[str]) -> bool:
    """Whether the report is right: a defect of the label's kinds, or none for a correct kernel."""
    expected = {kind.words for kind in EXPECTED[label]}
    return bool(expected & set(kinds)) if expected else not kinds


def run(chosen: Sequence[Kernel], orders: Sequence[int] = (0,)) -> dict[str, dict[str, Any]]:
    """Label, reported kinds and whether they are right, by kernel, over these thread orders."""
    folder = cache_folder() / "calibrated"
    emulator.prebuild([(source(kernel, folder), kernel.name, ()) for kernel in chosen])
    outcome = {}
    for kernel in chosen:
        kinds = sorted({kind for schedule in orders for kind in reported(kernel, folder, schedule)})
        outcome[kernel.name] = {"label": kernel.label, "reported": kinds, "right": judged(kernel.label, kinds)}
    return outcome


def counts(outcome: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """By label: number of kernels, and of those judged rightly."""
    labels = [entry["label"] for entry in outcome.values()]
    right = [entry["label"] for entry in outcome.values() if entry["right"]]
    return {label: (labels.count(label), right.count(label)) for label in EXPECTED}


def passes(outcome: Mapping[str, Mapping[str, Any]], least_found: float = LEAST_FOUND) -> bool:
    """Whether no correct kernel is flagged and enough of the defective ones are found."""
    by_label = counts(outcome)
    clean, unflagged = by_label.pop(CLEAN)
    defective, found = (sum(pair[at] for pair in by_label.values()) for at in (0, 1))
    return clean == unflagged and found >= least_found * defective


def blocks() -> dict[str, str]:
    """The page's block: results for the kernels of order.py, in first runs and now."""
    record = read_json(ORDER_RECORD)
    kernels = record["kernels"]
    now = {
        "sound": sum(entry["label"] == "clean" for entry in kernels.values()),
        "defective": sum(entry["label"] != "clean" for entry in kernels.values()),
        "missed": [name for name, entry in kernels.items() if not entry["right"] and entry["label"] != "clean"],
        "flagged": [name for name, entry in kernels.items() if not entry["right"] and entry["label"] == "clean"],
    }
    rows = []
    for run, outcome in (
        ("first", record["first_run"]),
        ("first, other shapes", record["other_shapes"]),
        ("now, all", now),
    ):
        wrong, flagged = outcome["defective"], len(outcome["flagged"])
        found = wrong - len(outcome["missed"])
        precision, recall = 100 * found / (found + flagged), 100 * found / wrong
        rows.append([run, outcome["sound"], flagged, wrong, found, f"{precision:.1f} %", f"{recall:.1f} %"])
    head = ["run", "sound", "flagged", "defective", "found", "precision", "recall"]
    return {"order-suite": table(head, rows)}


def main() -> int:
    """Run what was asked for and return the exit code."""
    parser = argparse.ArgumentParser(description="Every kernel of the calibrated suite in the checked emulator.")
    parser.add_argument("-k", dest="text", default="", help="only kernels with this text in their name")
    parser.add_argument("--write", action="store_true", help=f"keep the outcome in {RECORD.name}")
    chosen = parser.parse_args()
    passed = True
    for suite, orders, least_found, record in (
        (kernels(), (0,), LEAST_FOUND, RECORD),
        (order.kernels(), schedules(2), LEAST_FOUND_OF_ORDER, ORDER_RECORD),
    ):
        outcome = run([kernel for kernel in suite if chosen.text in kernel.name], orders)
        for name, entry in outcome.items():
            if not entry["right"]:
                print(f"{name}: {entry['label']}, reported: {', '.join(entry['reported']) or 'nothing'}")  # noqa: T201
        for label, (total, right) in counts(outcome).items():
            if total:
                print(f"{label}: {right} of {total} judged rightly")  # noqa: T201
        if chosen.write:
            kept = read_json(record) if record.exists() else {}
            kept.pop("kernels", None)
            write_whole(record, a_line_each({**kept, "least_found": least_found}, "kernels", outcome))
        passed &= passes(outcome, least_found)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
