"""Where the step of a case is in its sessions, in words, and the command that settles it; pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from peakgate.core.text import counted
from peakgate.reports.comparison.evidence import NO_COMMIT, SAME_CODE
from peakgate.reports.comparison.noise import Floats, Positions
from peakgate.reports.history.series import History, session_name
from peakgate.reports.runs.frame import GPU_NAMES

FARTHEST_SDS = 3.0
"""A session farther off than this counts as this far: one odd session is no step."""

DOUBT = 5.0
"""Positions whose squared misfit, in variances, is this close to the best are not separated; see `plausible`."""

CLOCK_SHIFT = 0.01
"""SM clocks that differ by more than this share are named."""


class Place(NamedTuple):
    """A step after the session number ``good`` and not after ``bad``.

    ``between`` counts the sessions of which it is not known on which side they are, ``where`` has all three in words.
    ``facts`` are what changed besides, or that the code did not. ``command`` settles it by measuring the two commits
    alternately; None where two clean commits to measure are not known, or the code is the same, as ``facts`` then say.
    """

    good: int
    bad: int
    between: int
    where: str
    facts: tuple[str, ...]
    command: str | None


def locate(history: History, row: int, numbers: Positions, sd: float, known: int | None = None) -> Place:
    """The step of one case in these of its sessions, all of one GPU, given the SD of one session's log time.

    ``known`` is the position of the first session after it where that is known.
    """
    first, last = plausible(history.log_time[row, numbers], sd) if known is None else (known - 1, known)
    sessions = [history.sessions[number] for number in numbers]
    clean = [not each.dirty and each.commit not in NO_COMMIT for each in sessions]
    good = next((at for at in range(first, -1, -1) if clean[at]), first)
    bad = next((at for at in range(last, len(sessions)) if clean[at]), last)
    before, after = sessions[good], sessions[bad]
    facts = _changes(history, row, int(numbers[good]), int(numbers[bad]))
    command = None
    if not (clean[good] and clean[bad]):
        facts.append("no clean commit on both sides of it")
    elif before.commit == after.commit:
        facts.append("within one commit: environment")
    elif SAME_CODE not in facts:
        command = f"peakgate ab {before.commit[:12]} {after.commit[:12]}"
    between = bad - good - 1
    undecided = f", {counted(between, 'session')} in between undecided" if between else ""
    where = f"after {session_name(before)} and not after {session_name(after)}{undecided}"
    return Place(int(numbers[good]), int(numbers[bad]), between, where, tuple(facts), command)


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


def _changes(history: History, row: int, good: int, bad: int) -> list[str]:
    environment, codes, clocks = history.about
    code, (old_mhz, new_mhz) = codes[row, [good, bad]], clocks[row, [good, bad]]
    facts = []
    if all(code):
        facts.append(SAME_CODE if code[0] == code[1] else "its code changed")
    for name, old in environment[good].items():
        new = environment[bad][name]
        if old is not None and new is not None and old != new:
            facts.append(f"{GPU_NAMES[name]} {old} to {new}")
    if abs(new_mhz / old_mhz - 1) > CLOCK_SHIFT:  # never where one is unknown: NaN
        facts.append(f"SM clock {old_mhz:.0f} to {new_mhz:.0f} MHz")
    return facts
