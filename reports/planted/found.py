"""What an A/B made of the planted mutants: ``mutants.json`` of a campaign, and its table.

A case of a mutant is one whose stage is built from the changed file; the others are untouched, and measured too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peakgate.reports.planted.stored import read_record, write_record
from peakgate.verdict import Verdict

NAME = "mutants.json"
CAUGHT = frozenset({Verdict.SLOWER, Verdict.BELOW_FLOOR})


@dataclass(frozen=True, slots=True)
class Judged:
    """A case of a mutant: its verdict and the measured change of its time in percent, None where it has none."""

    case: str
    verdict: str
    change_percent: float | None

    @property
    def percent_slower(self) -> float:
        """By how much its time rose; 0 where that is not known."""
        return self.change_percent or 0.0


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutant with its cases, the most slowed first."""

    name: str
    reason: str
    cases: tuple[Judged, ...]

    @property
    def caught(self) -> int:
        """How many of its cases were called."""
        return sum(case.verdict in CAUGHT for case in self.cases)


@dataclass(frozen=True, slots=True)
class Found:
    """All mutants; how many untouched cases were measured, and those of them that were not SAME."""

    mutants: tuple[Mutant, ...]
    untouched: int
    flagged: tuple[Judged, ...]


def found(planted: Mapping[str, Any], verdicts: Mapping[str, Any]) -> Found:
    """From what ``reports.planted.apply --json`` says was planted and the A/B's ``ab.json``."""
    rows = {row["case"]: Judged(row["case"], row["verdict"], row.get("change_percent")) for row in verdicts["rows"]}
    mutants = [
        Mutant(name, entry["reason"], _worst_first(rows[case] for case in entry["cases"] if case in rows))
        for name, entry in planted["mutants"].items()
    ]
    untouched = [rows[case] for case in planted["untouched"] if case in rows]
    return Found(tuple(mutants), len(untouched), tuple(case for case in untouched if case.verdict != Verdict.SAME))


def table(record: Found) -> str:
    """A row a mutant, the most slowed first, as Markdown, and a line on the untouched cases."""
    rows = sorted(record.mutants, key=lambda mutant: -mutant.cases[0].percent_slower if mutant.cases else 0.0)
    lines = ["| mutant | what it is | most slowed case | slower by | cases called |", "|---|---|---|---|---|"]
    for mutant in rows:
        first = mutant.cases[0] if mutant.cases else None
        worst = f"{first.case} | {first.percent_slower:.1f} %" if first else "not measured |"
        lines.append(f"| {mutant.name} | {mutant.reason} | {worst} | {mutant.caught} of {len(mutant.cases)} |")
    caught = sum(mutant.caught > 0 for mutant in record.mutants)
    flagged = ", ".join(f"{case.case} {case.verdict}" for case in record.flagged) or "none flagged"
    lines += ["", f"{caught} of {len(rows)} mutants caught; of {record.untouched} untouched cases, {flagged}."]
    return "\n".join(lines)


def write_found(folder: Path, record: Found) -> Path:
    """Write the record and give the path."""
    return write_record(folder / NAME, asdict(record))


def read_found(folder: Path) -> Found:
    """What ``write_found`` wrote there; a PeakgateError names what is wrong with it."""
    return read_record(folder / NAME, _found)


def _found(content: Mapping[str, Any]) -> Found:
    mutants = (
        Mutant(each["name"], each["reason"], tuple(Judged(**case) for case in each["cases"]))
        for each in content["mutants"]
    )
    return Found(tuple(mutants), int(content["untouched"]), tuple(Judged(**case) for case in content["flagged"]))


def _worst_first(cases: Iterable[Judged]) -> tuple[Judged, ...]:
    return tuple(sorted(cases, key=lambda case: case.percent_slower, reverse=True))
