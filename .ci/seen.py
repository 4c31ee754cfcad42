"""``python .ci/seen.py``: fill the tables of two pages that say what was seen, from records of trials."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peakgate.common.files import write_whole
from peakgate.reports.ladder.markers import fill, read_document, table

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "baselines" / "nvidia-h200" / "lab" / "tool"


LATER = {"sgemm": "29b73ac"}
"""Projects that were tried again, and at which commit."""


def newcomers() -> str:
    """The six projects: lines written, and the commands of Peakgate with their seconds."""
    projects = _read("newcomer-5b392c5.json")["projects"]
    for name, commit in LATER.items():
        projects |= _read(f"newcomer-{name}-{commit}.json")["projects"]
    rows = []
    for name, steps in projects.items():
        ours = [step for step in steps if step["command"].startswith("peakgate ")]
        verbs = Counter(step["command"].split()[1] for step in ours)
        lines = next(step["lines"] for step in steps if "lines" in step)
        flagged = ""
        if "ab" in verbs:
            judged = _read(f"newcomer-{name}-ab-{LATER.get(name, '5b392c5')}.json")["rows"]
            flagged = ", ".join(f"`{row['case']}` {row['change']}" for row in judged if row["verdict"] == "SLOWER")
        rows.append([name, lines, _counted(verbs), f"{sum(step['seconds'] for step in ours):.1f}", flagged])
    return table(["project", "lines written", "commands", "seconds in all", "flagged by `ab`"], rows)


def from_pages() -> str:
    """The six projects written from the pages, without a GPU: lines, minutes, commands, what was found and mended."""
    content = json.loads((ROOT / ".ci" / "newcomer" / "cpu-trial.json").read_text(encoding="utf-8"))
    rows = []
    for name, project in content["projects"].items():
        commands = _counted(project["commands"])
        rows.append(
            [f"{name}: {project['holds']}", project["lines"], project["minutes"], commands, project["findings"]]
        )
    return table(["project", "lines written", "minutes", "commands", "found"], rows)


def _counted(verbs: Mapping[str, int]) -> str:
    """The verbs, each with how often it was called where that is more than once."""
    return ", ".join(f"{count} x `{verb}`" if count > 1 else f"`{verb}`" for verb, count in verbs.items())


def tools() -> str:
    """What each tool of compute-sanitizer came to and objects to."""
    rows = []
    for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
        content = _read(f"calibrated-14777db/{tool}.json")
        entries = content["kernels"].values()
        counts = [sum(bool(each[key]) for each in entries) for key in ("errors", "warnings")]
        stuck = sum(each["fault"] == "did not end" for each in entries)
        rows.append([tool, len(entries), len(content["not_run"]), *counts, stuck])
    head = ["tool", "kernels run", "not come to", "with errors", "with warnings", "did not end in time"]
    return table(head, rows)


def disagreements() -> str:
    """Kernels of which only the emulator reports a defect as an error, by kind."""
    differ = _read("calibrated-14777db/disagreements.json")["differ"]
    kinds = Counter(_kind(each) for each in differ)
    warned = Counter(_kind(each) for each in differ if each["warned"])
    rows = [[*kind, count, warned[kind]] for kind, count in kinds.most_common()]
    return table(["kernels are", "emulator", "tools, as errors", "kernels", "of these with a warning"], rows)


def _kind(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["label"], ", ".join(row["emulator"]) or "nothing", ", ".join(row["tools"]) or "nothing"


PAGES = {
    "suite/own-repository.md": {"newcomers": newcomers, "from-pages": from_pages},
    "suite/emulator/README.md": {"sanitizer-tools": tools, "sanitizer-disagreements": disagreements},
}


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RECORDS / name).read_text(encoding="utf-8"))
    return content


def filled(name: str) -> str:
    """A page with its blocks filled."""
    path = ROOT / name
    return fill(read_document(path), path, lambda block: PAGES[name][block](), PAGES[name])


if __name__ == "__main__":
    for page in PAGES:
        write_whole(ROOT / page, filled(page))
