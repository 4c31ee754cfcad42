"""What tuners chose in the processes of a case, on one side and on the other. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peakgate.core.case import TunedChoice
from peakgate.core.text import counted
from peakgate.reports.runs.runfile import CaseResult

Configuration = tuple[TunedChoice, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """A configuration that processes of a side chose: how many, and the range of their times."""

    configuration: Configuration
    processes: int
    least_us: float
    most_us: float


def chosen(results: Sequence[CaseResult]) -> list[Spread]:
    """The configurations of a side, the most frequent first; empty where nothing was tuned."""
    found: dict[Configuration, list[float]] = {}
    for result in results:
        if result.tuned:
            found.setdefault(result.tuned, []).append(result.time_us)
    spreads = [Spread(each, len(times), min(times), max(times)) for each, times in found.items()]
    return sorted(spreads, key=lambda each: (-each.processes, repr(each.configuration)))


def tuner_notes(base: Sequence[CaseResult], head: Sequence[CaseResult]) -> list[str]:
    """In words: whether both sides ran one choice, and how far a side's processes chose differently."""
    sides = {"base": chosen(base), "head": chosen(head)}
    if not all(sides.values()):
        return []
    before, after = (side[0].configuration for side in sides.values())
    notes = [f"the tuner is not steady in {name}: {_several(side)}" for name, side in sides.items() if len(side) > 1]
    if [(each.kernel, each.configuration) for each in before] != [(each.kernel, each.configuration) for each in after]:
        notes.append(f"another configuration: {_named(before)} to {_named(after)}")
    elif not notes:
        same = before == after and all(each.code for each in before)
        codes = "the same code" if same else f"code {_codes(before)} to {_codes(after)}"
        notes.append(f"one configuration on both sides: {_named(before)}; {codes}")
    return notes


def _named(configuration: Configuration) -> str:
    return "; ".join(f"{each.kernel} {each.configuration}" for each in configuration)


def _codes(configuration: Configuration) -> str:
    return " ".join(each.code or "unknown" for each in configuration)


def _several(side: Sequence[Spread]) -> str:
    return " and ".join(
        f"{_named(each.configuration)} in {counted(each.processes, 'process')} "
        f"({each.least_us:.2f} to {each.most_us:.2f} µs)"
        for each in side
    )
