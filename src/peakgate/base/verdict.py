"""The words in which a case or a run is judged, and the exit code each leads to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Verdict(StrEnum):
    """One judgement of one case."""

    PASS = "PASS"
    SAME = "SAME"
    FASTER = "FASTER"
    NEW = "NEW"
    NO_FLOOR = "NO_FLOOR"
    UNCONFIRMED = "UNCONFIRMED"
    INCONCLUSIVE = "INCONCLUSIVE"
    INCOMPARABLE = "INCOMPARABLE"
    SLOWER = "SLOWER"
    BELOW_FLOOR = "BELOW_FLOOR"
    MISSING = "MISSING"
    WRONG = "WRONG"
    CRASHED = "CRASHED"
    TIMEOUT = "TIMEOUT"
    IMPOSSIBLE = "IMPOSSIBLE"


class ExitCode(IntEnum):
    """The exit codes of every command."""

    OK = 0
    REGRESSION = 1
    BAD_INPUT = 2
    UNDECIDED = 3
    DEFECT = 70
    """Of this tool, not of what it measures or reads: none of the verdicts."""

    INTERRUPTED = 130


FAULTY = frozenset({Verdict.WRONG, Verdict.CRASHED, Verdict.TIMEOUT, Verdict.IMPOSSIBLE})
"""The case is at fault and none of its figures count: a wrong result, a fault that cost it its process, a launch that
did not end, a speed above the peak."""

REGRESSIONS = frozenset({Verdict.SLOWER, Verdict.BELOW_FLOOR, Verdict.MISSING}) | FAULTY
UNDECIDED = frozenset({Verdict.INCONCLUSIVE, Verdict.INCOMPARABLE})
FAILING = REGRESSIONS | UNDECIDED
"""Whatever is no pass."""

OVER_PEAK = 1.02
"""A larger fraction of peak is impossible: the clock and the timer's steps account for 2 %, not more. The best reading
of an H200 in this project's saved runs is 0.984."""


EMULATED_PASS = "emulated: no speed judged"
"""Stands beside the PASS of what only the emulator ran, wherever a person reads it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its reason in one line."""

    verdict: Verdict
    reason: str


def exit_code(verdicts: Iterable[Verdict], *, strict: bool = False) -> ExitCode:
    """The exit code of a run with these verdicts: a regression outranks an open question, that outranks a pass.

    NO_FLOOR leaves a run undecided only under ``strict``.
    """
    seen = set(verdicts)
    if seen & REGRESSIONS:
        return ExitCode.REGRESSION
    if seen & UNDECIDED or (strict and Verdict.NO_FLOOR in seen):
        return ExitCode.UNDECIDED
    return ExitCode.OK


def counts(verdicts: Sequence[str]) -> str:
    """``12 PASS, 1 BELOW_FLOOR``: most frequent first."""
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).most_common())
