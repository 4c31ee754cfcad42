"""Write the counts of fuzz.json, kill.json and disks.json into this folder's page: ``python -m lab.faults.page``."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from peakgate.core.files import write_whole

from lab.pages import read_json

FOLDER = Path(__file__).resolve().parent
CODES = ("exit 0", "exit 1", "exit 2", "exit 3", "finding")


def page(text: str) -> str:
    """The page with the tables of the records."""
    for name, table in (("fuzz", _fuzz), ("kill", _kill), ("disks", _disks)):
        record = read_json(FOLDER / f"{name}.json")
        between = re.compile(rf"(<!-- {name} -->\n).*(<!-- end of {name} -->)", re.DOTALL)
        before, after = between.search(text).groups()  # type: ignore[union-attr]  # a page without markers is a defect
        text = between.sub((before + table(record) + after).replace("\\", r"\\"), text)
    return text


def _fuzz(record: dict[str, Any]) -> str:
    lines = ["| reader | inputs | " + " | ".join(CODES) + " |", "| --- |" + " --- |" * (len(CODES) + 1)]
    for reader, codes in record["readers"].items():
        counts = [sum(codes.values()), *(codes.get(code, 0) for code in CODES)]
        lines.append(f"| {reader} | " + " | ".join(map(str, counts)) + " |")
    found = f"{record['inputs']} inputs of the seed {record['seed']}, {len(record['findings'])} findings."
    return "\n".join(lines) + f"\n\n{found}\n"


def _kill(record: dict[str, Any]) -> str:
    lines = ["| what | times |", "| --- | --- |"]
    lines += [f"| killed: {kind} | {count} |" for kind, count in sorted(record["kills"].items())]
    lines += [f"| found: {what} | {count} |" for what, count in sorted(record["found"].items())]
    return "\n".join(lines) + f"\n\nLeft broken: {len(record['broken'])}.\n"


def _disks(record: dict[str, Any]) -> str:
    lines = ["| place | run | times | exit | error |", "| --- | --- | --- | --- | --- |"]
    kinds = Counter(
        (re.sub(r"\d+", "N", run["place"]), run["circumstance"], run["exit"], run["error"]) for run in record["runs"]
    )
    lines += [
        f"| {place} | {circumstance} | {count} | {code} | {error} |"
        for (place, circumstance, code, error), count in kinds.items()
    ]
    return "\n".join(lines) + f"\n\nLeft broken: {len(record['broken'])}.\n"


if __name__ == "__main__":
    readme = FOLDER / "README.md"
    write_whole(readme, page(readme.read_text(encoding="utf-8")))
