"""Calls of git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.processes import end_group

UNVERSIONED = "unversioned"
"""The commit id of a tree outside git."""

LONGEST_COMMAND = 120
"""Characters of a command in an error message."""

GIT_LIMIT_S = 600.0
"""Time limit of a git command: submodules, large files and partial clones need a server, which may never answer."""

CONFIGURATION = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.sparseCheckout": "false",
    "safe.bareRepository": "explicit",
}
"""Configuration of every git call: no hooks of a tree run, no files are left out, and no folder of a tree's files is
used as a repository."""
_ALWAYS = (
    "--no-replace-objects",
    *(word for name, value in CONFIGURATION.items() for word in ("-c", f"{name}={value}")),
)


def environment() -> dict[str, str]:
    """Environment variables with this configuration, for git calls of other programs."""
    found = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_CONFIG_COUNT": str(len(CONFIGURATION))}
    for number, (name, value) in enumerate(CONFIGURATION.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def ask(folder: Path, *arguments: str, **variables: str) -> bytes:
    """Run git in ``folder`` and return its output; raises PeakgateError with git's message.

    ``variables`` are added to its environment. It never prompts for a password, and is killed after GIT_LIMIT_S.
    """
    command, environ = ["git", *_ALWAYS, *arguments], os.environ | {"GIT_TERMINAL_PROMPT": "0"} | variables
    asked = f"git {' '.join(arguments)[:LONGEST_COMMAND]}"
    printed: bytes
    try:
        with subprocess.Popen(command, cwd=folder, env=environ, start_new_session=True, **_PIPED) as process:
            try:
                printed, errors = process.communicate(timeout=GIT_LIMIT_S)
            finally:
                end_group(process)
    except FileNotFoundError:
        if not folder.is_dir():
            raise PeakgateError(
                f"{folder}: no such folder; expected one of a git repository", Code.UNREADABLE
            ) from None
        raise PeakgateError(
            "git is not installed: another commit cannot be read without it", Code.INSTALLATION
        ) from None
    except subprocess.TimeoutExpired:
        raise PeakgateError(
            f"{asked}: did not end within {GIT_LIMIT_S:.0f} s; see whether the servers of the repository, its "
            "submodules and large files answer",
            Code.UPSTREAM,
        ) from None
    if process.returncode:
        reported = " ".join(errors.decode(errors="replace").split()) or f"exit code {process.returncode}"
        raise PeakgateError(f"{asked}: {reported}", Code.COMMIT)
    return printed


_PIPED: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def top_of(folder: Path) -> Path:
    """The top folder of the repository around ``folder``."""
    return Path(os.fsdecode(ask(folder, "rev-parse", "--show-toplevel")).removesuffix("\n"))


def tree_of(project: Path) -> Path:
    """The folder that a project may use, with links resolved: its repository, or without one the project itself."""
    try:
        return top_of(project).resolve()
    except PeakgateError:
        return project.resolve()


def commit_info(folder: Path) -> dict[str, Any]:
    """``commit_info`` of a run file for the tree in ``folder``: commit, whether tracked files differ, project name.

    UNVERSIONED for a folder without tracked files (even inside a repository), in a repository without commits, and if
    git fails, with its message as ``error``.
    """
    found = {"id": UNVERSIONED, "time": None, "author_time": None, "dirty": False, "branch": "(unknown)"}
    found["project"] = folder.resolve().name
    try:
        if not ask(folder, "ls-files", "-z", "--", "."):
            return found
        commit, time, author_time = _line(folder, "show", "--no-patch", "--format=%H %cI %aI", "HEAD").split()
        branch = _line(folder, "rev-parse", "--abbrev-ref", "HEAD")
        dirty = bool(ask(folder, "status", "--porcelain", "--untracked-files=no"))
    except PeakgateError as error:
        return found | {"error": error.message}
    about = {"id": commit, "time": time, "author_time": author_time, "dirty": dirty}
    return found | about | {"branch": "(detached head)" if branch == "HEAD" else branch}


def _line(folder: Path, *arguments: str) -> str:
    return ask(folder, *arguments).decode(errors="replace").strip()


def commit_of(ref: str, folder: Path, option: str) -> str:
    """The commit that ``ref`` names in the repository around ``folder``; errors name the command-line ``option``."""
    top_of(folder)  # raises the right error outside a repository
    try:
        return ask(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    except PeakgateError:
        raise PeakgateError(
            f"{option} {ref}: no commit of that name here; `git fetch origin main`, then name origin/main", Code.COMMIT
        ) from None


def export(commit: str, top: Path, to: Path, *paths: str) -> None:
    """Export the tree of ``commit``, or ``paths`` of it, to the new folder ``to``.

    By a checkout: ``git archive`` would leave out files by the tree's own attributes.
    """
    to.mkdir()
    if not ask(top, "ls-tree", commit):
        return
    git_dir = os.fsdecode(ask(top, "rev-parse", "--absolute-git-dir")).removesuffix("\n")
    index = to.with_suffix(".index")
    checkout = ("checkout", "--quiet", "--no-recurse-submodules", commit, "--", *(paths or ["."]))
    ask(to, f"--git-dir={git_dir}", f"--work-tree={to}", *checkout, GIT_INDEX_FILE=str(index))
    index.unlink()
