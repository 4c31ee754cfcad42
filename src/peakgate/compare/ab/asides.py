"""Notes that change no verdict: what autotuners chose, machine code of callables, and energy per launch; pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from peakgate.base.formatting import counted, figure, first_of
from peakgate.base.report import Table
from peakgate.compare.evidence import other_kernels
from peakgate.runfile.saved import CaseResult
from peakgate.spec.recorded import Energy, TunedChoice

Configuration = tuple[TunedChoice, ...]
_UNITS = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ"))


def chosen(results: Sequence[CaseResult]) -> dict[Configuration, list[float]]:
    """The times of a side's processes by configuration, the most frequent first; empty where nothing was tuned."""
    found: dict[Configuration, list[float]] = {}
    for result in results:
        if result.tuned:
            found.setdefault(result.tuned, []).append(result.time_us)
    return dict(sorted(found.items(), key=lambda each: (-len(each[1]), repr(each[0]))))


def tuner_notes(base: Sequence[CaseResult], head: Sequence[CaseResult]) -> list[str]:
    """Whether both sides ran the same configuration, and what a side's processes chose if they disagree."""
    sides = {"base": chosen(base), "head": chosen(head)}
    if not all(sides.values()):
        return []
    before, after = (next(iter(side)) for side in sides.values())
    notes = []
    for name, side in sides.items():
        if len(side) > 1:
            choices = (
                f"{_named(each)} in {counted(len(times), 'process')} ({min(times):.2f} to {max(times):.2f} µs)"
                for each, times in side.items()
            )
            notes.append(f"the tuner's choice varies in {name}: {' and '.join(choices)}")
    if [(each.kernel, each.configuration) for each in before] != [(each.kernel, each.configuration) for each in after]:
        notes.append(f"the configuration changed: {_named(before)} to {_named(after)}")
    elif not notes:
        if all(each.code is None for each in (*before, *after)):
            seen = any(result.kernels for side in (base, head) for result in side)  # by ``kernel_notes``
            codes = "" if seen else "; its machine code is not reported"
        else:
            same = before == after and all(each.code for each in before)
            codes = "; the same machine code" if same else f"; machine code {_codes(before)} to {_codes(after)}"
        notes.append(f"the same configuration on both sides: {_named(before)}{codes}")
    return notes


def kernel_notes(base: Sequence[CaseResult], head: Sequence[CaseResult]) -> list[str]:
    """Whether the machine code of a callable's kernels changed, and of which; or of which it is unknown."""
    before, after = dict[str, str | None](), dict[str, str | None]()
    for codes, side in ((before, base), (after, head)):
        for name, code in (each for result in side for each in (result.kernels or {}).items()):
            codes[name] = code if codes.get(name, code) == code else None  # unknown if processes differ
    if not before or not after:
        return []
    unknown = [name for name in before if name in after and None in (before[name], after[name])]
    prints = {result.fingerprint for side in (base, head) for result in side}
    if len(prints) == 1 and None not in prints:
        return [f"unchanged machine code of {first_of(list(before))}"]
    found = other_kernels(before, after)
    return [*found, f"unknown machine code of {first_of(unknown)}"] if unknown else found


def _named(configuration: Configuration) -> str:
    return "; ".join(f"{each.kernel} {each.configuration}" for each in configuration)


def _codes(configuration: Configuration) -> str:
    return " ".join(each.code or "unknown" for each in configuration)


def energy_notes(base: Sequence[CaseResult], head: Sequence[CaseResult]) -> list[str]:
    """The median energy per launch on each side, the range over its processes, and the idle power."""
    before, after = ([result.energy for result in side if result.energy] for side in (base, head))
    if not before or not after:
        return []
    idle_w = [each.idle_w for each in (*before, *after) if each.idle_w is not None]
    without = f", idle {statistics.median(idle_w):.0f} W" if idle_w else ""
    change = f", {100 * (_median(after) / _median(before) - 1):+.1f} %" if _median(before) > 0 else ""
    return [f"energy per launch, back to back: {_side(before)} to {_side(after)}{change}{without}"]


def energy_table(cases: Mapping[str, tuple[Sequence[CaseResult], Sequence[CaseResult]]]) -> Table | None:
    """``energy_notes`` of all cases as a table; None if energy was not measured."""
    rows = [(case, note) for case, sides in cases.items() for note in energy_notes(*sides)]
    return Table("Energy (not judged)", ("case", "base to head"), rows) if rows else None


def _median(side: Sequence[Energy]) -> float:
    return statistics.median(each.joules for each in side)


def _side(side: Sequence[Energy]) -> str:
    middle = _median(side)
    least, most = min(each.least_joules for each in side), max(each.most_joules for each in side)
    scale, unit = next((each for each in _UNITS if middle >= each[0]), _UNITS[-1])
    shown = [figure(value / scale, 3) for value in (middle, least, most)]
    return f"{shown[0]} {unit} ({shown[1]} to {shown[2]})"
