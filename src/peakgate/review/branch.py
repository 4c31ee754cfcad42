"""Which commit judges a change: the newest of the protected branch's own that it has, whatever its caller says.

A merged branch's commits are no commits of the protected branch: what one of them weakened the next may have undone, so
that nobody merged it. The branch's own are what its newest commit leads to by first parents.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from peakgate.base import git
from peakgate.base.errors import Code, PeakgateError


@dataclass(frozen=True, slots=True)
class Refs:
    """The commits of a gate: ``base`` is where ``head`` leaves the protected branch, whose newest is ``tip``."""

    base: str
    head: str
    tip: str


def refs(repository: Path, base: str, head: str, branch: str | None) -> Refs:
    """The commits; PeakgateError for a base that is not on the protected branch, and a head that is."""
    branch = _remotes_own(repository, branch) if branch else _default_branch(repository)
    tip = git.commit_of(branch, repository, "--branch")
    given, judged = git.commit_of(base, repository, "BASE"), git.commit_of(head, repository, "HEAD")
    of_branch = git.ask(repository, "rev-list", "--first-parent", tip).decode().split()
    if given not in of_branch:
        raise PeakgateError(
            f"BASE {base}: {given[:12]} never was the newest commit of the protected branch {branch}; "
            "only one that was judges a change",
            Code.PROTECTED,
        )
    if _is_ancestor(repository, judged, tip):
        raise PeakgateError(
            f"HEAD {head}: {judged[:12]} is on {branch} already; name a commit that changes it", Code.NOT_ALIKE
        )
    of_change = set(git.ask(repository, "rev-list", judged).decode().split())
    common = next((commit for commit in of_branch if commit in of_change), None)
    if common is None:
        raise PeakgateError(
            f"HEAD {head}: has no commit that was the newest of {branch}; fetch the whole history, or rebase it on one",
            Code.PROTECTED,
        )
    return Refs(common, judged, tip)


def _remotes_own(repository: Path, branch: str) -> str:
    """The whole name of a remote's branch, ``origin/main`` say: who may push could give a tag that short name."""
    whole = f"refs/remotes/{branch}"
    try:
        git.ask(repository, "show-ref", "--verify", whole)
    except PeakgateError:
        return branch
    return whole


def _default_branch(repository: Path) -> str:
    """The default branch of the remote origin, as the clone or else the remote itself says."""
    try:
        return git.ask(repository, "symbolic-ref", "refs/remotes/origin/HEAD").decode().strip()
    except PeakgateError:
        pass
    try:
        answer = git.ask(repository, "ls-remote", "origin", "HEAD").decode().split()
        return answer[0]  # its commit, not a branch of that name here
    except (PeakgateError, IndexError):
        raise PeakgateError(
            "the protected branch is unknown, origin does not name it; give it, such as --branch origin/main",
            Code.COMMIT,
        ) from None


def _is_ancestor(repository: Path, older: str, newer: str) -> bool:
    try:
        return not git.ask(repository, "rev-list", "--max-count=1", older, f"^{newer}")
    except PeakgateError:
        return False
