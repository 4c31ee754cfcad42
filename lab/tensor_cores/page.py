"""The table of the page, from the record of ``lab.tensor_cores.forms``: ``python -m lab.tensor_cores.page``."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.pages import fill_page, read_json
from peakgate.render.files import table_line

HERE = Path(__file__).parent
PAGE, RECORD = HERE / "README.md", HERE / "forms.json"
CLASSES = {"e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8", "s4": "int4", "u4": "int4"}


def row_of(form: str) -> tuple[str, str, str]:
    """The instruction, the types of its factors and of its sums."""
    instruction = form.partition(".")[0]
    types = re.findall(r"\.(f16|f32|f64|s32|bf16|tf32|e4m3|e5m2|[su][48])(?=\.|,|$)", form.partition(",")[0])
    return instruction, CLASSES.get(types[1], types[1]), types[0]


def table(record: Mapping[str, Any]) -> Iterator[str]:
    """A row for each instruction and its types: forms, sums, how many differ and by how much at most."""
    gpu = record["gpu"]
    commit = f", commit {record['commit'][:12]}" if record["commit"] else ""
    yield f"{gpu['name']}, driver {gpu['driver']}, NVRTC {gpu['nvrtc']}{commit}."
    yield ""
    yield table_line(("instruction", "factors", "sums", "forms", "sums made", "differ", "at most"))
    yield table_line(("---", "---", "---", "--:", "--:", "--:", "--:"))
    rows: dict[tuple[str, str, str], list[tuple[str, Mapping[str, Any]]]] = {}
    for name, found in record["forms"].items():
        form = name.rpartition("/")[0]
        rows.setdefault(row_of(form), []).append((form, found))
    for row, each in rows.items():
        share = max(found["share"] for _, found in each)
        yield table_line(
            (
                *row,
                str(len({form for form, _ in each})),
                str(sum(found["sums"] for _, found in each)),
                str(sum(found["differ"] for _, found in each)),
                f"2^{math.log2(share):.1f}" if share else "equal",
            )
        )


def main() -> int:
    """Fill the page."""
    fill_page(PAGE, {"tensor-cores": "\n".join(table(read_json(RECORD)))})
    return 0


if __name__ == "__main__":
    sys.exit(main())
