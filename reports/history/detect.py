"""Which cases got slower lately, and between which sessions it happened; pure.

The rule: the median of the last 5 sessions that have a case against the median of up to 30 before them, at least 6.
The spread of the older ones is read from their median absolute deviation, which a few odd sessions do not widen, and
steadied across cases; a shift counts when it is more than .5 % and its p, Holm-adjusted over the cases, is below 1 %.
It is a trigger, not a proof: sessions lie days apart, and much else changes in days. What it finds, two commits
measured in turns can settle. In simulated histories of 200 cases (SD 0.3-0.7 %, 2 % of sessions 3 % off) it called
something in 4.5 % of those without a change, and found 93 % of the cases that were 2 % slower since five sessions.

Nothing is subtracted from the cases; what moved all of them at once has a line of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports import noise
from reports.compare import ALPHA, SMALLEST_SHIFT, WIDEST_RESOLVABLE
from reports.history.series import History
from reports.history.steps import Step, locate
from reports.noise import Floats
from reports.result import WORST_FIRST, Shift, percent, probability
from suite.verdict import Judgement, Verdict

NEWEST = 5
MOST_OLDER = 30
FEWEST_OLDER = 6
FEWEST_CASES_FOR_SUITE = 10

MEDIAN_OF_NEWEST = 1.434
MEDIAN_OF_OLDER = math.pi / 2
"""Variance of a median times the count, in variances of one value, for normal noise: of 5 values, and of many."""

MAD_EFFICIENCY = 0.37
"""A median absolute deviation knows as much of the variance as this share of the values would by their squares."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One case at the end of its history.

    ``recent_us`` are the sessions judged, oldest first, the last ``NEWEST`` of them the new ones; times are medians.
    ``shift`` is None where there were too few, ``step`` None where nothing was called.
    """

    case: str
    judgement: Judgement
    recent_us: tuple[float, ...]
    older_us: float | None = None
    newest_us: float | None = None
    shift: Shift | None = None
    step: Step | None = None

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict


@dataclass(frozen=True, slots=True)
class Window:
    """The sessions of one case that are judged: their numbers in the history and their log times, oldest first."""

    sessions: tuple[int, ...]
    log_time: Floats

    @property
    def older(self) -> Floats:
        return self.log_time[:-NEWEST]

    @property
    def shift(self) -> float:
        return float(np.median(self.log_time[-NEWEST:]) - np.median(self.older))


def detect(history: History) -> tuple[Finding, ...]:
    """Every case, worst first."""
    windows = [_window(row) for row in history.log_time]
    enough = [len(window.log_time) >= NEWEST + FEWEST_OLDER for window in windows]
    judged = [window for window, known in zip(windows, enough, strict=True) if known]
    shifts = iter(_shifts(judged))
    findings = [
        _finding(case, window, *next(shifts), history) if known else _too_few(case, window, alone=any(enough))
        for case, window, known in zip(history.cases, windows, enough, strict=True)
    ]
    return tuple(sorted(findings, key=_badness))


def detect_together(history: History) -> Finding | None:
    """What moved the median case: a history of its own, of the sessions that have most of the cases; None of too few.

    Its times are relative: 1 µs stands for what a case usually takes. A session that has less than half of the cases
    says nothing of all of them.
    """
    whole = [index for index, session in enumerate(history.sessions) if session.whole][-(NEWEST + MOST_OLDER) :]
    there = np.isfinite(history.log_time[:, whole])
    known = history.log_time[:, whole][there.mean(axis=1) > 0.5] if whole else np.empty((0, 0))
    if len(known) < FEWEST_CASES_FOR_SUITE:
        return None
    relative = known - np.nanmedian(known, axis=1, keepdims=True)
    told = np.isfinite(relative).mean(axis=0) > 0.5
    together = np.nanmedian(relative[:, told], axis=0)
    window = Window(tuple(np.array(whole)[told].tolist()), together)
    if len(together) < NEWEST + FEWEST_OLDER:
        return None
    return _finding("", window, *_shifts([window])[0], history)


def _window(row: Floats) -> Window:
    sessions = np.flatnonzero(np.isfinite(row))[-(NEWEST + MOST_OLDER) :]
    return Window(tuple(sessions.tolist()), row[sessions])


def _too_few(case: str, window: Window, *, alone: bool) -> Finding:
    """A case that is not judged: NEW beside others that are, INCONCLUSIVE where the whole history is too short."""
    have, needed = len(window.log_time), NEWEST + FEWEST_OLDER
    reason = f"{have} {'session has' if have == 1 else 'sessions have'} it, {needed} are needed: {needed - have} more"
    return Finding(
        case, Judgement(Verdict.NEW if alone else Verdict.INCONCLUSIVE, reason), tuple(np.exp(window.log_time).tolist())
    )


def _spread(windows: Sequence[Window]) -> tuple[Floats, Floats]:
    """Variance of one session's log time and its degrees of freedom, a window each."""
    counts = np.array([len(window.older) for window in windows], dtype=float)
    deviations = np.array([np.median(np.abs(window.older - np.median(window.older))) for window in windows])
    # Of few values the median absolute deviation comes out low; the factor is Croux and Rousseeuw's (1992).
    sds = noise.MAD_TO_SD * deviations * counts / (counts - 0.8)
    log_time = np.array([np.median(window.older) for window in windows])
    return noise.squeeze(sds**2, MAD_EFFICIENCY * (counts - 1), log_time)


