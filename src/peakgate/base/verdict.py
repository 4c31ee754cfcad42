"""The verdicts of cases and runs, and their exit codes."""

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
    """A defect of Peakgate itself; no verdict."""

    INTERRUPTED = 130


FAULTY = frozenset({Verdict.WRONG, Verdict.CRASHED, Verdict.TIMEOUT, Verdict.IMPOSSIBLE})
"""The case is at fault and its figures do not count: a wrong result, a crash, a launch that did not end, a speed above
the peak."""

REGRESSIONS = frozenset({Verdict.SLOWER, Verdict.BELOW_FLOOR, Verdict.MISSING}) | FAULTY
UNDECIDED = frozenset({Verdict.INCONCLUSIVE, Verdict.INCOMPARABLE})
FAILING = REGRESSIONS | UNDECIDED
"""All verdicts that are not a pass."""

OVER_PEAK = 1.02
"""A larger fraction of peak is impossible: the clock and the timer's resolution account for at most 2 %. The highest
value of an H200 in this project's saved runs is 0.984."""


RIGHT, RAN = "RIGHT", "RAN"
"""Shown for NO_FLOOR where no speed is judged; RAN, by ``check`` too, for a result that was compared with nothing."""

EMULATED_PASS = "emulated: no speed judged"
"""Shown next to the PASS of a run in the emulator."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its reason in one line."""

    verdict: Verdict
    reason: str


def exit_code(verdicts: Iterable[Verdict], *, strict: bool = False) -> ExitCode:
    """The exit code of a run with these verdicts: REGRESSION, else UNDECIDED, else OK.

    NO_FLOOR counts as undecided only with ``strict``.
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
