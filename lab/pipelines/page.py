"""Fill the page of the edits from their record: ``python -m lab.pipelines.page``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from lab.pages import fill_page, read_json, table

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"


def blocks() -> dict[str, str]:
    """The tables of the page, by the names of their blocks."""
    rows = read_json(HERE / "edits.json")["rows"]
    made = Counter(row["stage"] for row in rows)
    missed = Counter(row["stage"] for row in rows if row["noticed"] is None)
    by_stage = [[stage, count, count - missed[stage], missed[stage]] for stage, count in made.items()]
    not_noticed = [[row["stage"], f"`{row['line']}`", row["change"]] for row in rows if row["noticed"] is None]
    return {
        "pipelines-edits": table(["stage", "edits", "noticed", "not noticed"], by_stage),
        "pipelines-not-noticed": table(["stage", "line", "edit"], not_noticed),
    }


if __name__ == "__main__":
    fill_page(PAGE, blocks())