def _shifts(windows: Sequence[Window]) -> list[tuple[Shift, float]]:
    """The shift of each window and the SD of one of its sessions."""
    if not windows:
        return []
    variance, df = _spread(windows)
    counts = np.array([len(window.older) for window in windows])
    errors = np.sqrt(variance * (MEDIAN_OF_NEWEST / NEWEST + MEDIAN_OF_OLDER / counts))
    shifts = [window.shift for window in windows]
    tails = [noise.tail_probability(*each) for each in zip(np.array(shifts) / errors, df, strict=True)]
    judged = []
    for index, p_value in enumerate(noise.holm(np.array(tails)).tolist()):
        quantile = noise.upper_quantile(ALPHA / len(windows), float(df[index]))
        resolvable = max(SMALLEST_SHIFT, float(errors[index]) * quantile)
        called = p_value < ALPHA and abs(shifts[index]) > SMALLEST_SHIFT
        judged.append((Shift(shifts[index], resolvable, called, p_value), math.sqrt(variance[index])))
    return judged


def _finding(case: str, window: Window, shift: Shift, sd: float, history: History) -> Finding:
    step = None
    if shift.called:
        sessions = [history.sessions[index] for index in window.sessions]
        step = locate(case, sessions, window.log_time, sd)
    return Finding(
        case=case,
        judgement=_judgement(shift, len(window.older), step),
        recent_us=tuple(np.exp(window.log_time).tolist()),
        older_us=float(np.exp(np.median(window.older))),
        newest_us=float(np.exp(np.median(window.log_time[-NEWEST:]))),
        shift=shift,
        step=step,
    )


def _judgement(shift: Shift, older: int, step: Step | None) -> Judgement:
    if step is not None:
        assert shift.p_value is not None, "a step is looked for where a shift was called"
        told = f"{shift} in the last {NEWEST} sessions than in {older} before, {probability(shift.p_value)}"
        verdict = Verdict.SLOWER if shift.log_ratio > 0 else Verdict.FASTER
        return Judgement(verdict, "; ".join([told, *step.facts]))
    least = percent(shift.resolvable_percent)
    told = f"{shift.percent:+.2f} %, within the {least} that {NEWEST} sessions against {older} can tell"
    if shift.resolvable > WIDEST_RESOLVABLE:
        return Judgement(Verdict.INCONCLUSIVE, f"{told}: too noisy")
    return Judgement(Verdict.SAME, told)


def _badness(finding: Finding) -> tuple[float, float, str]:
    """Worst verdict first; within it the shift that is surest to be large."""
    lower_bound = finding.shift.log_ratio - finding.shift.resolvable if finding.shift else 0.0
    return WORST_FIRST.index(finding.verdict), -lower_bound, finding.case
