"""The energy of a launch on both sides of an ``ab``, beside the time; it judges nothing. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from peakgate.core.report import Table
from peakgate.reports.runs.runfile import CaseResult, RecordedEnergy

_UNITS = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (0.0, "nJ"))


def energy_notes(base: Sequence[CaseResult], head: Sequence[CaseResult]) -> list[str]:
    """In words: the median energy of a launch on each side, the range of the processes, and the idle power."""
    before, after = ([result.energy for result in side if result.energy] for side in (base, head))
    if not before or not after:
        return []
    idle_w = [each.idle_w for each in (*before, *after) if each.idle_w is not None]
    without = f", idle {statistics.median(idle_w):.0f} W" if idle_w else ""
    change = f", {100 * (_median(after) / _median(before) - 1):+.1f} %" if _median(before) > 0 else ""
    return [f"energy per launch back to back {_side(before)} to {_side(after)}{change}{without}"]


def energy_table(cases: Mapping[str, tuple[Sequence[CaseResult], Sequence[CaseResult]]]) -> Table | None:
    """The same of every case that has it, a line each; None where none has."""
    rows = [(case, note) for case, sides in cases.items() for note in energy_notes(*sides)]
    return Table("Energy, which judges nothing", ("case", "base to head"), rows) if rows else None


def _median(side: Sequence[RecordedEnergy]) -> float:
    return statistics.median(each.joules for each in side)


def _side(side: Sequence[RecordedEnergy]) -> str:
    middle = _median(side)
    least, most = min(each.least_joules for each in side), max(each.most_joules for each in side)
    scale, unit = next((scale, unit) for scale, unit in _UNITS if middle >= scale)
    scale = scale or 1e-9
    return f"{middle / scale:.3g} {unit} ({least / scale:.3g} to {most / scale:.3g})"
