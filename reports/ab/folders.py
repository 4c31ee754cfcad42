"""The two commits as folders: git worktrees in a temporary place, or folders that are there."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.project import config

WORKING_TREE = "."


@dataclass(frozen=True, slots=True)
class Wanted:
    """A side as it was asked for: a commit's name, ``.`` for the working tree, or a folder taken as it is."""

    name: str
    folder: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A side as files: where they are and the commit they are from, None where git does not tell."""

    label: str
    path: Path
    commit: str | None


@contextmanager
def folders(base: Wanted, head: Wanted) -> Iterator[tuple[Folder, Folder]]:
    """Both sides as folders for the length of the block; worktrees are removed after it, whatever happens in it.

    A PeakgateError names a commit or folder that does not exist.
    """
    found = [_resolve(wanted) for wanted in (base, head)]
    made = any(isinstance(there, str) for there in found)
    with _pruned(made), tempfile.TemporaryDirectory(prefix="peakgate-ab-") as scratch:
        placed = []
        for side, wanted, there in zip(("base", "head"), (base, head), found, strict=True):
            if isinstance(there, Folder):
                placed.append(there)
                continue
            path = Path(scratch, side).resolve()
            _git("worktree", "add", "--detach", "--quiet", str(path), there)
            placed.append(Folder(wanted.name, path, there))
        yield placed[0], placed[1]


@contextmanager
def _pruned(made: bool) -> Iterator[None]:
    """Take our worktrees off the repository's list in the end."""
    try:
        yield
    finally:
        if made:
            _git("worktree", "prune")


def _resolve(wanted: Wanted) -> Folder | str:
    """The side's folder, or the commit a worktree has to be made of."""
    if wanted.folder:
        path = Path(wanted.name)
        if not path.is_dir() or config.find(path.resolve()) is None:
            raise PeakgateError(f"{wanted.name}: no folder of a project; give the root of a checked-out tree")
        return Folder(wanted.name, path.resolve(), None)
    if wanted.name == WORKING_TREE:
        root = Path(_git("rev-parse", "--show-toplevel"))
        return Folder("working tree", root.resolve(), _git("rev-parse", "--verify", "--quiet", "HEAD"))
    try:
        return _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted.name}^{{commit}}")
    except PeakgateError:
        _git("rev-parse", "--git-dir")  # outside a repository, that is what is wrong
        raise PeakgateError(
            f"{wanted.name}: no such commit in this repository; name one `git log` knows, fetch it first, "
            f"or give `{WORKING_TREE}` for the working tree"
        ) from None


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise PeakgateError(f"git cannot be run ({error.strerror}); install it, or give two folders") from None
    if done.returncode != 0:
        told = " ".join(done.stderr.split()) or f"exit {done.returncode}"
        raise PeakgateError(f"git {' '.join(arguments[:2])}: {told}; run it in a git repository, or give two folders")
    return done.stdout.strip()
