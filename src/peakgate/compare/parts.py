"""Which parts of an end-to-end case explain that it got slower, and what none of them explains; pure.

A part explains the difference of its own times, as often as the case names it. An interval of the rest follows from
those of the case and of its parts, which are taken to be independent (the method of variance estimates recovery: Zou
and Donner, Construction of confidence limits about effect measures, 2008). No difference whose interval includes 0 is
attributed to anything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from peakgate.base.verdict import Verdict


@dataclass(frozen=True, slots=True)
class TimeChange:
    """A difference of times in microseconds, NEW less BASE, with its interval."""

    change_us: float
    low_us: float
    high_us: float

    @property
    def resolved(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low_us > 0 or self.high_us < 0

    @property
    def text(self) -> str:
        """``+8.10 µs (+7.20 to +9.00)``."""
        return f"{self.change_us:+.2f} µs ({self.low_us:+.2f} to {self.high_us:+.2f})"


@dataclass(frozen=True, slots=True)
class ExplainedTime:
    """A slower case: its ``whole`` change, those of its parts that are resolved, largest first, and the ``rest``.

    The rest is what no measured part explains. ``unresolved`` are parts whose interval includes 0, and ``unmeasured``
    those without a time on both sides; their change may be a part of the rest.
    """

    case: str
    whole: TimeChange
    parts: Mapping[str, TimeChange]
    rest: TimeChange
    unresolved: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The case, what each part explains of its change, what none explains, and which parts say nothing."""
        found = [
            f"{part} explains {change.text}, {100 * change.change_us / self.whole.change_us:.0f} % of it"
            for part, change in self.parts.items()
        ]
        nothing = "no measured part" if self.unmeasured else "no part"
        if self.rest.resolved:
            found.append(f"{nothing} explains {self.rest.text}")
        else:
            found.append(f"{self.rest.text} is left, which may be none")
        if self.unresolved:
            found.append(f"not resolved: {', '.join(self.unresolved)}")
        if self.unmeasured:
            found.append(f"not measured on both sides: {', '.join(self.unmeasured)}")
        return f"{self.case} is slower by {self.whole.text}: {'; '.join(found)}"


def explained(rows: Iterable[SimpleNamespace], parts: Mapping[str, Sequence[str]]) -> list[ExplainedTime]:
    """The slower cases that name ``parts``, in the order of ``rows``, the records of a comparison's frame."""
    known = {row.case: row for row in rows}
    found = []
    for case, row in known.items():
        whole = _change(row)
        if row.verdict != Verdict.SLOWER or not parts.get(case) or whole is None or not whole.resolved:
            continue
        times = Counter(parts[case])
        changes = {part: _change(known.get(part), count) for part, count in times.items()}
        measured = {part: change for part, change in changes.items() if change is not None}
        resolved = {part: change for part, change in measured.items() if change.resolved}
        own = measured.values()
        left = whole.change_us - sum(each.change_us for each in own)
        below = math.hypot(whole.change_us - whole.low_us, *(each.high_us - each.change_us for each in own))
        above = math.hypot(whole.high_us - whole.change_us, *(each.change_us - each.low_us for each in own))
        found.append(
            ExplainedTime(
                case,
                whole,
                dict(sorted(resolved.items(), key=lambda each: -abs(each[1].change_us))),
                TimeChange(left, left - below, left + above),
                tuple(part for part in measured if part not in resolved),
                tuple(part for part in times if part not in measured),
            )
        )
    return found


def _change(row: SimpleNamespace | None, count: int = 1) -> TimeChange | None:
    """The difference of ``count`` times of a case; None if it has none. Unchanged code that was not measured has 0."""
    if row is None:
        return None
    percents = row.change_percent, row.low_percent, row.high_percent
    if row.base_time_us is None or row.new_time_us is None or None in percents:
        return TimeChange(0.0, 0.0, 0.0) if row.verdict == Verdict.SAME else None
    return TimeChange(*(count * row.base_time_us * each / 100 for each in percents))
