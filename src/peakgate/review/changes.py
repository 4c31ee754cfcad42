"""Finds edits of a change that could cause an undeserved pass, and which of them are acknowledged; pure.

Some fail unless an acknowledgement names their exact old and new value. Others, in files that decide how a change is
judged, are only listed for an owner to review.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from fnmatch import fnmatch
from pathlib import PurePath

from peakgate.base.config import ProjectSettings
from peakgate.base.report import Row
from peakgate.judge.acknowledged import FLOOR, RUN, Acknowledgement
from peakgate.spec.contract import PROMISED, Contract, changes

NONE = "none"
FILE, CASE = "file", "case"


class ChangeKind(StrEnum):
    """Kind of a change to something protected."""

    LOWERED = "floor lowered"
    DROPPED = "floor dropped"
    EDITED = "run edited"
    DELETED = "run deleted"
    FORGED = "run that cannot be trusted"
    LINK = "symbolic link"
    REPOSITORY = "nested repository"
    COMPILED = "code that is not source"
    OUTPUT = "committed output"
    CONTRACT = "contract changed"
    CASE_DROPPED = "case dropped"
    SETTING = "setting changed"
    REVIEW = "for review"


@dataclass(frozen=True, slots=True)
class ProtectedChange:
    """One change to one case's floor, one saved run, one term of a case's contract, or one file.

    ``gpu`` is its folder in the baselines, empty if it concerns every GPU; ``term`` is floor, run or the contract's
    term; ``what`` is the case id, the run's path below ``runs/``, or the file.
    """

    gpu: str
    kind: ChangeKind
    term: str
    what: str
    before: str
    after: str

    def row(self, more: str = "") -> Row:
        """The change as a report's row, with ``more`` appended."""
        where = f"{self.gpu}: " if self.gpu else ""
        term = "" if self.term in (FLOOR, RUN, FILE, CASE) else f"{self.term} of "
        return Row(f"{where}{self.kind}: {term}{self.what}", reason=f"{self.before} to {self.after}{more}")

    @property
    def key(self) -> tuple[str, ...]:
        """The key that an acknowledgement must match."""
        return self.gpu, self.term, self.what, self.before, self.after


@dataclass(frozen=True, slots=True)
class Ruling:
    """The changes that fail, are acknowledged, or are for review, and unused acknowledgements."""

    failing: tuple[ProtectedChange, ...]
    acknowledged: tuple[tuple[ProtectedChange, Acknowledgement], ...]
    review: tuple[ProtectedChange, ...]
    idle: tuple[Acknowledgement, ...]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that differs between two trees: git's status letter, its path, whether it is a link, both blob ids.

    ``repository``: a present or former submodule, or an untracked nested repository, whose files are in neither tree.
    """

    state: str
    path: str
    link: bool
    before: str
    after: str
    repository: bool = False


REVIEWED = (
    ".github/*",
    "*.gitlab-ci.yml",
    ".gitlab/*",
    ".ci/*",
    ".buildkite/*",
    ".circleci/*",
    ".woodpecker*",
    "azure-pipelines*.yml",
    *("Jenkinsfile", "*/Jenkinsfile", "Dockerfile*", "*/Dockerfile*", "action.yml", "*/action.yml"),
    *("pytest.ini", "*/pytest.ini", "tox.ini", "*/tox.ini", "setup.cfg", "*/setup.cfg"),
    *("environment.yml", "*/environment.yml", "pylock*.toml", "*/pylock*.toml", "uv.toml", "*/uv.toml"),
    "CODEOWNERS",
    "*/CODEOWNERS",
    ".gitattributes",
    "*/.gitattributes",
    ".gitmodules",
    ".lfsconfig",
    "noxfile.py",
    "*/noxfile.py",
    "pyproject.toml",
    "*/pyproject.toml",
    "peakgate.toml",
    "*/peakgate.toml",
    "conftest.py",
    "*/conftest.py",
    "requirements*",
    "*/requirements*",
    "*.lock",
    "src/peakgate/*",
    "src/peakgate_emulator/*",
)
"""Patterns of files that decide how a change is judged. The last two exist only in Peakgate's own repository."""

