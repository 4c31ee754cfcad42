"""Where a change of a case is among its sessions, in words, with what else changed there; pure."""

from __future__ import annotations

from typing import NamedTuple

from peakgate.base.text import counted
from peakgate.compare.evidence import NO_COMMIT, SAME_CODE
from peakgate.compare.history.series import History, session_name
from peakgate.compare.noise import Positions
from peakgate.runfile.frame import GPU_NAMES

CLOCK_SHIFT = 0.01
"""SM clocks that differ by more than this share are named."""

CODE_CHANGED = "its code changed"
ONE_COMMIT = "within one commit: environment"


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


def locate(history: History, row: int | None, numbers: Positions, first: int, last: int) -> Place:
    """The step of one case between two positions of its sessions' numbers; of no case (None) that of the suite."""
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
        facts.append(ONE_COMMIT)
    elif SAME_CODE not in facts:
        command = f"peakgate ab {before.commit[:12]} {after.commit[:12]}"
    between = bad - good - 1
    undecided = f", {counted(between, 'session')} in between undecided" if between else ""
    where = f"after {session_name(before)} and not after {session_name(after)}{undecided}"
    return Place(int(numbers[good]), int(numbers[bad]), between, where, tuple(facts), command)


def _changes(history: History, row: int | None, good: int, bad: int) -> list[str]:
    environment, codes, clocks = history.about
    facts = []
    if row is not None and all(code := codes[row, [good, bad]]):
        facts.append(SAME_CODE if code[0] == code[1] else CODE_CHANGED)
    if history.sessions[good].uuid == history.sessions[bad].uuid:
        for name, old in environment[good].items():
            new = environment[bad][name]
            if old is not None and new is not None and old != new:
                facts.append(f"{GPU_NAMES[name]} {old} to {new}")
    if row is not None:
        old_mhz, new_mhz = clocks[row, [good, bad]]
        if abs(new_mhz / old_mhz - 1) > CLOCK_SHIFT:  # never where one is unknown: NaN
            facts.append(f"SM clock {old_mhz:.0f} to {new_mhz:.0f} MHz")
    return facts
