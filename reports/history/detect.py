"""Which cases got slower lately, and between which sessions it happened; pure.

The rule compares the median of the last 5 sessions that have a case with the median of up to 30 before them, at least
6. All of them are of one GPU, that of the newest session that has the case: GPUs of one model differ by more than their
sessions do (noise.BETWEEN_GPUS), so no step is searched between two. Sessions whose GPU is unknown count as one GPU.
The spread of the older sessions is estimated from their median absolute deviation, which a few odd sessions do not
widen, and moderated across cases (empirical Bayes). A shift counts when it exceeds 0.5 % and its p-value, Holm-adjusted
over the cases, is below 1 %. A case whose smallest detectable change exceeds 15 % is SAME while it stays within its own
scatter, as in a comparison of two sides, and INCONCLUSIVE where it moves further than that happens once in a hundred
times. A finding is a trigger, not a proof: sessions are days apart, and much else changes in days; measuring the two
commits alternately confirms it. In simulated histories of 200 cases (SD 0.3-0.7 %, 2 % of sessions 3 % off) the
false-positive rate was 4.5 % of histories without a change; the power was 93 % for cases 2 % slower since five
sessions.

Nothing is subtracted from the cases; what moved all of them at once is reported as a line of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from peakgate.common.text import counted
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.judge import FEWEST_CASES_FOR_SUITE, SESSIONS_ALPHA, SMALLEST_SHIFT, badness, too_noisy
from peakgate.reports.comparison.noise import Floats, Positions
from peakgate.reports.history.series import History, LevelStep, locate
from peakgate.reports.result import Shift, percent, probability
from peakgate.reports.runs.sessions import gpu_label
from peakgate.verdict import Judgement, Verdict

NEWEST_SESSIONS = 5
MOST_OLDER = 30
FEWEST_OLDER = 6
FEWEST_OF_CASE = NEWEST_SESSIONS + FEWEST_OLDER

MEDIAN_OF_NEWEST = 1.434
MEDIAN_OF_OLDER = math.pi / 2
"""Variance of a median times the count, in variances of one value, for normal noise: of 5 values, and of many."""


@dataclass(frozen=True, slots=True)
class CaseFinding:
    """One case at the end of its history, on the GPU that measured it last.

    ``recent_us`` are the sessions judged, oldest first, the last ``NEWEST_SESSIONS`` of them the new ones; times are
    medians. ``shift`` is None where there were too few, ``step`` None where nothing was flagged.
    """

    case: str
    judgement: Judgement
    recent_us: tuple[float, ...]
    older_us: float | None = None
    newest_us: float | None = None
    shift: Shift | None = None
    step: LevelStep | None = None

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict

    @property
    def reason(self) -> str:
        return self.judgement.reason

    @property
    def record(self) -> dict[str, Any]:
        """What tables and JSON say of it besides its case, None where unknown; ``good`` and ``bad`` are sessions."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "older_time_us": self.older_us,
            "newest_time_us": self.newest_us,
            "change_percent": self.change_percent,
            "smallest_detectable_change_percent": self.shift.resolvable_percent if self.shift else None,
            "p_value": self.shift.p_value if self.shift else None,
            "good": self.step.before if self.step else None,
            "bad": self.step.after if self.step else None,
            "command": self.step.command if self.step else None,
            "recent_us": self.recent_us,
        }

    @property
    def change_percent(self) -> float | None:
        """Change of the time, positive when slower."""
        return self.shift.percent if self.shift else None


@dataclass(frozen=True, slots=True)
class Window:
    """The sessions of one case that are judged, all of one GPU: their numbers in the history and their log times.

    ``of_gpu`` names the GPU in a reason, empty where the history is of one; ``elsewhere`` counts the sessions of
    other GPUs that have the case.
    """

    sessions: tuple[int, ...]
    log_time: Floats
    of_gpu: str = ""
    elsewhere: int = 0

    @property
    def enough(self) -> bool:
        return len(self.log_time) >= FEWEST_OF_CASE

    @property
    def older(self) -> Floats:
        return self.log_time[:-NEWEST_SESSIONS]

    @property
    def shift(self) -> float:
        return float(np.median(self.log_time[-NEWEST_SESSIONS:]) - np.median(self.older))


def detect(history: History) -> tuple[CaseFinding, ...]:
    """Every case, worst first."""
    gpus, names = _gpus(history), _names(history)
    windows = [_window(row, gpus, names) for row in history.log_time]
    judged = [window for window in windows if window.enough]
    shifts = iter(_shifts(judged))
    findings = [
        _finding(case, window, *next(shifts), history) if window.enough else _too_few(case, window, beside=bool(judged))
        for case, window in zip(history.cases, windows, strict=True)
    ]
    return tuple(sorted(findings, key=badness))


def detect_together(history: History) -> CaseFinding | None:
    """What moved the median case: a history of its own, of the sessions that have most of the cases; None of too few.

    Its sessions are those of the newest whole one's GPU. Its times are relative: 1 µs stands for what a case usually
    takes. A session that has less than half of the cases does not count for all of them.
    """
    whole = _of_last_gpu(np.flatnonzero([session.whole for session in history.sessions]), _gpus(history))
    whole = whole[-(NEWEST_SESSIONS + MOST_OLDER) :]
    there = np.isfinite(history.log_time[:, whole])
    known = history.log_time[:, whole][there.mean(axis=1) > 0.5] if len(whole) else np.empty((0, 0))
    if len(known) < FEWEST_CASES_FOR_SUITE:
        return None
    relative = known - np.nanmedian(known, axis=1, keepdims=True)
    known_by_most = np.isfinite(relative).mean(axis=0) > 0.5
    together = np.nanmedian(relative[:, known_by_most], axis=0)
    window = Window(tuple(whole[known_by_most].tolist()), together, _names(history)[whole[-1]])
    if not window.enough:
        return None
    return _finding("", window, *_shifts([window])[0], history)


