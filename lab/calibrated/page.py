"""Fill the tables of the calibrated suites in docs/explanation/races.md: ``python -m lab.calibrated.page``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from lab.pages import ROOT, fill_page, read_json, table

HERE = Path(__file__).resolve().parent
ORDER = HERE / "record-order.json"
PAGE = ROOT / "docs" / "explanation" / "races.md"


def tools() -> str:
    """Verdict and findings of each tool of compute-sanitizer."""
    rows = []
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        content = read_json(HERE / f"{tool}.json")
        entries = content["kernels"].values()
        counts = [sum(bool(each[key]) for each in entries) for key in ("errors", "warnings")]
        stuck = sum(each["fault"] == "did not end" for each in entries)
        rows.append([tool, len(entries), len(content["not_run"]), *counts, stuck])
    head = ["tool", "kernels run", "not come to", "with errors", "with warnings", "did not end in time"]
    return table(head, rows)


def disagreements() -> str:
    """Kernels of which only the emulator reports a defect as an error, by kind."""
    differ = read_json(HERE / "disagreements.json")["differ"]
    kinds = Counter(_kind(each) for each in differ)
    warned = Counter(_kind(each) for each in differ if each["warned"])
    rows = [[*kind, count, warned[kind]] for kind, count in kinds.most_common()]
    return table(["kernels are", "emulator", "tools, as errors", "kernels", "of these with a warning"], rows)


def order() -> str:
    """How the emulator judged the kernels that order memory: in first runs, and now."""
    record = read_json(ORDER)
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
    return table(["run", "sound", "flagged", "defective", "found", "precision", "recall"], rows)


def scor() -> str:
    """How the emulator judged ScoR's microbenchmarks."""
    kernels = read_json(HERE / "scor.json")["kernels"].values()
    rows = []
    for label, means in (("norace", "sound"), ("race", "defective")):
        of_label = [entry["reported"] for entry in kernels if entry["label"] == label]
        rows.append(
            [means, len(of_label), sum(not kinds for kinds in of_label), sum(bool(kinds) for kinds in of_label)]
        )
    return table(["ScoR's kernels", "in all", "clean", "reported"], rows)


def _kind(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["label"], ", ".join(row["emulator"]) or "nothing", ", ".join(row["tools"]) or "nothing"


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    return {
        "sanitizer-tools": tools(),
        "sanitizer-disagreements": disagreements(),
        "order-suite": order(),
        "order-scor": scor(),
    }


if __name__ == "__main__":
    fill_page(PAGE, blocks())
