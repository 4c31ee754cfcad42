"""Fill the table of README.md: ``python -m lab.foreign.page``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from peakgate.reports.pages.markers import table

from lab.pages import fill_page

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
NO_KERNEL = "the rule took another word for the kernel's name"


def blocks() -> dict[str, str]:
    """Results of the kernels, in the first run and now, and the reasons of refusals."""
    kernels = json.loads((HERE / "outcomes.json").read_text(encoding="utf-8"))["kernels"]
    named = [each for each in kernels if each["why"] != NO_KERNEL]
    rows = []
    for run, title, chosen in (
        ("first", "first", kernels),
        ("now", "now", kernels),
        ("now", "now, kernels alone", named),
    ):
        ran = sum(each[run] == "ran" for each in chosen)
        rows.append([title, len(chosen), ran, len(chosen) - ran, f"{100 * ran / len(chosen):.1f} %"])
    why = Counter(each["why"] for each in kernels if each["now"] == "refused")
    judged = Counter(each["judged"] for each in kernels if each["reported"])
    return {
        "foreign-runs": table(["run", "kernels", "ran", "refused", "share"], rows),
        "foreign-refused": table(["why it is refused now", "kernels"], list(map(list, why.most_common()))),
        "foreign-reported": table(["what a reported defect is", "kernels"], list(map(list, judged.most_common()))),
    }


if __name__ == "__main__":
    fill_page(PAGE, blocks())