def _gpus(history: History) -> Positions:
    """A number for each session's GPU; those whose GPU is not known share one."""
    numbers: dict[str | None, int] = {}
    return np.array([numbers.setdefault(session.uuid, len(numbers)) for session in history.sessions], dtype=np.intp)


def _names(history: History) -> list[str]:
    """How a reason names each session's GPU: `` of gpu GPU-820987e0``, nothing where the history is of one."""
    several = history.gpus > 1
    return [f" of {gpu_label(session.uuid)}" if several else "" for session in history.sessions]


def _of_last_gpu(sessions: Positions, gpus: Positions) -> Positions:
    """Those of the sessions, given by number and oldest first, that are of the last one's GPU."""
    last: Positions = sessions[gpus[sessions] == gpus[sessions[-1:]]]
    return last


def _window(row: Floats, gpus: Positions, names: Sequence[str]) -> Window:
    there = np.flatnonzero(np.isfinite(row))
    of_gpu = _of_last_gpu(there, gpus)
    sessions = of_gpu[-(NEWEST_SESSIONS + MOST_OLDER) :]
    return Window(tuple(sessions.tolist()), row[sessions], names[sessions[-1]], len(there) - len(of_gpu))


def _too_few(case: str, window: Window, *, beside: bool) -> CaseFinding:
    """A case that is not judged.

    NEW beside others that are; INCONCLUSIVE where the whole history is too short, or what there is of its GPU.
    """
    have = len(window.log_time)
    new = beside and have + window.elsewhere < FEWEST_OF_CASE
    reason = f"not judged yet: {counted(have, 'session')}{window.of_gpu} so far, {FEWEST_OF_CASE} of one GPU are needed"
    judgement = Judgement(Verdict.NEW if new else Verdict.INCONCLUSIVE, reason)
    return CaseFinding(case, judgement, tuple(np.exp(window.log_time).tolist()))


def _spread(windows: Sequence[Window]) -> tuple[Floats, Floats]:
    """Variance of one session's log time and its degrees of freedom, a window each."""
    counts = np.array([len(window.older) for window in windows])
    deviations = np.array([np.median(np.abs(window.older - np.median(window.older))) for window in windows])
    # Of few values the median absolute deviation comes out low; the factor is Croux and Rousseeuw's (1992).
    sds = noise.MAD_TO_SD * deviations * counts / (counts - 0.8)
    log_time = np.array([np.median(window.older) for window in windows])
    return noise.squeeze(sds**2, noise.MAD_EFFICIENCY * (counts - 1), log_time)


def _shifts(windows: Sequence[Window]) -> list[tuple[Shift, float]]:
    """The shift of each window and the SD of one of its sessions."""
    if not windows:
        return []
    variance, df = _spread(windows)
    counts = np.array([len(window.older) for window in windows])
    errors = np.sqrt(variance * (MEDIAN_OF_NEWEST / NEWEST_SESSIONS + MEDIAN_OF_OLDER / counts))
    shifts = [window.shift for window in windows]
    tails = [noise.upper_tail(*each) for each in zip(np.abs(shifts) / errors, df, strict=True)]
    judged = []
    for index, p_value in enumerate(noise.holm(np.array(tails)).tolist()):
        quantile = noise.upper_quantile(SESSIONS_ALPHA / len(windows), float(df[index]))
        resolvable = max(SMALLEST_SHIFT, float(errors[index]) * quantile)
        flagged = p_value < SESSIONS_ALPHA and abs(shifts[index]) > SMALLEST_SHIFT
        shift = Shift(shifts[index], resolvable, flagged, p_value, float(tails[index]))
        judged.append((shift, math.sqrt(variance[index])))
    return judged


def _finding(case: str, window: Window, shift: Shift, sd: float, history: History) -> CaseFinding:
    step = None
    if shift.flagged:
        sessions = [history.sessions[index] for index in window.sessions]
        step = locate(case, sessions, window.log_time, sd)
    return CaseFinding(
        case=case,
        judgement=_judgement(shift, window, step),
        recent_us=tuple(np.exp(window.log_time).tolist()),
        older_us=float(np.exp(np.median(window.older))),
        newest_us=float(np.exp(np.median(window.log_time[-NEWEST_SESSIONS:]))),
        shift=shift,
        step=step,
    )


def _judgement(shift: Shift, window: Window, step: LevelStep | None) -> Judgement:
    newest, older = f"{NEWEST_SESSIONS} sessions{window.of_gpu}", len(window.older)
    if step is not None:
        assert shift.p_value is not None
        text = f"{shift} in the last {newest} than in {older} before, {probability(shift.p_value)}"
        verdict = Verdict.SLOWER if shift.log_ratio > 0 else Verdict.FASTER
        return Judgement(verdict, "; ".join([text, *step.facts]))
    least = percent(shift.resolvable_percent)
    text = f"{shift.percent:+.2f} %, within the {least} that {newest} against {older} can resolve"
    if too_noisy(shift.resolvable, math.nan if shift.p_alone is None else shift.p_alone):
        return Judgement(Verdict.INCONCLUSIVE, f"{text}: too noisy")
    return Judgement(Verdict.SAME, text)
