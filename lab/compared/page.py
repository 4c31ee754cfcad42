"""The tables of lab/compared/README.md: ``python -m lab.compared.page`` fills them from the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.compared.study import SHORT_US
from lab.pages import fill_page, percent, read_json
from peakgate.base.text import percent as in_percent
from peakgate.render.files import table_line

FOLDER = Path(__file__).parent
RECORD, PAGE = FOLDER / "h200.json", FOLDER / "README.md"
RULES, WAYS = ("before", "now"), ("slower", "faster")


def false_positives(record: Mapping[str, Any]) -> Iterator[str]:
    """A row per part: how many pairs of unchanged code were flagged each way, and the cases left open."""
    yield table_line(("sessions", "pairs", *(f"{rule}: SLOWER, FASTER" for rule in RULES), "now: cases open per pair"))
    yield table_line(("---", "--:", "--:", "--:", "--:"))
    for name, part in record["now"]["parts"].items():
        found = [record[rule]["parts"].get(name) for rule in RULES]
        shares = [", ".join(percent(each[way] / each["pairs"]) for way in WAYS) if each else "" for each in found]
        yield table_line((name, str(part["pairs"]), *shares, f"{part['open']:g}"))


def detected(record: Mapping[str, Any]) -> Iterator[str]:
    """A row per part and duration: the share of slowed cases that were flagged, before and now."""
    slowed = record["now"]["slowed"]
    yield table_line(("sessions", "duration", *(in_percent(100 * each) for each in slowed)))
    yield table_line(("---", "---", *["--:"] * len(slowed)))
    for name, part in record["now"]["parts"].items():
        if "drawn" in name or name not in record["before"]["parts"]:  # those drawn are as the processes are
            continue
        both = [record[rule]["parts"][name]["detected"] for rule in RULES]
        for at, duration in enumerate((f"from {SHORT_US:g} µs", f"under {SHORT_US:g} µs")):
            shares = [[percent(each[at][0] / max(each[at][1], 1)) for each in rule] for rule in both]
            if part["detected"][0][at][1]:
                yield table_line((name, duration, *(f"{then}, {now}" for then, now in zip(*shares, strict=True))))


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    record = read_json(RECORD)
    tables = {"compared-false-positives": false_positives(record), "compared-detected": detected(record)}
    return {name: "\n".join(table) for name, table in tables.items()}


if __name__ == "__main__":
    fill_page(PAGE, blocks())
