"""Tables of fuzz.json, kill.json and disks.json for this folder's page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from lab.pages import read_json, table

HERE = Path(__file__).resolve().parent
CODES = ("exit 0", "exit 1", "exit 2", "exit 3", "finding")


def blocks() -> dict[str, str]:
    """The page's blocks."""
    made = {"fuzz": _fuzz, "kill": _kill, "disks": _disks}
    return {name: text(read_json(HERE / f"{name}.json")) for name, text in made.items()}


def _fuzz(record: dict[str, Any]) -> str:
    rows = [
        [reader, sum(codes.values()), *(codes.get(code, 0) for code in CODES)]
        for reader, codes in record["readers"].items()
    ]
    found = f"{record['inputs']} inputs of the seed {record['seed']}, {len(record['findings'])} findings."
    return f"{table(['reader', 'inputs', *CODES], rows)}\n\n{found}"


def _kill(record: dict[str, Any]) -> str:
    rows = [(f"killed: {kind}", count) for kind, count in sorted(record["kills"].items())]
    rows += [(f"found: {what}", count) for what, count in sorted(record["found"].items())]
    return f"{table(['what', 'times'], rows)}\n\nLeft broken: {len(record['broken'])}."


def _disks(record: dict[str, Any]) -> str:
    kinds = Counter(
        (re.sub(r"\d+", "N", run["place"]), run["circumstance"], run["exit"], run["error"]) for run in record["runs"]
    )
    rows = [(place, circumstance, count, code, error) for (place, circumstance, code, error), count in kinds.items()]
    return f"{table(['place', 'run', 'times', 'exit', 'error'], rows)}\n\nLeft broken: {len(record['broken'])}."
