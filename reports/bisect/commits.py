"""What a bisect goes through, commits or versions of a package at one commit: where each is, and what it builds.

Adjacent ones that cannot differ are a group. What a bisect has found so far is a file: with the pairs in the folders
beside it, it is enough to go on. No GPU is needed when a capability is named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from msgspec import Struct, to_builtins
from peakgate.core import records
from peakgate.core.errors import Code, PeakgateError
from peakgate.core.files import scratch_folder, write_whole
from peakgate.core.git import commit_of
from peakgate.reports.ab.folders import SideEnvironment, SideFolder, Wanted, git, made, placed
from peakgate.reports.ab.plan import read_code
from peakgate.reports.ab.process import SideBroken, built_environment
from peakgate.run.terms import Contract

SHORT_HASH = 12
_HASH = 40

PointFolder = Callable[[str], AbstractContextManager[SideFolder]]
"""A point as a folder with an environment, for the length of a block."""


def short(point: str) -> str:
    """A commit's first digits, a version as it is."""
    return point[:SHORT_HASH] if len(point) == _HASH else point


def at_commit(commit: str) -> AbstractContextManager[SideFolder]:
    """A commit of the repository in the environment that Peakgate runs in."""
    return placed(short(commit), Wanted(commit))


@dataclass
class AtVersion:
    """One commit with each of the versions of a package, which uv installs once into ``folder``."""

    package: str
    folder: Path
    _made: dict[str, SideEnvironment] = field(default_factory=dict)

    @contextmanager
    def __call__(self, version: str) -> Iterator[SideFolder]:
        """HEAD in an environment with this version."""
        if version not in self._made:
            requirement = self.folder / f"{version}.txt"
            requirement.write_text(f"{self.package}=={version}\n", encoding="utf-8")
            self._made[version] = made(f"{self.package} {version}", str(requirement), self.folder / version)
        with placed(version, Wanted("HEAD")) as side:
            label = f"{self.package} {version}"
            yield replace(side, label=label, environment=replace(self._made[version], label=label))


@contextmanager
def points(package: str) -> Iterator[PointFolder]:
    """Where each point of a bisect is: of versions where a package is named, of commits otherwise."""
    if not package:
        yield at_commit
        return
    with scratch_folder("versions") as folder:
        yield AtVersion(package, folder)


STATE_FILE = "state.json"


@dataclass(frozen=True, slots=True)
class BuiltCommit:
    """One commit with what it builds: its cases, or the reason why they cannot be had."""

    commit: str
    subject: str
    cases: Mapping[str, Contract]
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
    identity: Contract

    @property
    def first(self) -> int:
        return self.places[0]


def groups(history: Sequence[BuiltCommit], case: str) -> list[Group]:
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
    """Key of a bisect: a saved state applies only to an equal one. ``gpu`` is the GPU's uuid."""

    good: str
    bad: str
    wanted_case: str
    tier: str
    device: str
    gpu: str | None
    nvrtc: str
    error: float
    package: str = ""


class BisectState(Struct):
    """The file: the question, the case that is looked into once it is chosen, and the commits built so far."""

    schema: Literal[1]
    question: Question
    case: str = ""
    commits: list[BuiltCommit] = []

    def save(self, folder: Path) -> None:
        """Write the file, whole or not at all."""
        write_whole(folder / STATE_FILE, json.dumps(to_builtins(self), indent=1) + "\n")


def resumed(folder: Path, question: Question) -> BisectState:
    """The state saved in the folder; PeakgateError if there is none, or it belongs to other settings."""
    path = folder / STATE_FILE
    state = records.read(path, BisectState, "run it without --resume")
    for each in fields(Question):
        before, now = getattr(state.question, each.name), getattr(question, each.name)
        if before != now:
            raise PeakgateError(
                f"{path}: is of {each.name.replace('_', ' ')} {before!r}, not {now!r}; run without --resume",
                Code.CHANGED,
            )
    return state


AT_A_TIME = min(8, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class BisectTarget:
    """Build target: the cases of a tier, or one case of it, for a compute capability (None: the GPU's).

    ``place`` makes a folder of a commit, or of a version of a package.
    """

    tier: str
    capability: str | None = None
    case: str = ""
    place: PointFolder = at_commit


def listed(good: str, bad: str) -> list[tuple[str, str]]:
    """Commits and subjects from GOOD to BAD, both of them too, oldest first, along first parents.

    A PeakgateError where GOOD is no ancestor of BAD.
    """
    first, last = commit_of(good, Path(), "GOOD"), commit_of(bad, Path(), "BAD")
    if first == last:
        raise PeakgateError(f"{good} and {bad} are the same commit; name an older one as GOOD", Code.NOT_ALIKE)
    if git("merge-base", first, last) != first:
        raise PeakgateError(
            f"{good} is not an ancestor of {bad}; name one that is, see `git merge-base {good} {bad}`", Code.NOT_ALIKE
        )
    between = git("rev-list", "--reverse", "--first-parent", f"{first}..{last}").splitlines()
    return [(commit, git("show", "--no-patch", "--format=%s", commit)) for commit in (first, *between)]


def build_all(
    commits: Sequence[tuple[str, str]],
    target: BisectTarget,
    known: Sequence[BuiltCommit],
    logs: Path,
    built: Callable[[BuiltCommit], object],
) -> list[BuiltCommit]:
    """Build every commit that is not yet ``known``, the ends first; ``built`` gets each as it is finished.

    A commit between that cannot be built is one with a problem; where an end cannot, that is a PeakgateError.
    """
    found = {each.commit: each for each in known}
    for commit, subject in (commits[0], commits[-1]):
        if commit not in found:
            found[commit] = _built(commit, subject, target, logs)
            built(found[commit])
        problem = found[commit].problem if not target.case else found[commit].problem_of(target.case)
        if problem is not None:
            end = "GOOD" if commit == commits[0][0] else "BAD"
            what = f"{target.case}: " if target.case else ""
            raise PeakgateError(
                f"{what}{end} {short(commit)} {problem}; name commits that have and build the case", Code.SIDE
            )
    todo = [(commit, subject) for commit, subject in commits if commit not in found]
    with ThreadPoolExecutor(max_workers=AT_A_TIME) as pool:
        waiting: set[Future[BuiltCommit]] = {pool.submit(_built, *commit, target, logs) for commit in todo}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    made = future.result()
                    found[made.commit] = made
                    built(made)
        finally:
            for future in waiting:
                future.cancel()
    return [found[commit] for commit, _ in commits]


def _built(commit: str, subject: str, target: BisectTarget, logs: Path) -> BuiltCommit:
    name = short(commit)
    try:
        with target.place(commit) as folder:
            environment = built_environment(name, folder, logs / f"{name}-build.log")
            cases = read_code(target.tier, target.capability, name, folder, environment, case=target.case)
    except SideBroken as broken:
        return BuiltCommit(commit, subject, {}, broken.reason)
    except PeakgateError as error:
        if target.capability is None and error.code is Code.NO_GPU:
            raise
        return BuiltCommit(commit, subject, {}, error.message)
    return BuiltCommit(commit, subject, cases)
