"""The tables of the page, from the records of ``lab.libraries.turns``: ``python -m lab.libraries.page``."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.pages import fill_page, read_json
from peakgate.render.files import table_line

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
OURS = {
    "attention": ("overlapped", "longest_first"),
    "norm": ("registers", "clusters", "rings"),
    "reduce": ("shuffles", "last_block", "scan_lookback", "scan_ahead", "histogram_shared", "histogram_lanes"),
    "quantize": ("registers", "blocks", "restore"),
}
"""By family, the stages that are held against libraries."""


def table(record: Mapping[str, Any], family: str) -> Iterator[str]:
    """A row for each stage on each problem: its microseconds, the libraries', and theirs over its own."""
    gpu = record["gpu"]
    yield (
        f"{gpu['name']}, driver {gpu['driver']}, PyTorch {record['torch']}, cuDNN {record['cudnn']}, "
        f"{record['date'][:10]}, commit {record['commit'][:12]}; medians of {record['rounds']} rounds."
    )
    yield ""
    rows = {name: each for name, each in record["problems"].items() if name.startswith(family + ".")}
    libraries = list(dict.fromkeys(who for each in rows.values() for who in each["us"] if who not in OURS[family]))
    rate = "TFLOP/s" if family == "attention" else "GB/s"
    yield table_line(("problem", "stage", "µs", rate, *(f"{each} (µs)" for each in libraries), *libraries))
    yield table_line(("---", "---", *["--:"] * (2 + 2 * len(libraries))))
    for name, each in rows.items():
        medians = {who: statistics.median(us) for who, us in each["us"].items()}
        for stage in (who for who in medians if who in OURS[family]):
            ours = medians[stage]
            done = each["flops"] / ours / 1e6 if family == "attention" else each["bytes"] / ours / 1e3
            back = stage == "restore"
            against = {who: medians[who] for who in libraries if who in medians and (who.endswith("back") == back)}
            yield table_line(
                (
                    name.partition(".")[2],
                    stage,
                    f"{ours:.1f}",
                    f"{done:.0f}",
                    *(f"{against[who]:.1f}" if who in against else "" for who in libraries),
                    *(f"{against[who] / ours:.2f}" if who in against else "" for who in libraries),
                )
            )


def newest(records: Iterable[Mapping[str, Any]], family: str) -> Mapping[str, Any]:
    """The newest record that has problems of the family."""
    having = (each for each in records if any(name.startswith(family + ".") for name in each["problems"]))
    return max(having, key=lambda record: record["date"])


def main() -> int:
    """Fill the page."""
    records = [read_json(path) for path in HERE.glob("turns*.json")]
    fill_page(PAGE, {f"libraries-{family}": "\n".join(table(newest(records, family), family)) for family in OURS})
    return 0


if __name__ == "__main__":
    sys.exit(main())