NAME_WORD = re.compile(r"[\w.+-]+")
"""A word in Python source that may be a file's or folder's name, a part of it, or a suffix."""

COMPILED = (".pyc", ".so", ".pyd")
"""Suffixes of files that Python imports instead of source, and that a reviewer cannot read."""


def floor_changes(gpu: str, before: Mapping[str, float], after: Mapping[str, float]) -> list[ProtectedChange]:
    """Floors that were lowered or removed; new and raised ones need no acknowledgement."""
    found = []
    for case, floor in sorted(before.items()):
        if case not in after:
            found.append(ProtectedChange(gpu, ChangeKind.DROPPED, FLOOR, case, repr(floor), NONE))
        elif after[case] < floor:
            found.append(ProtectedChange(gpu, ChangeKind.LOWERED, FLOOR, case, repr(floor), repr(after[case])))
    return found


def run_changes(files: Iterable[FileChange]) -> list[ProtectedChange]:
    """Saved runs that were edited or deleted, and links and nested repositories among the baselines.

    Paths are relative to the baselines. A run is a file below ``<gpu>/runs/``; a renamed one counts as deleted and
    added, and added ones need no acknowledgement.
    """
    found = []
    for file in sorted(files, key=lambda each: each.path):
        gpu, _, inside = file.path.partition("/")
        folder, _, name = inside.partition("/")
        if file.link or file.repository:
            kind = ChangeKind.LINK if file.link else ChangeKind.REPOSITORY
            found.append(ProtectedChange(gpu if inside else "", kind, RUN, inside or gpu, file.before, file.after))
        elif folder == "runs" and name and file.state != "A":
            kind = ChangeKind.DELETED if file.state == "D" else ChangeKind.EDITED
            found.append(ProtectedChange(gpu, kind, RUN, name, file.before, file.after))
    return found


def repository_changes(files: Iterable[FileChange], places: Collection[str]) -> list[ProtectedChange]:
    """Nested repositories in, or around, folders that Python is imported from: their files cannot be compared."""
    known = {*places}
    around = {folder for place in known for folder in _ways(place)}
    return [
        ProtectedChange("", ChangeKind.REPOSITORY, RUN, file.path, file.before, file.after)
        for file in sorted(files, key=lambda each: each.path)
        if file.repository and (file.path in around or not known.isdisjoint(_ways(file.path)))
    ]


def compiled_changes(files: Iterable[FileChange], pythonpath: Collection[str]) -> list[ProtectedChange]:
    """Files anywhere that Python can import and that are not source: a conftest.py can make any folder importable.

    A file that is an entry of ``pythonpath``, or a parent of one, is an archive of modules.
    """
    return [
        ProtectedChange("", ChangeKind.COMPILED, FILE, file.path, file.before, file.after)
        for file in sorted(files, key=lambda each: each.path)
        if not file.repository
        and not (file.state == "D" and "__pycache__/" in file.path)  # never read
        and (file.path.endswith(COMPILED) or any(file.path in _ways(name) for name in pythonpath if not file.link))
    ]


def output_changes(files: Iterable[FileChange], outputs: Collection[str]) -> list[ProtectedChange]:
    """Changed files among the committed ``outputs``, which could be taken for the tool's own runs or verdicts."""
    return [
        ProtectedChange("", ChangeKind.OUTPUT, FILE, file.path, file.before, file.after)
        for file in sorted(files, key=lambda each: each.path)
        if file.path in outputs
    ]


def contract_changes(before: Mapping[str, Contract], after: Mapping[str, Contract]) -> list[ProtectedChange]:
    """Contract terms of known cases that differ, and cases that were removed, by case id."""
    found = []
    for case, old in sorted(before.items()):
        if case not in after:
            found.append(ProtectedChange("", ChangeKind.CASE_DROPPED, CASE, case, "present", NONE))
            continue
        for term, values in sorted(changes(old, after[case], PROMISED).items()):
            was, now = (NONE if value is None else str(value) for value in values)
            found.append(ProtectedChange("", ChangeKind.CONTRACT, term, case, was, now))
    return found


