"""Verdicts of a history: open regressions, one finding per case, worst first, and the exit code; pure.

Only change points decide. A case is SLOWER if an open regression that is not accepted began in its last RECENT sessions
or is a drift, FASTER if the steps in these sessions add up to less time, UNCONFIRMED if its newest sessions are slower
than noise explains but too few for a change point, INCONCLUSIVE if the smallest step detectable in its newest sessions
exceeds 15 % or if it is one of few cases and became slower slowly, and otherwise SAME. Shifts that all cases share are
removed from them and judged by the same rule as one more series.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from peakgate.base.formatting import counted, percent
from peakgate.base.verdict import FAILING, ExitCode, Verdict, exit_code
from peakgate.compare import spread
from peakgate.compare.history.causes import Cause, ChangePoint, Judged, Place
from peakgate.compare.history.levels import SHORTEST
from peakgate.compare.history.newest import RECENT
from peakgate.compare.history.series import LEFT, History
from peakgate.compare.history.steps import Change
from peakgate.compare.history.suite import find_changes
from peakgate.compare.judge import SMALLEST_SHIFT, WIDEST_RESOLVABLE
from peakgate.compare.result import WORST_FIRST, SpreadFinding, change_text, shift_percent
from peakgate.compare.spread import SideSpread
from peakgate.judge.acknowledged import Accepted
from peakgate.runfile.frame import tidy

FEWEST_TO_JUDGE = 2 * SHORTEST  # sessions that a case needs, five on either side of a step
MOST_COMMANDS = 3

# The columns of a history's frame, in order, with their dtypes; docs/reference/reports.md explains them.
TREND_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("case", "verdict", "reason", "where"), "string"),
    **dict.fromkeys(("older_time_us", "newest_time_us"), "float64"),
    **dict.fromkeys(("change_percent", "smallest_detectable_change_percent"), "float64"),
    **dict.fromkeys(("good", "bad"), "Int64"),
    "command": "string",
    "recent_us": "object",
}


@dataclass(frozen=True, slots=True)
class OpenRegression:
    """A slower step that later steps have not undone; ``remaining`` is what is left of its log ratio."""

    change: ChangePoint
    remaining: float
    accepted: Accepted | None = None

    @property
    def remaining_percent(self) -> float:
        return shift_percent(self.remaining)


class CaseFinding(NamedTuple):
    """The current state of one case: a row of ``TREND_COLUMNS``.

    Times are levels, now and before the step: equal without a step, None with too few sessions. ``change_percent`` is
    what is left of the step, positive if slower. The smallest detectable change is that of the newest five sessions.
    ``good`` and ``bad`` are the numbers of the sessions before and after the step; ``recent_us`` holds the last
    ``RECENT`` times, oldest first.
    """

    case: str
    verdict: Verdict
    reason: str
    recent_us: tuple[float, ...] = ()
    older_time_us: float | None = None
    newest_time_us: float | None = None
    change_percent: float | None = None
    smallest_detectable_change_percent: float | None = None
    where: str | None = None
    good: int | None = None
    bad: int | None = None
    command: str | None = None


@dataclass(frozen=True)
class Trend:
    """A history and its findings, worst first; ``together``, that of the whole suite, is None with too few cases.

    ``untimed`` lists the newest session's cases without a time by verdict; ``changes`` all change points, newest first;
    ``regressions`` the open ones, accepted ones last; ``launch`` the changes of the common time per launch, in
    microseconds; ``spread`` the cases whose samples vary more in the newest sessions.
    """

    history: History
    findings: tuple[CaseFinding, ...]
    together: CaseFinding | None
    notes: tuple[str, ...] = ()
    untimed: Mapping[Verdict, tuple[str, ...]] = field(default_factory=dict)
    changes: tuple[ChangePoint, ...] = ()
    regressions: tuple[OpenRegression, ...] = ()
    launch: tuple[tuple[Change, Place], ...] = ()
    spread: tuple[SpreadFinding, ...] = ()
    fail_on_open: bool = False

    @property
    def open(self) -> tuple[OpenRegression, ...]:
        """The open regressions that are not accepted."""
        return tuple(each for each in self.regressions if each.accepted is None)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per case, worst first; columns are ``TREND_COLUMNS``, ``attrs`` the verdict and the exit code."""
        found = tidy([each._asdict() for each in self.findings], TREND_COLUMNS)
        found.attrs = {"verdict": self.verdict.value, "exit_code": int(self.exit_code)}
        return found

    @property
    def counts(self) -> dict[Verdict, int]:
        """Cases by verdict, worst first."""
        found = Counter(finding.verdict for finding in self.findings)
        return {verdict: found[verdict] for verdict in WORST_FIRST if found[verdict]}

    @property
    def exit_code(self) -> ExitCode:
        found = self._verdicts()
        waiting = {Verdict.INCONCLUSIVE} if self.fail_on_open and Verdict.UNCONFIRMED in found else set()
        return exit_code(found | waiting)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; PASS if none is a regression or undecided."""
        counted = self._verdicts() & (FAILING | {Verdict.UNCONFIRMED})
        return next((verdict for verdict in WORST_FIRST if verdict in counted), Verdict.PASS)

    @property
    def sessions_needed(self) -> int:
        """How many more sessions there must be before any case can be judged; 0 once one can."""
        return max(0, FEWEST_TO_JUDGE - int(self.history.times.notna().sum(axis=1).max()))

    def _verdicts(self) -> set[Verdict]:
        verdicts = set(self.counts) | set(self.untimed) | ({self.together.verdict} if self.together else set())
        return verdicts | ({Verdict.SLOWER} if self.fail_on_open and self.open else set())

    @property
    def commands(self) -> list[str]:
        """Commands that would confirm or refute the worst slowdowns, at most ``MOST_COMMANDS``."""
        settled = (Verdict.SLOWER, Verdict.UNCONFIRMED)
        findings = [*self.findings, *([self.together] if self.together else [])]
        slower = [each.command for each in findings if each.command and each.verdict in settled]
        return list(dict.fromkeys(slower))[:MOST_COMMANDS]


def find_trend(
    history: History,
    notes: tuple[str, ...] = (),
    untimed: Mapping[Verdict, tuple[str, ...]] | None = None,
    accepted: Sequence[Accepted] = (),
    *,
    fail_on_open: bool = False,
) -> Trend:
    """Judge every case of the history, and the whole suite; ``accepted`` lists regressions that may stay."""
    found = find_changes(history.complete)
    points = tuple(replace(each, case=each.case.removesuffix(LEFT)) for each in found.points)
    regressions = open_regressions(points, accepted)
    times_us = [row[np.isfinite(row)] for row in history.times.to_numpy()]
    enough = any(len(own) >= FEWEST_TO_JUDGE for own in times_us)
    findings = []
    for case, own in zip(history.cases, times_us, strict=True):
        sessions = counted(len(own), "session")
        if len(own) < FEWEST_TO_JUDGE:
            reason = f"not judged yet: {sessions} so far, {FEWEST_TO_JUDGE} are needed"
            finding = CaseFinding(case, Verdict.NEW if enough else Verdict.INCONCLUSIVE, reason)
        elif case not in found.cases:
            reason = f"not judged yet: no GPU has measured it more than once in {sessions}"
            finding = CaseFinding(case, Verdict.INCONCLUSIVE, reason)
        else:
            finding = find_verdict(case, found.cases[case], regressions)
        findings.append(finding._replace(recent_us=tuple(own[-RECENT:].tolist())))
    findings.sort(key=badness)
    together = None
    if found.suite:  # times are relative: 1 is a case's usual time
        together = find_verdict("", found.suite, open_regressions(found.suite.points))
        recent = np.exp(found.share[np.isfinite(found.share)][-RECENT:])
        together = together._replace(recent_us=tuple(recent.tolist()))
    return Trend(
        history,
        tuple(findings),
        together,
        notes,
        untimed or {},
        points,
        regressions,
        found.launch,
        tuple(wider_samples(history)),
        fail_on_open,
    )


def wider_samples(history: History) -> list[SpreadFinding]:
    """The cases whose samples within a session vary more in the newest SHORTEST sessions than in those before.

    Of the GPU's times; not between sessions: their spread grows with every step and every new GPU.
    """
    history = history.part(of_host=False)
    samples, errors = (history.table(name).to_numpy(np.float64) for name in ("samples", "sampling_error"))
    figures = history.log_time, spread.sd_of_samples(errors, samples), samples
    before = SideSpread(*(each[:, :-SHORTEST] for each in figures))
    after = SideSpread(*(each[:, -SHORTEST:] for each in figures))
    return spread.grown(history.cases, before, after, between=False) if len(history.sessions) >= FEWEST_TO_JUDGE else []


def badness(finding: CaseFinding) -> tuple[float, float, str]:
    """Sort key of findings: verdict, then the largest slowdown, then name."""
    return WORST_FIRST.index(finding.verdict), -(finding.change_percent or 0.0), finding.case


def open_regressions(points: Sequence[ChangePoint], accepted: Sequence[Accepted] = ()) -> tuple[OpenRegression, ...]:
    """The slower steps that later ones of the same case have not undone, largest first.

    Only steps caused by commits undo a step caused by commits: a faster driver hides it. A step is accepted if an entry
    of ``accepted`` names its case, at least its size, and a day no earlier than its first measurement; an entry covers
    several steps as long as their sum is no larger.
    """
    series: dict[str, list[ChangePoint]] = {}
    for change in sorted(points, key=lambda each: each.number):
        series.setdefault(change.case, []).append(change)
    found = []
    for steps in series.values():
        left = [math.log1p(each.percent / 100) for each in accepted]
        for index, step in enumerate(steps):
            by_commits = step.cause is Cause.COMMITS
            counted = [each for each in steps[index:] if each.cause is Cause.COMMITS or not by_commits]
            remaining = min(np.cumsum([each.log_ratio for each in counted]).tolist())
            if remaining <= SMALLEST_SHIFT:
                continue
            surely = remaining - (step.log_ratio - step.low)
            acceptance = None
            for number, each in enumerate(accepted):
                if each.case == step.case and surely <= left[number] and step.first_day <= each.day:
                    left[number] -= max(surely, 0.0)
                    acceptance = each
                    break
            found.append(OpenRegression(step, remaining, acceptance))
    return tuple(sorted(found, key=lambda each: (each.accepted is not None, -each.remaining, each.change.case)))


def find_verdict(case: str, judged: Judged, regressions: Sequence[OpenRegression]) -> CaseFinding:
    """The finding of one case with enough sessions."""
    shown = judged.of_first if judged.first else judged.detectable
    least = shift_percent(max(SMALLEST_SHIFT, shown)) if math.isfinite(shown) else None
    recent = [each for each in judged.points if each.since <= RECENT or each.cause is Cause.DRIFT]
    slower = [each for each in regressions if each.change in recent]
    young = judged.unconfirmed
    if left := next((each for each in slower if each.accepted is None), None):
        verdict, change, change_percent = Verdict.SLOWER, left.change, left.remaining_percent
    elif young:
        change_percent = shift_percent(young.log_ratio)
        more = "a session of an earlier GPU" if young.first else counted(SHORTEST - young.sessions, "more session")
        settled = f"{more} will settle it" + (f", or {young.place.command}" if young.place.command else "")
        why = f"more than its noise explains; attributed to {young.cause} if it persists"
        if young.first:
            why = f"more than GPUs of one model differ by; the cause may be the GPU, which is new, or {young.cause}"
        text = f"{change_text(change_percent)} in {_newest_sessions(young.sessions)}, {why}; {settled}"
        times_us = young.older_us, young.older_us * math.exp(young.log_ratio)
        finding = CaseFinding(case, Verdict.UNCONFIRMED, text, (), *times_us, change_percent, least)
        return _at(young.place, finding)
    elif sum(each.log_ratio for each in recent) < -SMALLEST_SHIFT:
        change = min(recent, key=lambda each: each.log_ratio)
        verdict, change_percent = Verdict.FASTER, change.change_percent
    else:
        text = "too few sessions on one GPU to detect a step"
        if least is not None and judged.first:
            text = f"{percent(least)} would have been detected in {_newest_sessions(judged.first)}, on a new GPU"
        elif least is not None:
            text = f"{percent(least)} would have been detected in the newest {SHORTEST} sessions"
        reasons = ["no regression", text]
        noisy = judged.detectable > WIDEST_RESOLVABLE
        if noisy and least:
            reasons.append(f"too noisy to decide on {percent(shift_percent(WIDEST_RESOLVABLE))}")
        if judged.may_drift:
            reasons.append("it became slower slowly, which may be correlated noise")
        reasons += [
            f"{each.change.change_percent:+.2f} % accepted on {each.accepted.day}" for each in slower if each.accepted
        ]
        verdict = Verdict.INCONCLUSIVE if noisy or judged.may_drift else Verdict.SAME
        return CaseFinding(case, verdict, "; ".join(reasons), (), judged.level_us, judged.level_us, 0.0, least)
    over = "over" if change.cause is Cause.DRIFT else "since"
    text = f"{change_text(change_percent)} {over} {counted(change.since, 'session')}, attributed to {change.cause}"
    finding = CaseFinding(case, verdict, text, (), change.older_us, judged.level_us, change_percent, least)
    return _at(change.place, finding)


def _newest_sessions(count: int) -> str:
    return "the newest session" if count == 1 else f"the newest {count} sessions"


def _at(place: Place, finding: CaseFinding) -> CaseFinding:
    """The finding with the place of its step; its reason gets what else changed there."""
    reason = "; ".join([finding.reason, *place.facts])
    return finding._replace(reason=reason, where=place.where, good=place.good, bad=place.bad, command=place.command)
