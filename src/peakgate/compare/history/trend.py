"""Findings of a history: one per case, worst first, the suite as a whole, and the exit code; pure.

Change points alone decide: SLOWER while one of a case's last RECENT sessions began a regression that is open and not
accepted, or a slow one goes on, FASTER where the steps among them add up to less time. Other cases are SAME within the
smallest step that their newest sessions would have shown, INCONCLUSIVE where that is over 15 %. UNCONFIRMED is a case
whose newest sessions are slower by more than noise, and too few to be a change point. What moved all cases at once is
taken out of them: it is a series of its own, judged by the same rule.
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

from peakgate.base.text import counted, percent
from peakgate.base.verdict import REGRESSIONS, UNDECIDED, ExitCode, Verdict, exit_code
from peakgate.compare.history.changes import Cause, ChangePoint, Changes, Judged, NewestLevel, Unconfirmed, find_changes
from peakgate.compare.history.columns import RECENT, SHORTEST
from peakgate.compare.history.events import Event, events
from peakgate.compare.history.levels import Change
from peakgate.compare.history.regressions import OpenRegression, open_regressions
from peakgate.compare.history.series import LEFT, History
from peakgate.compare.history.steps import Place
from peakgate.compare.judge import SMALLEST_SHIFT, WIDEST_RESOLVABLE
from peakgate.compare.result import WORST_FIRST, change_text
from peakgate.judge.acknowledged import Accepted
from peakgate.runfile.frame import tidy

FEWEST_TO_JUDGE = 2 * SHORTEST
"""So many sessions a case needs, five on either side of a step."""

MOST_COMMANDS = 3
SETTLED_BY_A_COMMAND = (Verdict.SLOWER, Verdict.UNCONFIRMED)
TREND_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("case", "verdict", "reason", "where"), "string"),
    **dict.fromkeys(("older_time_us", "newest_time_us"), "float64"),
    **dict.fromkeys(("change_percent", "smallest_detectable_change_percent"), "float64"),
    **dict.fromkeys(("good", "bad"), "Int64"),
    "command": "string",
    "recent_us": "object",
}
"""The columns of a history's frame, in order, with their dtypes; docs/reference/reports.md explains them."""


