"""Fill the tables of compute-sanitizer in suite/emulator/README.md: ``python -m lab.calibrated.page``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from peakgate.reports.ladder.markers import table

from lab.pages import ROOT, fill_page

HERE = Path(__file__).resolve().parent
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


def _kind(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["label"], ", ".join(row["emulator"]) or "nothing", ", ".join(row["tools"]) or "nothing"


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    return {"sanitizer-tools": tools(), "sanitizer-disagreements": disagreements()}


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((HERE / name).read_text(encoding="utf-8"))
    return content


if __name__ == "__main__":
    fill_page(PAGE, blocks())
