"""Manages the trees of a gate: the project's folder, the gate's folder with both trees, cleaning up after a build.

A change or its build may have created anything in them: links are not followed out of a tree, folders may be deep, and
git must find only the repositories that the gate put there.
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
from peakgate.base.files import each_below, file_digest, remove_tree, scratch_folder
from peakgate.base.formatting import short
from peakgate.compare.ab.folders import worktree
from peakgate.review.branch import Refs
from peakgate.review.links import Links

DEEPEST = 200
"""Maximum nesting of folders, below Python's recursion limit."""


def inside_of(project: Path, repository: Path) -> Path:
    """The project's path in the repository; PeakgateError if a link in the repository leads to another folder."""
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
    """PeakgateError if a path of the commit has more than DEEPEST folders."""
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
    """A new folder outside the repository for the gate, which is removed at the end."""
    with scratch_folder("gate") as scratch:
        yield laid_out(outside(scratch / "home", repository, "TMPDIR"))


def outside(wanted: Path, repository: Path, option: str) -> Path:
    """The path of a new folder; PeakgateError if it exists, is in the repository or contains it."""
    folder = wanted.parent.resolve() / wanted.name
    if folder.is_relative_to(repository) or repository.is_relative_to(folder):
        raise PeakgateError(
            f"{option} {wanted}: within reach of the change in {repository}; name a folder elsewhere", Code.PROTECTED
        )
    if folder.exists() or folder.is_symlink():
        raise PeakgateError(f"{option} {wanted}: exists already; name a new folder", Code.TAKEN)
    return folder


def laid_out(home: Path) -> Path:
    """Create the folder and its subfolders."""
    home.mkdir(mode=0o700, parents=True)
    for name in ("cache", "tmp", "runs", "out"):
        (home / name).mkdir()
    return home


@contextmanager
def both(refs: Refs, repository: Path, home: Path) -> Iterator[tuple[Path, Path]]:
    """Worktrees of both commits in the gate's folder."""
    with (
        worktree(refs.base, home / "base", repository) as base,
        worktree(refs.head, home / "head", repository) as head,
    ):
        yield base, head


def without_links_out(tree: Path) -> list[str]:
    """Remove links that lead out of the tree, or in a loop, and return their paths."""
    links, inside = Links(), f"{tree.resolve()}/"
    out = [each.path for each in each_below(tree) if each.is_symlink() and not links.leads_into(each.path, inside)]
    for path in out:
        Path(path).unlink()
    return sorted(os.path.relpath(path, tree) for path in out)


def is_project(folder: Path) -> bool:
    """Whether the folder has settings, valid or not; without any, a parent folder's settings would apply."""
    try:
        return config.settings_in(folder) is not None
    except PeakgateError:
        return True


def repositories(tree: Path) -> dict[Path, bytes]:
    """The ``.git`` files of a tree, of the worktree itself and its submodules, with their content."""
    found = (Path(each.path) for each in each_below(tree) if each.name == ".git" and each.is_file())
    return {path: path.read_bytes() for path in found}


def cleaned(tree: Path, before: Mapping[Path, bytes]) -> str | None:
    """Clean a tree after a build; return why it cannot be judged, or None.

    Removes links that lead out of it and new repositories, makes files readable, and restores the repositories
    ``before``.
    """
    subprocess.run(["chmod", "-R", "u+rwX", "--", str(tree)], capture_output=True, check=False)
    deep = ["find", str(tree), "-mindepth", str(DEEPEST + 1), "-print", "-quit"]
    if subprocess.run(deep, capture_output=True, check=False).stdout:
        return f"its build nests more than {DEEPEST} folders"
    without_links_out(tree)
    for path in {*before, *(Path(each.path) for each in each_below(tree) if each.name == ".git")}:
        remove_tree(path)
        if os.path.lexists(path):
            return f"its build creates {short(str(path.relative_to(tree)))}, which cannot be removed"
    for path, content in before.items():
        with suppress(FileExistsError, NotADirectoryError):  # a file replaced the folder, which counts as a change
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return None


def committed(folders: Iterable[Path]) -> dict[Path, object]:
    """The tracked files of these repositories with their current content."""
    names = ((folder, git.ask(folder, "ls-files", "-z").split(b"\0")[:-1]) for folder in folders)
    paths = [folder / os.fsdecode(name) for folder, listed in names for name in listed]
    return {path: _content(path) for path in paths}


def changed(files: Mapping[Path, object]) -> Path | None:
    """The first of these files whose content changed; git would miss changes that attributes filter."""
    return next((path for path, was in files.items() if _content(path) != was), None)


def _content(path: Path) -> object:
    """A value that identifies a file's content and execute permission, or a link's target; True for a folder."""
    if path.is_symlink():
        return str(path.readlink())
    if not path.is_file():
        return path.is_dir()
    return file_digest(path), path.stat().st_mode & stat.S_IXUSR
