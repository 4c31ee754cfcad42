"""A selftest on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from peakgate.reports.render.console import VerdictConsole
from peakgate.reports.render.words import one_line
from peakgate.reports.result import percent
from peakgate.reports.selftest.record import MOST_FALSE_ALARMS, Selftest
from peakgate.reports.selftest.resample import Measured

MOST_LISTED = 10


def show(found: Selftest, written: Sequence[Path]) -> None:
    """Print rates, what each design sees, and floors and thresholds that ask too much; the verdict comes last."""
    last = found.runs[-1]
    lines = [
        f"{len(found.runs)} sessions of {last.slug}, driver {last.driver or 'unknown'}, commit {last.commit[:12]}",
        "",
    ]
    for measured in found.measured:
        lines += _design(found, measured)
    lines += _listed(
        f"{len(found.floors)} floors are tighter than this runner can carry (3 SDs under the median session)",
        [
            f"{each.case}: floor {each.floor:.3f}, median {each.median:.3f}, carries {each.carried:.3f};"
            f" {each.sessions_below} of {len(found.runs)} sessions below"
            for each in found.floors
        ],
    )
    lines += _listed(
        f"{len(found.thresholds)} cases repeat worse than one run against one is trusted to resolve",
        [
            f"{each.case}: resolves {percent(each.threshold_percent)}, repeats within {percent(each.carried_percent)}"
            for each in found.thresholds
        ],
    )
    lines.append(f"{found.verdict}; {', '.join(str(path) for path in written)}")
    console = VerdictConsole(markup=False)
    for line in lines:
        console.print(one_line(line), soft_wrap=True)


def _design(found: Selftest, measured: Measured) -> list[str]:
    rate = f"{100 * measured.rate:.1f} %"
    if measured.rate > MOST_FALSE_ALARMS:
        rate += f", more than {100 * MOST_FALSE_ALARMS:.0f} %"
    if measured.at_most is not None:
        rate += f"; at most {100 * measured.at_most:.0f} % with 95 % confidence"
    lines = [f"{measured.design}: {measured.alarms} of {measured.gates} gates failed on unchanged code, {rate}"]
    changes = sorted(measured.detectable_percent.values())
    if changes:
        lines.append(
            f"    sees {percent(changes[len(changes) // 2])} in the median case, {percent(changes[-1])} in the worst"
        )
    if measured.alarms:
        cases = [f"{case} ({count})" for case, count in measured.alarming_cases.items()][:MOST_LISTED]
        lines.append(f"    falsely called slower: {', '.join(cases) or 'the suite as a whole'}")
        session, count = next(iter(measured.alarming_sessions.items()))
        lines.append(f"    {found.runs[session].path.name} is in {count} of the {measured.alarms}")
    return lines


def _listed(title: str, entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    more = len(entries) - MOST_LISTED
    shown = [f"    {entry}" for entry in entries[:MOST_LISTED]]
    return [title, *shown, *([f"    and {more} more: see the file"] if more > 0 else [])]
