"""Fill the page's tables from the records; ``--room RUN OUT`` makes one of them from a run file of this repository."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.correctness.study import RULES
from lab.pages import fill_page, read_json

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
EXCEEDS = 2.0
"""A mutant counts where its damage is more than so many times that of the worst variant."""

_NAMES = {
    "largest": r"`tolerance * max\|ref\|` (before 0.3)",
    "row": r"`tolerance * (\|ref\| + rms of its row)`",
    "absolute": r"`tolerance * reference(\|inputs\|)`",
    "estimated": "Peakgate's, magnitudes estimated",
    "given": "Peakgate's, `scale` and `terms` given",
}


_MUTANTS = {"quietest row 1 % off": "quietest row 5 % off"}
"""A name in the record of d3cfc97 that says another size than the study multiplied by."""


def _rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _variant(row: dict[str, str], rule: str) -> bool:
    """Whether a rule must pass it: `terms` promises that no part of a sum is kept in a shorter type."""
    return row["is"] == "variant" and not (rule == "given" and row["name"].startswith("parts in"))


def rules(rows: Sequence[dict[str, str]]) -> str:
    """Variants rejected and mutants missed by each rule."""
    mutants = [row for row in rows if row["is"] == "mutant" and float(row["damage"]) > EXCEEDS]
    lines = []
    for rule in RULES:
        variants = [row for row in rows if _variant(row, rule) and not _library_in_short_sums(row, rule)]
        refused = sum(float(row[rule]) > 1 for row in variants)
        missed = sum(float(row[rule]) <= 1 for row in mutants)
        lines.append((_NAMES[rule], f"{refused} of {len(variants)}", f"{missed} of {len(mutants)}"))
    return _table(["an element, or an output, may be off by", "variants refused", "mutants missed"], lines)


def _library_in_short_sums(row: dict[str, str], rule: str) -> bool:
    """PyTorch's attention keeps its weights in the inputs' type, which `terms` excludes."""
    return rule == "given" and (row["kind"], row["name"]) == ("attention", "PyTorch") and row["type"].endswith("16")


def missed(rows: Sequence[dict[str, str]]) -> str:
    """The mutants that Peakgate's rule misses."""
    lines = [
        (
            row["kind"],
            row["type"],
            _MUTANTS.get(row["name"], row["name"]),
            row["damage"],
            row["estimated"],
            row["given"],
        )
        for row in rows
        if row["is"] == "mutant" and float(row["damage"]) > EXCEEDS
        if min(float(row["estimated"]), float(row["given"])) <= 1
    ]
    return _table(["kind", "type", "mutant", "damage", "over the bound, estimated", "given"], lines)


def room(rows: Sequence[dict[str, str]]) -> str:
    """The largest error over its bound of each kernel that rounds."""
    return _table(["case", "cases alike", "largest error over its bound"], [tuple(row.values()) for row in rows])


def extracted(run: Path) -> list[dict[str, object]]:
    """By family and size, the largest error over its bound in a run file, of cases that allow rounding."""
    found: dict[str, list[float]] = {}
    for benchmark in read_json(run)["benchmarks"]:
        info = benchmark["extra_info"]
        if info["tolerance"]:
            found.setdefault(f"{info['family']} {info['size']}", []).append(info["error_over_bound"])
    return [{"case": case, "cases": len(each), "error_over_bound": f"{max(each):.3g}"} for case, each in found.items()]


def main() -> None:
    """Fill the page, or make a record of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--room", nargs=2, type=Path, metavar=("RUN", "OUT"))
    options = parser.parse_args()
    if options.room:
        run, out = options.room
        rows = extracted(run)
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return
    fill_page(PAGE, content())


def content() -> dict[str, str]:
    """The tables by the name of their block."""
    judged, large = _rows("rules-d3cfc97.csv"), _rows("large-rules-d3cfc97.csv")
    return {
        "correctness-rules": rules(judged),
        "correctness-missed": missed(judged),
        "correctness-large": _table(
            ["PyTorch's kernel", "type", "elements", "largest error over its bound", "estimate in ms"],
            [(*list(row.values())[:4], row["estimate_ms"]) for row in large],
        ),
        "correctness-room-gpu": room(_rows("room-d3cfc97.csv")),
        "correctness-room-cpu": room(_rows("room-cpu-emulator.csv")),
    }


if __name__ == "__main__":
    main()