SETTINGS = "settings"


def setting_changes(before: ProjectSettings | None, after: ProjectSettings | None) -> list[ProtectedChange]:
    """Changed settings that affect how the next change is judged.

    Other folders of cases or floors fail; changes of what is built, imported or passed to compilers are for review.
    """
    if before is None or after is None:
        return []
    places = [(name, getattr(before, name) or name, getattr(after, name) or name) for name in ("kernels", "baselines")]
    places += [("benchmarks", name, NONE) for name in before.benchmarks if name not in after.benchmarks]
    found = [
        ProtectedChange("", ChangeKind.SETTING, term, SETTINGS, was, now)
        for term, was, now in places
        if PurePath(was) != PurePath(now)
    ]
    for term in ("build", "pythonpath", "plugins", "options", "include"):
        was, now = (NONE if not (given := getattr(side, term)) else str(given) for side in (before, after))
        if was != now:
            found.append(ProtectedChange("", ChangeKind.REVIEW, term, SETTINGS, was, now))
    return found


def reviewed_changes(
    files: Iterable[FileChange],
    baselines: str,
    benchmarks: Collection[str] = (),
    imported: Collection[str] = (),
    sources: Collection[str] = (),
    *,
    mentioned: Collection[str] = (),
    built: bool = False,
) -> list[ProtectedChange]:
    """Changed files that decide how a change is judged, for review.

    ``baselines`` is the path of their folder. ``benchmarks`` are files or folders of benchmark tests, which contain the
    work, reference and tolerance of callables. ``imported`` are folders of kernels and of ``pythonpath``, whose Python,
    and the data that it reads, define what is expected. That Python may read any file whose name, suffix or folder is
    among the words ``mentioned`` in it; a project that is ``built`` may read any file. ``sources`` are kernel sources,
    which a run measures. The files of a submodule cannot be compared.
    """
    found, known, tests, python = [], {*mentioned}, {*benchmarks}, {*imported}
    for file in sorted(files, key=lambda each: each.path):
        inside = file.path.removeprefix(f"{baselines}/") if file.path.startswith(f"{baselines}/") else None
        named = file.repository or any(fnmatch(file.path, pattern) for pattern in REVIEWED)
        named |= not tests.isdisjoint(_ways(file.path))
        is_source = file.path in sources and not file.link and not file.path.endswith(".py")
        if inside is None and not file.path.endswith(COMPILED) and not is_source:
            path = PurePath(file.path)
            words = [NAME_WORD.findall(name) for name in (path.name, path.suffix, *path.parent.parts)]
            named |= built or any(each and known.issuperset(each) for each in words)
            named |= not python.isdisjoint(_ways(file.path))
        rest = None if inside is None else inside.partition("/")[2]  # floors and runs are judged individually
        if named or (rest is not None and rest != "floors.toml" and not rest.startswith("runs/")):
            found.append(ProtectedChange("", ChangeKind.REVIEW, FILE, file.path, file.before, file.after))
    return found


def rule(
    changes: Sequence[ProtectedChange], acknowledgements: Sequence[Acknowledgement], today: date = date.min
) -> Ruling:
    """Split the changes: those fail that no unexpired acknowledgement names with their exact values."""
    words = {each.key: each for each in acknowledgements if each.expires >= today.isoformat()}
    protected = [change for change in changes if change.kind is not ChangeKind.REVIEW]
    used = {change.key for change in protected}
    return Ruling(
        failing=tuple(change for change in protected if change.key not in words),
        acknowledged=tuple((change, words[change.key]) for change in protected if change.key in words),
        review=tuple(change for change in changes if change.kind is ChangeKind.REVIEW),
        idle=tuple(each for each in acknowledgements if each.key not in used & words.keys()),
    )


def _ways(path: str) -> Iterator[str]:
    """The path and its parent folders, including ``.``."""
    yield "."
    while path:
        yield path
        path = path.rpartition("/")[0]
