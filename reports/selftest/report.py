"""A selftest as JSON and on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from peakgate.common.text import as_json, counted
from peakgate.reports.render.console import VerdictConsole
from peakgate.reports.render.words import one_line
from peakgate.reports.result import percent
from peakgate.reports.runs.runfile import Run
from peakgate.reports.selftest.resample import DesignResult, TightFloor, TightThreshold
from peakgate.verdict import ExitCode, Verdict, exit_code

MOST_FALSE_ALARMS = 0.05
"""A gate that flags unchanged code more often than this is soon switched off."""


@dataclass(frozen=True, slots=True)
class Selftest:
    """What the gate did on unchanged sessions of one runner, and which floors and thresholds ask too much of it."""

    runs: tuple[Run, ...]
    measured: tuple[DesignResult, ...]
    floors: tuple[TightFloor, ...]
    thresholds: tuple[TightThreshold, ...]

    @property
    def verdict(self) -> Verdict:
        """PASS, or INCONCLUSIVE: this runner cannot decide what is asked of it."""
        too_many = any(each.rate > MOST_FALSE_ALARMS for each in self.measured)
        return Verdict.INCONCLUSIVE if too_many or self.floors else Verdict.PASS

    @property
    def exit_code(self) -> ExitCode:
        return exit_code({self.verdict})


def to_json(found: Selftest) -> str:
    """The whole record; sessions are named by file, false positives by design."""
    last = found.runs[-1]
    cases = sorted({case for each in found.measured for case in each.detectable_percent})
    document = {
        "schema": 1,
        "command": "selftest",
        "verdict": found.verdict,
        "exit_code": int(found.exit_code),
        "gpu": last.slug,
        **{name: getattr(last, name) for name in ("uuid", "driver", "commit")},
        "taken": last.taken.isoformat(),
        "sessions": [run.path.name for run in found.runs],
        "designs": [_design(each, found.runs) for each in found.measured],
        "floors_too_tight": [asdict(each) for each in found.floors],
        "thresholds_too_tight": [asdict(each) for each in found.thresholds],
        "smallest_detectable_change_percent": {
            case: {each.design.name.lower(): _rounded(each.detectable_percent.get(case)) for each in found.measured}
            for case in cases
        },
    }
    return as_json(document)


def _design(measured: DesignResult, runs: Sequence[Run]) -> dict[str, Any]:
    changes = sorted(measured.detectable_percent.values())
    return {
        "design": measured.design,
        "gates": measured.gates,
        "alarms": measured.flagged,
        "false_alarm_rate": measured.rate,
        "false_alarm_rate_at_most": measured.at_most,
        "alarming_cases": dict(measured.flagged_cases),
        "alarming_sessions": {runs[index].path.name: count for index, count in measured.flagged_sessions.items()},
        "smallest_detectable_change_percent": {
            "median": _rounded(median(changes)) if changes else None,
            "worst": _rounded(changes[-1]) if changes else None,
        },
    }


def _rounded(percent: float | None) -> float | None:
    return None if percent is None else round(percent, 4)


MOST_LISTED = 10


def show(found: Selftest, written: Sequence[Path]) -> None:
    """Print rates, what each design detects, and floors and thresholds that ask too much; the verdict comes last."""
    last = found.runs[-1]
    lines = [
        f"{len(found.runs)} sessions of {last.slug}, driver {last.driver or 'unknown'}, commit {last.commit[:12]}",
        "",
    ]
    for measured in found.measured:
        lines += _design_lines(found, measured)
    lines += _listed(
        f"{counted(len(found.floors), 'floor')} tighter than this runner repeats (3 SDs below the median session)",
        [
            f"{each.case}: floor {each.floor:.3f}, median {each.median:.3f}, highest reliable {each.carried:.3f};"
            f" {each.sessions_below} of {len(found.runs)} sessions below"
            for each in found.floors
        ],
    )
    lines += _listed(
        f"{counted(len(found.thresholds), 'case')} with more noise than one run against one is trusted to resolve",
        [
            f"{each.case}: resolves {percent(each.threshold_percent)}, repeats within {percent(each.carried_percent)}"
            for each in found.thresholds
        ],
    )
    lines.append(f"{found.verdict}; {', '.join(str(path) for path in written)}")
    console = VerdictConsole(markup=False)
    for line in lines:
        console.print(one_line(line), soft_wrap=True)


def _design_lines(found: Selftest, measured: DesignResult) -> list[str]:
    rate = f"{100 * measured.rate:.1f} %"
    if measured.rate > MOST_FALSE_ALARMS:
        rate += f", more than {100 * MOST_FALSE_ALARMS:.0f} %"
    if measured.at_most is not None:
        rate += f"; at most {100 * measured.at_most:.0f} % with 95 % confidence"
    lines = [f"{measured.design}: {measured.flagged} of {measured.gates} gates failed on unchanged code, {rate}"]
    changes = sorted(measured.detectable_percent.values())
    if changes:
        lines.append(
            f"    detects {percent(changes[len(changes) // 2])} in the median case, {percent(changes[-1])} in the worst"
        )
    if measured.flagged:
        cases = [f"{case} ({count})" for case, count in measured.flagged_cases.items()][:MOST_LISTED]
        lines.append(f"    falsely flagged as slower: {', '.join(cases) or 'the suite as a whole'}")
        session, count = next(iter(measured.flagged_sessions.items()))
        lines.append(f"    {found.runs[session].path.name} is in {count} of the {measured.flagged}")
    return lines


def _listed(title: str, entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    more = len(entries) - MOST_LISTED
    shown = [f"    {entry}" for entry in entries[:MOST_LISTED]]
    return [title, *shown, *([f"    and {more} more: see the file"] if more > 0 else [])]
