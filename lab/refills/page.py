"""Fill the block on refills in docs/explanation/proof.md from this folder's records: ``python -m lab.refills.page``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.pages import ROOT, fill_page, read_json
from lab.refills.pairs import UNROLLED

HERE = Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "explanation" / "proof.md"


def _record(pattern: str) -> Any:
    (path,) = HERE.glob(pattern)
    return read_json(path)


def pairs(record: Mapping[str, Any]) -> str:
    """The largest change of a kernel's time, of those spread over the gate and of the unrolled ones."""
    by_case = {each["case"]: each for each in record["kernels"]}
    spread = [each for case, each in by_case.items() if case not in UNROLLED]
    unrolled = [by_case[case] for case in UNROLLED]
    count = min(each["pairs"] for each in by_case.values())
    return (
        f"In {count} interleaved pairs of samples on one {record['gpu']} ({record['commit']}), with and without drawn "
        f"contents, the times of {len(spread)} kernels spread over the gate differ by at most {_largest(spread)}, and "
        f"those of {len(unrolled)} short unrolled ones ({_times(unrolled)}) by at most {_largest(unrolled)}."
    )


def gates(record: Mapping[str, Any]) -> str:
    """Duration of a warm gate run now, and before contents were drawn."""
    (old, before), (new, now) = record["sides"].items()
    runs = min(len(each["warm_s"]) for each in record["sides"].values())
    return (
        f"The median of {runs} warm gate runs is {now['median_s']:.1f} s ({new}), and was {before['median_s']:.1f} s "
        f"({old}): {now['median_s'] / before['median_s']:.2f} times as long."
    )


def compared(record: str) -> str:
    """Duration of a warm gate run before and since eight launches of a case are compared, by its lines ``COMMIT S``."""
    walls_s: dict[str, list[float]] = {}
    for line in record.splitlines():
        name, _, wall_s = line.partition(" ")
        if wall_s.replace(".", "", 1).isdigit():
            walls_s.setdefault(name, []).append(float(wall_s))
    (old, before), (new, now) = ((name, statistics.median(each[1:])) for name, each in walls_s.items())
    return (
        "Comparing eight launches of every case, where it was one of each batch, made a warm run "
        f"{now / before:.2f} times as long: {before:.1f} s ({old}), then {now:.1f} s ({new}), in turns on one H200. "
        "What is added is the GPU's time for references in float64."
    )


def _largest(kernels: Sequence[Mapping[str, Any]]) -> str:
    return f"{max(abs(each['longer_percent']) for each in kernels):.2f} %"


def _times(kernels: Sequence[Mapping[str, Any]]) -> str:
    low, high = (choose(each["time_us"] for each in kernels) for choose in (min, max))
    return f"{low:.0f} to {high:.0f} µs"


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    (record,) = HERE.glob("compared-*.txt")
    found = (
        pairs(_record("pairs-*.json")),
        gates(_record("gates-*.json")),
        compared(record.read_text(encoding="utf-8")),
    )
    return {"refills": " ".join(found)}


if __name__ == "__main__":
    fill_page(PAGE, blocks())
