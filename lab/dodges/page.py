"""Fill the table of dodges in docs/explanation/promises.md from this folder's record: ``python -m lab.dodges.page``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.dodges.dodges import read
from lab.pages import ROOT, fill_page, table

HERE = Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "explanation" / "promises.md"


def dodges(record: Mapping[str, Any]) -> str:
    """How many cheats were caught on which device, and a row for each pair."""
    rows = record["rows"]
    counted = Counter(row["outcome"] for row in rows)
    passing = sum(row["twin_passes"] for row in rows)
    driver = f", driver {record['driver']}" if record["driver"] else ""
    summary = (
        f"On {record['device']}{driver}, of {len(rows)} cheats: "
        + ", ".join(f"{count} {outcome.replace('passes', 'pass')}" for outcome, count in counted.most_common())
        + f"; {passing} of {len(rows) - counted['not run']} twins pass. {_published(rows)} were published."
    )
    head = [f"dodge ({record['device']})", "what it does", "from", "cheat", "twin"]
    return summary + "\n\n" + table(head, [_row(row) for row in rows])


def _row(row: Mapping[str, Any]) -> list[str]:
    kind = "" if row["kind"] == "kernel" else " (callable)"
    source = (row["published"] or "").partition(",")[0].rstrip(".")
    twin = "" if row["twin"]["verdict"] == "SKIPPED" else row["twin"]["verdict"]
    return [f"{row['name']}{kind}", row["does"], source, _verdict(row), twin]


def _verdict(row: Mapping[str, Any]) -> str:
    cheat, twin, found = row["cheat"], row["twin"], row["outcome"]
    if found in ("not run", "caught"):
        return found if found == "not run" else str(cheat["verdict"])
    gain = ""
    if found != "not timed" and cheat["time_us"] and twin["time_us"]:
        gain = f", {twin['time_us'] / cheat['time_us']:.2f}x as fast as its twin"
    outside = "" if row["promised"] else ", outside the promise"
    return f"{cheat['verdict']}: {found}{gain}{outside}"


def _published(rows: list[Mapping[str, Any]]) -> int:
    return sum(row["published"] is not None for row in rows)


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    (record,) = HERE.glob("dodges-*.json")
    return {"dodges": dodges(read(record))}


if __name__ == "__main__":
    fill_page(PAGE, blocks())
