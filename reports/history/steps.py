"""Between which sessions a step happened, and the command that would confirm it; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from peakgate.common.text import counted, one_line
from peakgate.reports.comparison.evidence import NO_COMMIT
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.runs.facts import GPU_NAMES
from peakgate.reports.runs.sessions import ENVIRONMENT, Session

FARTHEST_SDS = 3.0
"""A session farther off than this counts as this far: one odd session is no step."""

DOUBT = 5.0
"""Positions whose squared misfit, in variances, is this close to the best are not separated; see `plausible`."""

CLOCK_SHIFT = 0.01
"""SM clocks that differ by more than this share are worth a word."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step after the session ``before`` and not after the session ``after``.

    ``between`` counts the sessions of which it is not known on which side they are. ``facts`` are what changed
    besides, or that the code did not. ``command`` settles it by measuring the two commits alternately; None where two
    clean commits to measure are not known, as ``facts`` then say.
    """

    before: Session
    after: Session
    between: int
    facts: tuple[str, ...]
    command: str | None

    @property
    def place(self) -> str:
        """``after a1b2c3 (2026-11-01) and not after ...``."""
        between = f", {counted(self.between, 'session')} in between undecided" if self.between else ""
        return f"after {session_name(self.before)} and not after {session_name(self.after)}{between}"


def session_name(session: Session) -> str:
    """A session by its commit and day."""
    return f"{commit_name(session)} ({session.taken:%Y-%m-%d})"


def commit_name(session: Session) -> str:
    """A session's commit."""
    return one_line(f"{session.commit[:12]}{' with uncommitted changes' if session.dirty else ''}")


def locate(case: str, sessions: Sequence[Session], log_time: Floats, sd: float, known: int | None = None) -> Step:
    """The step in one case's sessions, oldest first and all of one GPU, given the SD of one session's log time.

    ``known`` is the position of the first session after it where that is known.
    """
    first, last = plausible(log_time, sd) if known is None else (known - 1, known)
    before, after = _clean(sessions[first::-1]), _clean(sessions[last:])
    good, bad = before or sessions[first], after or sessions[last]
    facts = _changes(case, good, bad)
    command = None
    if before is None or after is None:
        facts.append("no clean commit on both sides of it")
    elif before.commit == after.commit:
        facts.append("within one commit: environment")
    else:
        command = f"peakgate ab {good.commit[:12]} {bad.commit[:12]}"
    return Step(good, bad, sessions.index(bad) - sessions.index(good) - 1, tuple(facts), command)


def plausible(log_time: Floats, sd: float) -> tuple[int, int]:
    """The positions between which the step happened: it comes after the first and not after the second.

    For each way to cut the series in two, the misfit to the medians of both parts; kept are the cuts whose misfit is
    within DOUBT of the least. In simulated steps of 2, 3 and 4 SDs, 5 to 25 sessions before the end of 35 of which 2 %
    were odd, the range held the step in 98 to 99 % and was 5, 2 and 1 sessions wide in the median.
    """
    misfits = np.array([_misfit(log_time[:cut], sd) + _misfit(log_time[cut:], sd) for cut in range(1, len(log_time))])
    kept = np.flatnonzero(misfits <= misfits.min() + DOUBT)
    return int(kept[0]), int(kept[-1]) + 1


def _misfit(part: Floats, sd: float) -> float:
    scaled = np.abs(part - np.median(part)) / sd
    return float(np.sum(np.minimum(scaled, FARTHEST_SDS) ** 2))


def _clean(outwards: Sequence[Session]) -> Session | None:
    """The nearest session whose code is a commit that can be checked out."""
    return next((each for each in outwards if not each.dirty and each.commit not in NO_COMMIT), None)


def _changes(case: str, good: Session, bad: Session) -> list[str]:
    facts = []
    prints = good.fingerprints.get(case), bad.fingerprints.get(case)
    if prints[0] and prints[1]:
        facts.append("same code: environment" if prints[0] == prints[1] else "its code changed")
    known = [{**({"driver": each.driver} if each.driver else {}), **each.environment} for each in (good, bad)]
    facts += environment_changes(*known)
    clocks = good.clocks_mhz.get(case), bad.clocks_mhz.get(case)
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > CLOCK_SHIFT:
        facts.append(f"SM clock {clocks[0]:.0f} to {clocks[1]:.0f} MHz")
    return facts


def environment_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """``driver 580.1 to 590.1`` for each fact of ENVIRONMENT that both know and that differs."""
    both = [name for name in ENVIRONMENT if name in before and name in after]
    return tuple(f"{GPU_NAMES[name]} {before[name]} to {after[name]}" for name in both if before[name] != after[name])
