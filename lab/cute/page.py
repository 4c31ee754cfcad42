"""Fill the page of CuTe's kernels from their record: ``python -m lab.cute.page``."""

from __future__ import annotations

from lab.cute.cute import HERE, RECORD
from lab.pages import fill_page, read_json, table

PAGE = HERE / "README.md"


def blocks() -> dict[str, str]:
    """The table of the page, by the name of its block."""
    record = read_json(RECORD)
    rows = [
        [row["kernel"], f"`{row['without']}`" if row["without"] else "", row["outcome"]]
        for row in record["rows"].values()
    ]
    headed = table(["kernel", "without", "outcome"], rows)
    return {"cute": f"NVIDIA/cutlass at {record['cutlass'][:7]}.\n\n{headed}"}


if __name__ == "__main__":
    fill_page(PAGE, blocks())
