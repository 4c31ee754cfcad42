"""The inputs of a run: the project's tree, the tool's own files, the base commit and its floors.

Digests of them are written with the verdict and decide whether a run can be resumed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from msgspec import Struct

from peakgate.base import git, records
from peakgate.base.config import Project
from peakgate.base.errors import PeakgateError
from peakgate.base.files import PACKAGES, file_digest, scratch_folder
from peakgate.judge.floors import Floors, load_floors

ARCHIVE = Path(".peakgate", "archive.json")
"""In a project unpacked from an archive: ``commit`` and ``changes`` of the tree that was packed."""


class Tree(Struct):
    """A commit, and a digest of uncommitted changes."""

    commit: str | None = None
    changes: str | None = None


PARTS = ("*.py", "*.cu", "*.cpp", "*.h", "*.toml", "stand_ins/**/*")


def tree(project: Project, out: Path) -> Tree:
    """The project's commit and uncommitted changes, without files that runs write (``out``, saved runs).

    Outside a git repository those in ``ARCHIVE``, or both None.
    """
    try:
        commit = git.ask(project.root, "rev-parse", "--verify", "HEAD").decode().strip()
        changed = hashlib.sha256(git.ask(project.root, "diff", "--binary", "--no-ext-diff", "HEAD"))
        untracked = git.ask(project.root, "ls-files", "-z", "--others", "--exclude-standard")
    except (OSError, PeakgateError):
        try:
            return records.read(project.root / ARCHIVE, Tree, "measure again")
        except PeakgateError:
            return Tree()
    ours = (out.resolve(), project.runs.resolve(), (project.root / ".peakgate").resolve())
    for name in filter(None, untracked.split(b"\0")):
        path = Path(os.path.realpath(project.root / os.fsdecode(name)))  # unlike resolve(), accepts a loop of links
        if not any(path.is_relative_to(folder) for folder in ours):
            changed.update(name + b"\0" + (file_digest(path) or "").encode())
    return Tree(commit, changed.hexdigest())


@cache
def harness() -> str:
    """A digest of the tool's own files, since its version number does not change with every edit."""
    names = {path for part in PARTS for package in PACKAGES for path in package.rglob(part) if path.is_file()}
    return _digest(sorted(names))


def floors(baselines: Path) -> str:
    """A digest of every floor file of a folder of baselines."""
    return _digest(sorted(baselines.glob("*/floors.toml")))


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.parent.name}/{path.name} {file_digest(path)}\n".encode())
    return digest.hexdigest()


FLOORS, OPTION = "floors.toml", "--baselines-from"


@contextmanager
def exported(ref: str, root: Path, baselines: Path) -> Iterator[Path]:
    """The folder of the project ``root`` at commit ``ref``, in a temporary export of its repository.

    ``baselines`` is left out. Raises PeakgateError if ``ref`` is not a commit or its tree cannot be exported.
    """
    commit = git.commit_of(ref, root, OPTION)
    top = git.top_of(root)
    without = baselines.resolve()
    left_out = [f":(exclude){without.relative_to(top.resolve())}"] if without.is_relative_to(top.resolve()) else []
    with scratch_folder("base") as scratch:
        tree = scratch / "tree"
        git.export(commit, top, tree, ".", *left_out)
        yield tree / root.resolve().relative_to(top.resolve())


def floors_at(ref: str, baselines: Path, gpu: str) -> Floors:
    """The floors of a GPU at commit ``ref``; none, with ``present`` False, if that commit has no floors file.

    ``baselines`` is their folder in the working tree, which need not have the file. Floors of unknown cases are
    allowed. Raises PeakgateError if ``ref`` is not a commit or the file has a mistake.
    """
    folder = next(each for each in (baselines.absolute(), *baselines.absolute().parents) if each.is_dir())
    git.commit_of(ref, folder, OPTION)
    path = (baselines.absolute() / gpu / FLOORS).relative_to(folder).as_posix()
    name = Path(f"{ref}:{baselines.name}/{gpu}/{FLOORS}")
    try:
        text = git.ask(folder, "show", "--end-of-options", f"{ref}:./{path}")
    except PeakgateError:
        return Floors(name)
    with scratch_folder("base") as scratch:
        copy = scratch / FLOORS
        copy.write_bytes(text)
        try:
            return replace(load_floors(copy, gpu=gpu), path=name)
        except PeakgateError as error:
            raise PeakgateError(error.message.replace(str(copy), str(name)), error.code) from None
