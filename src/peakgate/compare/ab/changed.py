"""Lists the files that differ between two sides, so that functions of families that read none of them run only once."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterable
from pathlib import Path

from peakgate.base import config
from peakgate.base.errors import PeakgateError
from peakgate.base.git import top_of, tree_of
from peakgate.compare.ab.folders import SideFolder, git

# Suffixes of files that no function of a family reads.
KERNEL_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".md")

# Limits of a comparison by content; beyond them every function is called on both sides.
MOST_BYTES, MOST_FILES = 256 << 20, 20_000

# Folders that commands create in a project.
LEFT_BEHIND = frozenset({".git", "__pycache__", ".cache", ".benchmarks", ".peakgate"})


def changed_files(base: SideFolder, head: SideFolder) -> list[str] | None:
    """Paths in the repository of the files that differ between two sides, without kernel sources.

    None if that is not known: the project has a build of its own, or the sides' packages may differ.
    """
    labels = {side.environment.label if side.environment else None for side in (base, head)}
    settings = [config.settings_in(side.path) for side in (base, head)]
    if len(labels) > 1 or any(each is not None and each.build is not None for each in settings):
        return None
    try:
        if not (base.commit and head.commit):
            found = _by_content(base.path, head.path)
        elif git("-C", str(base.path), "status", "--porcelain"):
            return None
        else:
            at = ("-C", str(top_of(head.path)))
            listed = git(*at, "diff", "--name-only", "--no-renames", "-z", base.commit, "--")
            listed += git(*at, "ls-files", "--others", "--exclude-standard", "-z")
            found = filter(None, listed.split("\0"))
    except (PeakgateError, OSError):
        return None
    return None if found is None else [name for name in found if not name.endswith(KERNEL_SUFFIXES)]


def _by_content(base: Path, head: Path) -> Iterable[str] | None:
    """Compare the work trees that contain the two folders, or the folders themselves outside git."""
    before, after = tree_of(base), tree_of(head)
    if base.resolve().relative_to(before) != head.resolve().relative_to(after):
        return None
    files, others = _files(before), _files(after)
    both = files & others
    many = max(len(files), len(others)) > MOST_FILES
    if many or sum((before / name).lstat().st_size for name in both) > MOST_BYTES:
        return None
    return {*(files ^ others), *(name for name in both if not _alike(before, after, name))}


def _files(tree: Path) -> set[str]:
    """Relative paths of the files and symbolic links in a tree."""
    found: set[str] = set()
    for folder, names, files in os.walk(tree):
        names[:] = [name for name in names if name not in LEFT_BEHIND]
        links = [name for name in names if Path(folder, name).is_symlink()]
        found.update(os.path.relpath(Path(folder, name), tree) for name in (*files, *links))
        if len(found) > MOST_FILES:
            break
    return found


def _alike(before: Path, after: Path, name: str) -> bool:
    """Whether a file has the same content in both trees, or a link the same target inside its own tree."""
    one, other = before / name, after / name
    if not (one.is_symlink() or other.is_symlink()):
        return filecmp.cmp(one, other, shallow=False)
    if not (one.is_symlink() and other.is_symlink()) or one.readlink() != other.readlink():
        return False
    return one.resolve().is_relative_to(before) and other.resolve().is_relative_to(after)
