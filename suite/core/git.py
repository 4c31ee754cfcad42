"""Questions to git about a repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

from peakgate.core.errors import Code, PeakgateError

LONGEST_COMMAND = 120
"""Of a command in an error message."""


def ask(folder: Path, *arguments: str) -> bytes:
    """Run git in ``folder`` and return what it prints; a PeakgateError quotes git's own message."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise PeakgateError(
            "git is not installed: another commit cannot be read without it", Code.INSTALLATION
        ) from None
    if done.returncode:
        reported = " ".join(done.stderr.decode(errors="replace").split()) or f"exit code {done.returncode}"
        raise PeakgateError(f"git {' '.join(arguments)[:LONGEST_COMMAND]}: {reported}", Code.COMMIT)
    return done.stdout


def top_of(folder: Path) -> Path:
    """The top folder of the repository around ``folder``."""
    return Path(ask(folder, "rev-parse", "--show-toplevel").decode("utf-8", "surrogateescape").removesuffix("\n"))


def commit_of(ref: str, folder: Path, option: str) -> str:
    """The commit that ``ref`` names in the repository around ``folder``; errors name the command-line ``option``."""
    top_of(folder)  # outside a repository, that is what is wrong
    try:
        return ask(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    except PeakgateError:
        raise PeakgateError(
            f"{option} {ref}: no commit of that name here; `git fetch origin main`, then name origin/main", Code.COMMIT
        ) from None


def export(commit: str, top: Path, to: Path, *paths: str) -> None:
    """The tree of ``commit``, or ``paths`` of it, as files in the new folder ``to``."""
    archive = to.with_suffix(".tar")
    ask(top, "archive", "--format=tar", f"--output={archive}", commit, "--", *paths)
    to.mkdir()
    done = subprocess.run(["tar", "-xf", str(archive), "-C", str(to)], capture_output=True, check=False)
    if done.returncode:
        reported = " ".join(done.stderr.decode(errors="replace").split())
        raise PeakgateError(f"{commit}: its tree cannot be copied to {to}: {reported}", Code.UNWRITABLE)
    archive.unlink()
