"""What a bisect goes through, commits or versions of a package: where each is, what it builds, and its pairs.

What a bisect has found so far is a file: with the pairs in the folders beside it, it is enough to go on. The pairs of
two commits are a record of ``ab`` in a folder of their own, which ``peakgate ab --from FOLDER`` decides again. To build
no GPU is needed when a capability is named.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from msgspec import Struct, to_builtins

from peakgate.base import records
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import make_folder, refuse_links, scratch_folder, write_whole
from peakgate.base.git import commit_of
from peakgate.base.verdict import FAULTY, Verdict
from peakgate.compare.ab.experiment import add_pairs
from peakgate.compare.ab.folders import SideEnvironment, SideFolder, Wanted, git, made, placed
from peakgate.compare.ab.means import MANIFEST, Means
from peakgate.compare.ab.plan import Plan, read_code
from peakgate.compare.ab.process import SideBroken, built_environment
from peakgate.compare.ab.record import AbRecord, PairSettings, load_record, log_ratios, refusal, whole_pairs
from peakgate.compare.ab.schedule import Phase, Side
from peakgate.compare.bisect.search import BuiltCommit, Unusable

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
    capability: str | None
    case: str
    place: PointFolder


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


class Rig(ExitStack):
    """Pairs of one case at the commits that stand for the groups, by group; a context that removes its worktrees."""

    def __init__(
        self, commits: Sequence[BuiltCommit], case: str, settings: PairSettings, means: Means, place: PointFolder
    ) -> None:
        super().__init__()
        self._place = place
        self._commits, self._case, self._settings, self._means = commits, case, settings, means
        self._folders: dict[str, SideFolder] = {}
        self._records: dict[tuple[str, str], AbRecord] = {}
        self._given: dict[tuple[str, str], int] = {}

    @property
    def measured(self) -> set[str]:
        """The commits with at least one pair."""
        return {commit for both, record in self._records.items() if _pairs(record) for commit in both}

    @property
    def pairs(self) -> int:
        return sum(_pairs(record) for record in self._records.values())

    def __call__(self, base: int, head: int, count: int) -> Sequence[float]:
        """ln(head / base) of pairs that were not given before, saved ones first.

        Unusable where head cannot be measured; where base cannot, that is a PeakgateError.
        """
        built = self._commits[base], self._commits[head]
        both = built[0].commit, built[1].commit
        out = self._means.out / f"{short(both[0])}-{short(both[1])}"
        record = self._record(both, out)
        given = self._given.get(both, 0)
        missing = given + count - _pairs(record)
        try:
            if missing > 0:
                codes = built[0].cases, built[1].cases
                add_pairs(record, codes, missing, Means(out, self._means.budget, self._means.progress))
        except SideBroken as broken:
            if broken.which == Side.BASE:
                raise PeakgateError(
                    f"{short(both[0])}: {broken.reason}; a base that runs is needed", Code.SIDE
                ) from None
            raise Unusable(broken.reason) from None
        finally:
            record.save(out)
        self._given[both] = given + count
        values = log_ratios(record, Phase.SCREEN, [self._case])[0][given : given + count]
        times = [float(value) for value in values if math.isfinite(value)]
        if not times:
            raise Unusable(_untimed(record, self._case))
        return times

    def folder(self, commit: str) -> SideFolder:
        """The commit's worktree, with the project's own build run in it."""
        if commit not in self._folders:
            name, folder = short(commit), self.enter_context(self._place(commit))
            built_environment(name, folder, self._means.out / f"{name}-build.log")
            self._folders[commit] = folder.described()
        return self._folders[commit]

    def _record(self, both: tuple[str, str], out: Path) -> AbRecord:
        if both not in self._records:
            make_folder(out)
            refuse_links(out)
            try:
                base, head = (self.folder(commit) for commit in both)
            except SideBroken as broken:
                raise Unusable(str(broken)) from None
            record = AbRecord(base, head, self._settings, Plan(measured=(self._case,)))
            if (out / MANIFEST).is_file():
                saved = load_record(out)
                record.processes, record.runs = saved.processes, saved.runs
            self._records[both] = record
        return self._records[both]


def _pairs(record: AbRecord) -> int:
    return whole_pairs(record, Phase.SCREEN)


def _untimed(record: AbRecord, case: str) -> str:
    """Why there are no times: what either side says, head first."""
    untimed = [*FAULTY, Verdict.INCONCLUSIVE]
    said = (refusal(record, which, case, untimed) for which in (Side.HEAD, Side.BASE))
    return next((reason for reason in said if reason), "this GPU cannot run it")