class CaseFinding(NamedTuple):
    """One case at the end of its history: a row of ``TREND_COLUMNS``.

    Times are levels: now, and before the step; equal where there is none, None where there are too few sessions.
    ``change_percent`` is what is left of the step, positive when slower. The smallest detectable change is what the
    newest five sessions would have shown. ``good`` and ``bad`` are the numbers of the sessions before and after the
    step, ``recent_us`` its last ``RECENT`` times, oldest first.
    """

    case: str
    verdict: Verdict
    reason: str
    recent_us: tuple[float, ...]
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
    """A history and what was found in it, worst first; ``together`` is None where too few cases could be judged."""

    history: History
    findings: tuple[CaseFinding, ...]
    together: CaseFinding | None
    notes: tuple[str, ...] = ()
    untimed: Mapping[Verdict, tuple[str, ...]] = field(default_factory=dict)
    """Cases of the newest session without a time, by verdict."""
    changes: tuple[ChangePoint, ...] = ()
    """Every change point, newest first."""
    regressions: tuple[OpenRegression, ...] = ()
    """Those that are still open, the accepted ones last."""
    launch: tuple[tuple[Change, Place], ...] = ()
    """The changes of the time that every launch takes longer, in microseconds."""
    fail_on_open: bool = False

    @property
    def open(self) -> tuple[OpenRegression, ...]:
        """The open regressions that are not accepted."""
        return tuple(each for each in self.regressions if each.accepted is None)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The open regressions by the commit, or change of the environment, that made them; the accepted ones last."""
        return events(self.regressions)

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
        """The history in one word: its worst finding, PASS when none is a regression or undecided."""
        counted = self._verdicts() & (REGRESSIONS | UNDECIDED | {Verdict.UNCONFIRMED})
        return next((verdict for verdict in WORST_FIRST if verdict in counted), Verdict.PASS)

    @property
    def commands(self) -> list[str]:
        """The commands that would settle what got slower, each once, worst first, at most ``MOST_COMMANDS``."""
        findings = [*self.findings, *([self.together] if self.together else [])]
        slower = [each.command for each in findings if each.command and each.verdict in SETTLED_BY_A_COMMAND]
        return list(dict.fromkeys(slower))[:MOST_COMMANDS]

    def _verdicts(self) -> set[Verdict]:
        verdicts = set(self.counts) | set(self.untimed) | ({self.together.verdict} if self.together else set())
        return verdicts | ({Verdict.SLOWER} if self.fail_on_open and self.open else set())


def find_trend(
    history: History,
    notes: tuple[str, ...] = (),
    untimed: Mapping[Verdict, tuple[str, ...]] | None = None,
    accepted: Sequence[Accepted] = (),
    *,
    fail_on_open: bool = False,
) -> Trend:
    """Judge every case of the history, and all of them together; ``accepted`` are regressions that may stay."""
    found = find_changes(history.complete)
    points = tuple(replace(each, case=each.case.removesuffix(LEFT)) for each in found.points)
    regressions = open_regressions(points, accepted)
    findings = _findings(history, found, regressions)
    together = _together(found)
    return Trend(history, findings, together, notes, untimed or {}, points, regressions, found.launch, fail_on_open)


def _findings(history: History, changes: Changes, regressions: Sequence[OpenRegression]) -> tuple[CaseFinding, ...]:
    """Every case, worst first, then by its change."""
    own = [row[np.isfinite(row)] for row in history.times.to_numpy()]
    enough = any(len(times) >= FEWEST_TO_JUDGE for times in own)
    found = []
    for case, times in zip(history.cases, own, strict=True):
        recent = tuple(times[-RECENT:].tolist())
        newest = changes.newest.get(case)
        if len(times) < FEWEST_TO_JUDGE:
            reason = f"{counted(len(times), 'session')} so far, {FEWEST_TO_JUDGE} are needed"
            verdict = Verdict.NEW if enough else Verdict.INCONCLUSIVE
            found.append(CaseFinding(case, verdict, f"not judged yet: {reason}", recent))
            continue
        if newest is None:
            reason = f"not judged yet: no GPU has measured it more than once in {counted(len(times), 'session')}"
            found.append(CaseFinding(case, Verdict.INCONCLUSIVE, reason, recent))
            continue
        points = [each for each in changes.points if each.case == case]
        judged = Judged(tuple(points), newest, changes.unconfirmed.get(case))
        found.append(_judged(case, judged, regressions)._replace(recent_us=recent))
    return tuple(sorted(found, key=_badness))


def _together(changes: Changes) -> CaseFinding | None:
    """All cases as one; times are relative: 1 µs is what a case usually takes."""
    if changes.suite is None:
        return None
    recent = np.exp(changes.relative[np.isfinite(changes.relative)][-RECENT:])
    found = _judged("", changes.suite, open_regressions(changes.suite.points))
    return found._replace(recent_us=tuple(recent.tolist()))


def _judged(case: str, judged: Judged, regressions: Sequence[OpenRegression]) -> CaseFinding:
    assert judged.newest is not None
    finding = _finding(case, judged.newest, judged.points, regressions)
    if judged.unconfirmed and finding.verdict is not Verdict.SLOWER:
        finding = _not_confirmed(finding, judged.unconfirmed)
    return finding


def _badness(finding: CaseFinding) -> tuple[float, float, str]:
    return WORST_FIRST.index(finding.verdict), -(finding.change_percent or 0.0), finding.case


def _finding(
    case: str, newest: NewestLevel, points: Sequence[ChangePoint], regressions: Sequence[OpenRegression]
) -> CaseFinding:
    """One case of enough sessions."""
    shown = newest.of_first if newest.first else newest.detectable
    least = 100 * math.expm1(max(SMALLEST_SHIFT, shown)) if math.isfinite(shown) else None
    recent = [each for each in points if each.since <= RECENT or each.cause is Cause.DRIFT]
    slower = [each for each in regressions if each.change in recent]
    if left := next((each for each in slower if each.accepted is None), None):
        verdict, change, change_percent = Verdict.SLOWER, left.change, left.remaining_percent
    elif sum(each.log_ratio for each in recent) < -SMALLEST_SHIFT:
        change = min(recent, key=lambda each: each.log_ratio)
        verdict, change_percent = Verdict.FASTER, change.change_percent
    else:
        text = "too few sessions of one GPU to show a step"
        if least is not None:
            text = f"one of {percent(least)} in the newest {SHORTEST} sessions would show"
            if newest.first:
                text = (
                    f"{_newest_sessions(newest.first)}, on a GPU that measured none before, would show {percent(least)}"
                )
        noisy = newest.detectable > WIDEST_RESOLVABLE
        doubt = [f"too noisy to decide on {percent(100 * math.expm1(WIDEST_RESOLVABLE))}"] if noisy and least else []
        accepted = [
            f"{each.change.change_percent:+.2f} % accepted on {each.accepted.day}" for each in slower if each.accepted
        ]
        verdict = Verdict.INCONCLUSIVE if noisy else Verdict.SAME
        reason = "; ".join([f"no open step; {text}", *doubt, *accepted])
        return CaseFinding(case, verdict, reason, (), newest.level_us, newest.level_us, 0.0, least)
    over = "over" if change.cause is Cause.DRIFT else "since"
    text = f"{change_text(change_percent)} {over} {counted(change.since, 'session')}, attributed to {change.cause}"
    return CaseFinding(
        *(case, verdict, "; ".join([text, *change.place.facts]), ()),
        *(change.older_us, newest.level_us, change_percent, least),
        *(change.place.where, change.place.good, change.place.bad, change.place.command),
    )


def _not_confirmed(finding: CaseFinding, step: Unconfirmed) -> CaseFinding:
    """The same case with what its newest sessions show."""
    change_percent = 100 * math.expm1(step.log_ratio)
    more = "a session of an earlier GPU" if step.first else counted(SHORTEST - step.sessions, "more session")
    settled = f"{more} will settle it" + (f", or {step.place.command}" if step.place.command else "")
    why = f"more than its noise explains; attributed to {step.cause} if it stays"
    if step.first:
        why = f"more than GPUs of one model differ by; it may be the GPU, which measured none before, or {step.cause}"
    text = f"{change_text(change_percent)} in {_newest_sessions(step.sessions)}, {why}; {settled}"
    return finding._replace(
        verdict=Verdict.UNCONFIRMED,
        reason="; ".join([text, *step.place.facts]),
        older_time_us=step.older_us,
        newest_time_us=step.older_us * math.exp(step.log_ratio),
        change_percent=change_percent,
        where=step.place.where,
        good=step.place.good,
        bad=step.place.bad,
        command=step.place.command,
    )


def _newest_sessions(count: int) -> str:
    return "the newest session" if count == 1 else f"the newest {count} sessions"
