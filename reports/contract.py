"""What a case claims of itself and how it was timed, where the two sides of a comparison do not agree; pure."""

from __future__ import annotations

from collections.abc import Sequence

from peakgate.reports.runfile import CaseResult, Run

TERMS = ("bytes", "flops", "tolerance", "sampling", "timer")


def changed_terms(base: Sequence[Run], new: Sequence[Run]) -> list[str]:
    """One line per term that differs in a case of both sides, with how many cases and the first of them."""
    before, after = _last(base), _last(new)
    lines = []
    for term in TERMS:
        changes = [
            (case, values)
            for case, result in before.items()
            if case in after and _differ(values := (getattr(result, term), getattr(after[case], term)))
        ]
        if changes:
            case, (old, now) = changes[0]
            count = "1 case" if len(changes) == 1 else f"{len(changes)} cases"
            lines.append(f"{term} differ in {count} ({case} first: {_shown(old)} to {_shown(now)})")
    return lines


def _last(runs: Sequence[Run]) -> dict[str, CaseResult]:
    return {case: result for run in runs for case, result in run.cases.items()}


def _differ(values: tuple[object, object]) -> bool:
    return None not in values and values[0] != values[1]


def _shown(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
