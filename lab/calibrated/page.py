"""Fill the tables of the calibrated suites in suite/emulator/README.md: ``python -m lab.calibrated.page``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from peakgate.reports.ladder.markers import table

from lab.pages import ROOT, fill_page

HERE = Path(__file__).resolve().parent
ORDER = ROOT / "suite" / "tests" / "calibrated" / "record-order.json"
PAGE = ROOT / "suite" / "emulator" / "README.md"


def tools() -> str:
    """What each tool of compute-sanitizer came to and objects to."""
    rows = []
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        content = _read(f"{tool}.json")
        entries = content["kernels"].values()
        counts = [sum(bool(each[key]) for each in entries) for key in ("errors", "warnings")]
        stuck = sum(each["fault"] == "did not end" for each in entries)
        rows.append([tool, len(entries), len(content["not_run"]), *counts, stuck])
    head = ["tool", "kernels run", "not come to", "with errors", "with warnings", "did not end in time"]
    return table(head, rows)


def disagreements() -> str:
    """Kernels of which only the emulator reports a defect as an error, by kind."""
    differ = _read("disagreements.json")["differ"]
    kinds = Counter(_kind(each) for each in differ)
    warned = Counter(_kind(each) for each in differ if each["warned"])
    rows = [[*kind, count, warned[kind]] for kind, count in kinds.most_common()]
    return table(["kernels are", "emulator", "tools, as errors", "kernels", "of these with a warning"], rows)


def order() -> str:
    """How the emulator judged the kernels that order memory, in the first run and now."""
    record = json.loads(ORDER.read_text(encoding="utf-8"))
    kernels, first = record["kernels"], record["first_run"]
    now = {
        "missed": [name for name, entry in kernels.items() if not entry["right"] and entry["label"] != "clean"],
        "flagged": [name for name, entry in kernels.items() if not entry["right"] and entry["label"] == "clean"],
    }
    wrong = sum(entry["label"] != "clean" for entry in kernels.values())
    rows = []
    for run, outcome in (("first", first), ("now", now)):
        found, flagged = wrong - len(outcome["missed"]), len(outcome["flagged"])
        precision, recall = 100 * found / (found + flagged), 100 * found / wrong
        sound = len(kernels) - wrong
        rows.append([run, sound, flagged, wrong, found, f"{precision:.1f} %", f"{recall:.1f} %"])
    return table(["run", "sound", "flagged", "defective", "found", "precision", "recall"], rows)


def _kind(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["label"], ", ".join(row["emulator"]) or "nothing", ", ".join(row["tools"]) or "nothing"


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    return {"sanitizer-tools": tools(), "sanitizer-disagreements": disagreements(), "order-suite": order()}


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((HERE / name).read_text(encoding="utf-8"))
    return content


if __name__ == "__main__":
    fill_page(PAGE, blocks())
