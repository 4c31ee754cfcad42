"""What a run measured and with what, each named by a hash: for its verdict, and to know whether it can be resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from msgspec import Struct
from peakgate.common import git, records
from peakgate.common.errors import PeakgateError
from peakgate.project.config import Project

PACKAGE = Path(__file__).parents[1]
ARCHIVE = Path(".peakgate", "archive.json")
"""In a project unpacked from an archive: ``commit`` and ``changes`` of the tree that was packed."""


class Tree(Struct):
    """What an unpacked archive says of its tree."""

    commit: str | None = None
    changes: str | None = None


PARTS = ("*.py", "*.cu", "*.cpp", "*.h", "*.toml")


def tree(project: Project, out: Path) -> dict[str, str | None]:
    """``commit``, and ``changes``: a digest of what is not committed. Both None outside a git repository.

    A project unpacked from an archive, outside any repository, is the tree that was packed.
    What runs leave behind (``out``, saved runs) is no part of the tree.
    """
    try:
        commit = git.ask(project.root, "rev-parse", "--verify", "HEAD").decode().strip()
        changed = hashlib.sha256(git.ask(project.root, "diff", "--binary", "--no-ext-diff", "HEAD"))
        untracked = git.ask(project.root, "ls-files", "-z", "--others", "--exclude-standard")
    except (OSError, PeakgateError):
        return _packed_tree(project.root / ARCHIVE)
    ours = (out.resolve(), project.runs.resolve(), (project.root / ".peakgate").resolve())
    for name in filter(None, untracked.split(b"\0")):
        path = (project.root / name.decode("utf-8", "surrogateescape")).resolve()
        if not any(path.is_relative_to(folder) for folder in ours):
            changed.update(name + b"\0" + (file_digest(path) or "").encode())
    return {"commit": commit, "changes": changed.hexdigest()}


def _packed_tree(packed: Path) -> dict[str, str | None]:
    try:
        known = records.read(packed, Tree, "measure anew")
    except PeakgateError:
        known = Tree()
    return {"commit": known.commit, "changes": known.changes}


@cache
def harness() -> str:
    """A digest of this tool's own files: the version number does not change with every edit."""
    names = {path for part in PARTS for path in PACKAGE.rglob(part) if "tests" not in path.parts}
    return _digest(sorted(names))


def floors(baselines: Path) -> str:
    """A digest of every floor file of a folder of baselines."""
    return _digest(sorted(baselines.glob("*/floors.toml")))


def file_digest(path: Path) -> str | None:
    """A file's sha256; None where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.parent.name}/{path.name} {file_digest(path)}\n".encode())
    return digest.hexdigest()
