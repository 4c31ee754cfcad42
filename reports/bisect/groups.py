"""Commits in order, the groups of adjacent ones that cannot differ, and the file of what a bisect has found so far.

With the pairs in the folders beside it, the file is enough to go on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from peakgate.common.errors import PeakgateError
from peakgate.common.files import write_whole
from peakgate.reports.ab.code import Identity

SCHEMA = 1
FILE = "state.json"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit with what it builds: its cases, or the reason why they cannot be had."""

    commit: str
    subject: str
    cases: Mapping[str, Identity]
    problem: str | None = None

    def problem_of(self, case: str) -> str | None:
        """Why this commit has nothing to measure for the case; None where it has."""
        if self.problem is not None:
            return self.problem
        if case not in self.cases:
            return "has no such case"
        return None if self.cases[case].builds else "does not build"


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent commits whose machine code and launch are equal, as places in the history, oldest first.

    ``since`` is the first commit that may have brought this code: the group's first, or an older one that has nothing
    to measure and directly precedes it.
    """

    places: tuple[int, ...]
    since: int
    identity: Identity

    @property
    def first(self) -> int:
        return self.places[0]


def groups(history: Sequence[Commit], case: str) -> list[Group]:
    """The groups of one case, oldest first; commits with nothing to measure are in none."""
    found: list[Group] = []
    since = 0
    for place, commit in enumerate(history):
        if commit.problem_of(case) is not None:
            continue
        identity = commit.cases[case]
        if found and identity.surely_equals(found[-1].identity):
            found[-1] = Group((*found[-1].places, place), found[-1].since, identity)
        else:
            found.append(Group((place,), since, identity))
        since = place + 1
    return found


def narrowed(found: Sequence[Group]) -> list[Group]:
    """The groups between which the change must be: from the last with GOOD's code to the next with BAD's.

    A change that was made, reverted and made again is looked for where it was made last. One group, GOOD's, where both
    ends are surely equal.
    """
    good, bad = found[0].identity, found[-1].identity
    if good.surely_equals(bad):
        return [found[0]]
    start = max(at for at, group in enumerate(found) if at == 0 or group.identity.surely_equals(good))
    end = min(
        at
        for at, group in enumerate(found)
        if at > start and (at == len(found) - 1 or group.identity.surely_equals(bad))
    )
    return list(found[start : end + 1])


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and of what: an answer to one is none to another. ``gpu`` is the GPU's uuid."""

    good: str
    bad: str
    wanted_case: str
    tier: str
    device: str
    gpu: str | None
    nvrtc: str
    error: float


@dataclass
class State:
    """The question, the case that is looked into once it is chosen, and the commits built so far."""

    question: Question
    case: str = ""
    commits: dict[str, Commit] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the file, whole or not at all."""
        document = {
            "schema": SCHEMA,
            "question": asdict(self.question),
            "case": self.case,
            "commits": [asdict(commit) for commit in self.commits.values()],
        }
        write_whole(folder / FILE, json.dumps(document, indent=1) + "\n")


def resumed(folder: Path, question: Question) -> State:
    """The state saved in the folder; a PeakgateError where there is none, or it is of another question."""
    path = folder / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise PeakgateError(f"{path}: schema {document['schema']!r}, this version reads {SCHEMA}; start anew")
        saved = Question(**document["question"])
        state = State(saved, str(document["case"]), {each["commit"]: _commit(each) for each in document["commits"]})
    except FileNotFoundError:
        raise PeakgateError(f"{path}: no bisect to resume there; run it without --resume") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PeakgateError(f"{path}: no whole state ({type(error).__name__}: {error}); run without --resume") from None
    for each in fields(Question):
        before, now = getattr(saved, each.name), getattr(question, each.name)
        if before != now:
            raise PeakgateError(
                f"{path}: is of {each.name.replace('_', ' ')} {before!r}, not {now!r}; run without --resume"
            )
    return state


def _commit(entry: Mapping[str, Any]) -> Commit:
    cases = {str(case): Identity(**identity) for case, identity in entry["cases"].items()}
    return Commit(str(entry["commit"]), str(entry["subject"]), cases, entry["problem"])
