"""The few questions that protecting asks git."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from peakgate.common.errors import PeakgateError
from peakgate.reports.protect.changes import NONE, FileChange

NO_SUCH_REF = 1
"""What a quiet ``git rev-parse --verify`` exits with when there is no such name; 128 is real trouble."""

LINK_MODE = "120000"
ID_DIGITS = 12


def commit_of(ref: str, folder: Path) -> str:
    """The commit ``ref`` names in the repository around ``folder``; a PeakgateError when there is none."""
    done = _run(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if done.returncode == NO_SUCH_REF:
        raise PeakgateError(
            f"--base {ref}: no commit of that name here; `git fetch origin main`, then name origin/main"
        )
    return _text(done).strip()


def root_of(folder: Path) -> Path:
    """The top folder of the repository around ``folder``."""
    return Path(_text(_run(folder, "rev-parse", "--show-toplevel")).removesuffix("\n"))


def changed(commit: str, root: Path) -> list[FileChange]:
    """Files that differ between ``commit`` and the working tree at ``root``, untracked ones included; paths from it.

    A renamed file is a deleted and an added one. Contents are named by the first digits of git's hash of them.
    """
    how = ("--raw", "--no-renames", "--no-ext-diff", "--abbrev=40", "-z")
    fields = _text(_run(root, "diff", *how, commit, "--")).split("\0")[:-1]
    found = []
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        _, mode, before, _, state = about.removeprefix(":").split(" ")
        found.append(_change(root, state[0], path, mode == LINK_MODE, before))
    untracked = _text(_run(root, "ls-files", "--others", "--exclude-standard", "-z")).split("\0")[:-1]
    found += [_change(root, "A", path, (root / path).is_symlink(), "") for path in untracked]
    return found


def files(commit: str, folder: Path) -> list[str]:
    """The files below ``folder`` as of ``commit``, relative to it."""
    listed = _text(_run(folder.parent, "ls-tree", "-r", "--name-only", "-z", commit, "--", f"{folder.name}/"))
    return [name.removeprefix(f"{folder.name}/") for name in listed.split("\0")[:-1]]


def text(commit: str, folder: Path, name: str) -> str:
    """The file ``name``, relative to ``folder``, as of ``commit``."""
    return _text(_run(folder.parent, "show", f"{commit}:./{folder.name}/{name}"))


def export(commit: str, root: Path, to: Path) -> None:
    """The tree of ``commit`` as files below ``to``."""
    archive = to.with_suffix(".tar")
    _text(_run(root, "archive", "--format=tar", f"--output={archive}", commit))
    to.mkdir()
    done = subprocess.run(["tar", "-xf", str(archive), "-C", str(to)], capture_output=True, check=False)
    if done.returncode:
        raise PeakgateError(f"{commit}: its tree could not be unpacked: {done.stderr.decode(errors='replace').strip()}")


def _change(root: Path, state: str, path: str, link: bool, before: str) -> FileChange:
    after = NONE
    if state != "D":
        after = "link" if link else _blob_id((root / path).read_bytes())
    known = before.strip("0")
    return FileChange(state, path, link, before[:ID_DIGITS] if known else NONE, after)


def _blob_id(content: bytes) -> str:
    """The first digits of the name git gives to a file's content."""
    header = f"blob {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()[:ID_DIGITS]


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        raise PeakgateError("git is not installed: baselines of another commit cannot be read without it") from None


def _text(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise PeakgateError(f"git {done.args[1]} failed: {said or f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", errors="surrogateescape")
