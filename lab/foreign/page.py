"""Fill the table of README.md: ``python -m lab.foreign.page``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from lab.pages import fill_page, read_json, table

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
NO_KERNEL = "the rule took another word for the kernel's name"


def blocks() -> dict[str, str]:
    """Results of the kernels, in the first run and now, and the reasons of refusals."""
    kernels = read_json(HERE / "outcomes.json")["kernels"]
    first, further = ([each for each in kernels if each["list"] == name] for name in ("first", "further"))
    why = Counter((each["why"], each["nvcc"] is None) for each in kernels if each["now"] == "refused")
    reasons = sorted(
        {reason for reason, _ in why}, key=lambda reason: (-why[reason, True], -why[reason, False], reason)
    )
    judged = Counter(each["judged"] for each in kernels if each["reported"])
    return {
        "foreign-runs": table(
            ["list", "run", "kernels", "ran", "refused", "share"],
            [
                _row("first", "first", first),
                _row("first", "now", first),
                _row("first, that nvcc takes", "first", _taken(first)),
                _row("first, that nvcc takes", "now", _taken(first)),
                _row("further, that nvcc takes", "first", _taken(further)),
                _row("further, that nvcc takes", "now", _taken(further)),
                _row("both, that nvcc takes", "now", _taken(kernels)),
            ],
        ),
        "foreign-refused": table(
            ["why it is refused now", "kernels that nvcc takes", "others"],
            [[reason, why[reason, True], why[reason, False]] for reason in reasons if reason != NO_KERNEL],
        ),
        "foreign-reported": table(["what a reported defect is", "kernels"], list(map(list, judged.most_common()))),
    }


def _row(title: str, run: str, chosen: list[dict[str, Any]]) -> list[str | int]:
    ran = sum(each[run] == "ran" for each in chosen)
    return [title, run, len(chosen), ran, len(chosen) - ran, f"{100 * ran / len(chosen):.1f} %"]


def _taken(kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in kernels if each["why"] != NO_KERNEL and each["nvcc"] is None]


if __name__ == "__main__":
    fill_page(PAGE, blocks())
