"""The few questions that protecting baselines asks git."""

from __future__ import annotations

import subprocess
from pathlib import Path

from peakgate.common.errors import PeakgateError

NO_SUCH_REF = 1
"""What a quiet ``git rev-parse --verify`` exits with when there is no such name; 128 is real trouble."""


def commit_of(ref: str, folder: Path) -> str:
    """The commit ``ref`` names in the repository around ``folder``; a PeakgateError when there is none."""
    done = _run(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if done.returncode == NO_SUCH_REF:
        raise PeakgateError(
            f"--base {ref}: no commit of that name here; `git fetch origin main`, then name origin/main"
        )
    return _text(done).strip()


def changed(commit: str, folder: Path) -> list[tuple[str, str]]:
    """Files below ``folder`` that differ between ``commit`` and the working tree: git's status letter and path.

    Paths are relative to ``folder``, which may be gone. A file that git does not know of yet is no difference; a
    renamed one is a deleted and an added one.
    """
    how = ("--name-status", "--no-renames", "--no-ext-diff", "--relative", "-z")
    fields = _text(_run(folder.parent, "diff", *how, commit, "--", folder.name)).split("\0")[:-1]
    return [(state, _below(folder, name)) for state, name in zip(fields[::2], fields[1::2], strict=True)]


def files(commit: str, folder: Path) -> list[str]:
    """The files below ``folder`` as of ``commit``, relative to it."""
    listed = _text(_run(folder.parent, "ls-tree", "-r", "--name-only", "-z", commit, "--", f"{folder.name}/"))
    return [_below(folder, name) for name in listed.split("\0")[:-1]]


def text(commit: str, folder: Path, name: str) -> str:
    """The file ``name``, relative to ``folder``, as of ``commit``."""
    return _text(_run(folder.parent, "show", f"{commit}:./{folder.name}/{name}"))


def _below(folder: Path, name: str) -> str:
    return name.removeprefix(f"{folder.name}/")


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
