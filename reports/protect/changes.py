"""What a change does to floors and saved runs, and what of it was acknowledged; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What was done to something protected."""

    LOWERED = "floor lowered"
    DROPPED = "floor dropped"
    EDITED = "run edited"
    DELETED = "run deleted"


@dataclass(frozen=True, slots=True)
class Change:
    """One change to one case's floor or one saved run.

    ``gpu`` is the folder in baselines it belongs to; ``what`` the case id, or the run's path below ``runs/``.
    """

    gpu: str
    kind: Kind
    what: str
    detail: str

    def __str__(self) -> str:
        return f"{self.gpu}: {self.kind}: {self.what}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Someone's word that a change is meant: of the case or the run file ``what``, and why."""

    gpu: str
    what: str
    reason: str
    expires: str


@dataclass(frozen=True, slots=True)
class Ruling:
    """The changes that fail, those that were acknowledged, and the acknowledgements that nothing needs."""

    failing: tuple[Change, ...]
    acknowledged: tuple[tuple[Change, Acknowledgement], ...]
    idle: tuple[Acknowledgement, ...]


def floor_changes(gpu: str, before: Mapping[str, float], after: Mapping[str, float]) -> list[Change]:
    """Floors that are lower than before, or gone; new and raised ones are no change that needs a word."""
    found = []
    for case, floor in sorted(before.items()):
        if case not in after:
            found.append(Change(gpu, Kind.DROPPED, case, f"{floor:g} to none"))
        elif after[case] < floor:
            found.append(Change(gpu, Kind.LOWERED, case, f"{floor:g} to {after[case]:g}"))
    return found


def run_changes(states: Iterable[tuple[str, str]]) -> list[Change]:
    """Saved runs that were edited or deleted; ``states`` are git's status letter and path below baselines.

    A run is a file below ``<gpu>/runs/``. Added ones are no change that needs a word.
    """
    found = []
    for state, path in sorted(states, key=lambda each: each[1]):
        gpu, _, inside = path.partition("/")
        folder, _, name = inside.partition("/")
        if folder != "runs" or not name or state == "A":
            continue
        kind = Kind.DELETED if state == "D" else Kind.EDITED
        found.append(Change(gpu, kind, name, "saved runs are evidence: add a new one beside it"))
    return found


def rule(changes: Sequence[Change], acknowledgements: Sequence[Acknowledgement]) -> Ruling:
    """Hold the changes against the acknowledgements of their GPU."""
    by_name = {(each.gpu, each.what): each for each in acknowledgements}
    used = {(change.gpu, change.what) for change in changes}
    return Ruling(
        failing=tuple(change for change in changes if (change.gpu, change.what) not in by_name),
        acknowledged=tuple(
            (change, by_name[change.gpu, change.what]) for change in changes if (change.gpu, change.what) in by_name
        ),
        idle=tuple(each for name, each in by_name.items() if name not in used),
    )
