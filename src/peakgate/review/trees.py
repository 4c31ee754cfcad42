"""The trees of a gate: where the project is in them, the judge's folder with both, and what a build leaves of one.

What a change or its build may have made there is data: links are not followed out of a tree, folders are walked however
deep they are, and git finds the repositories that the judge put there and no others.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from peakgate.base import config, git
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import each_below, file_digest
from peakgate.base.formatting import short
from peakgate.base.scratch import remove_tree, scratch_folder
from peakgate.compare.ab.folders import worktree
from peakgate.review.branch import Refs
from peakgate.review.links import Links

DEEPEST = 200
"""Folders around a file of a change: what walks a tree may go no deeper than Python's own calls."""


def inside_of(project: Path, repository: Path) -> Path:
    """The project's folder by its path in the repository; PeakgateError where a link there leads to another."""
    inside = project.resolve().relative_to(repository)
    given = Path(os.path.abspath(project))  # noqa: PTH100  (no link followed)
    tops = (parent for parent in (given, *given.parents) if parent.resolve() == repository)
    top = next(tops, None)
    if top is not None and given.relative_to(top) != inside:
        raise PeakgateError(
            f"--repository {project}: a link in the repository, which a change may have made, leads to {inside}; name "
            "the project's own folder",
            Code.PROJECT,
        )
    return inside


def refuse_deep(head: str, repository: Path) -> None:
    """PeakgateError where a path of the commit has more than DEEPEST folders."""
    paths = git.ask(repository, "ls-tree", "-r", "-z", "--name-only", "--full-tree", head).split(b"\0")
    deepest = max(paths, key=lambda path: path.count(b"/"))
    if deepest.count(b"/") > DEEPEST:
        raise PeakgateError(
            f"{head[:12]}: {short(os.fsdecode(deepest))} is in {deepest.count(b'/')} folders, expected at most "
            f"{DEEPEST}; move it up",
            Code.PROTECTED,
        )


@contextmanager
def new_home(repository: Path) -> Iterator[Path]:
    """The judge's own folder, new, outside the repository, for the length of a ``with`` block."""
    with scratch_folder("gate") as scratch:
        yield laid_out(outside(scratch / "home", repository, "TMPDIR"))


def outside(wanted: Path, repository: Path, option: str) -> Path:
    """The folder to be, which neither is in the repository nor holds it; PeakgateError otherwise, or if it exists."""
    folder = wanted.parent.resolve() / wanted.name
    if folder.is_relative_to(repository) or repository.is_relative_to(folder):
        raise PeakgateError(
            f"{option} {wanted}: within reach of the change in {repository}; name a folder elsewhere", Code.PROTECTED
        )
    if folder.exists() or folder.is_symlink():
        raise PeakgateError(f"{option} {wanted}: exists already; name a new folder", Code.TAKEN)
    return folder


def laid_out(home: Path) -> Path:
    """The folder, made with those in it that a gate uses."""
    home.mkdir(mode=0o700, parents=True)
    for name in ("cache", "tmp", "runs", "out"):
        (home / name).mkdir()
    return home


@contextmanager
def both(refs: Refs, repository: Path, home: Path) -> Iterator[tuple[Path, Path]]:
    """Copies of both commits in the judge's folder."""
    with (
        worktree(refs.base, home / "base", repository) as base,
        worktree(refs.head, home / "head", repository) as head,
    ):
        yield base, head


def without_links_out(tree: Path) -> list[str]:
    """Remove the links of a tree that lead out of it, or in a circle; their paths."""
    links, inside = Links(), f"{tree.resolve()}/"
    out = [each.path for each in each_below(tree) if each.is_symlink() and not links.leads_into(each.path, inside)]
    for path in out:
        Path(path).unlink()
    return sorted(os.path.relpath(path, tree) for path in out)


def is_project(folder: Path) -> bool:
    """Whether there are settings, readable or not: otherwise those of a folder above would make that the project."""
    try:
        return config.settings_in(folder) is not None
    except PeakgateError:
        return True


def repositories(tree: Path) -> dict[Path, bytes]:
    """What makes folders of a tree those of a git repository, of the worktree itself or a submodule: the files."""
    found = (Path(each.path) for each in each_below(tree) if each.name == ".git" and each.is_file())
    return {path: path.read_bytes() for path in found}


def cleaned(tree: Path, before: Mapping[Path, bytes]) -> str | None:
    """Take out of a tree what a build may have made that is no file; why it cannot be judged, or None.

    Links out of it go, all can be read, and git finds the repositories ``before`` and no others.
    """
    subprocess.run(["chmod", "-R", "u+rwX", "--", str(tree)], capture_output=True, check=False)
    deep = ["find", str(tree), "-mindepth", str(DEEPEST + 1), "-print", "-quit"]
    if subprocess.run(deep, capture_output=True, check=False).stdout:
        return f"its build makes more than {DEEPEST} folders in each other"
    without_links_out(tree)
    for path in {*before, *(Path(each.path) for each in each_below(tree) if each.name == ".git")}:
        remove_tree(path)
        if os.path.lexists(path):
            return f"its build makes {short(str(path.relative_to(tree)))}, which cannot be removed"
    for path, content in before.items():
        with suppress(FileExistsError, NotADirectoryError):  # a file in place of the folder, which is a change of it
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return None


def committed(folders: Iterable[Path]) -> dict[Path, object]:
    """The files of these repositories' commits, as they are now; they have just been made from them."""
    names = ((folder, git.ask(folder, "ls-files", "-z").split(b"\0")[:-1]) for folder in folders)
    paths = [folder / os.fsdecode(name) for folder, listed in names for name in listed]
    return {path: _content(path) for path in paths}


def changed(files: Mapping[Path, object]) -> Path | None:
    """One of these files that is no more as it was, byte by byte: git would overlook what attributes filter."""
    return next((path for path, was in files.items() if _content(path) != was), None)


def _content(path: Path) -> object:
    """What is at a path, links not followed: the same for the same content and right to run it; of a folder nothing."""
    if path.is_symlink():
        return str(path.readlink())
    if not path.is_file():
        return path.is_dir()
    return file_digest(path), path.stat().st_mode & stat.S_IXUSR
