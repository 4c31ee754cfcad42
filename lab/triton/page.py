"""Fill the table of README.md from the record: ``python -m lab.triton.page``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.pages import fill_page, percent, read_json, table

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"


def blocks() -> dict[str, str]:
    """What `check` reported of each set, and the shares of it."""
    record: dict[str, Any] = read_json(HERE / "kernels.json")
    kernels = record["kernels"]
    rows = []
    for kind in dict.fromkeys(each["injected"] for each in kernels):
        chosen = [each for each in kernels if each["injected"] == kind]
        counts = [sum(bool(each[what]) for each in chosen) for what in ("reported", "placed")]
        reported = ", ".join(sorted({name for each in chosen for name in each["reported"]}))
        rows.append([kind or "none", len(chosen), *counts, reported])
    flagged = [each for each in kernels if each["reported"]]
    defective = [each for each in kernels if each["injected"]]
    right = [each for each in flagged if each["injected"]]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    text = (
        f"Precision {percent(len(right) / len(flagged))} ({len(right)} of {len(flagged)} flagged have a defect), "
        f"recall {percent(len(right) / len(defective))} ({len(right)} of {len(defective)}), with {versions}."
    )
    return {"triton": f"{table(['injected', 'kernels', 'flagged', 'at a line of it', 'reported as'], rows)}\n\n{text}"}


if __name__ == "__main__":
    fill_page(PAGE, blocks())
