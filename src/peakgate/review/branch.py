"""Finds the commit that judges a change: the newest one of the protected branch that the change contains.

Only the first-parent history of the protected branch counts. Commits of a merged branch do not: one of them may weaken
something that a later one restores, so that it was never merged as such.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from peakgate.base import git
from peakgate.base.errors import Code, PeakgateError


@dataclass(frozen=True, slots=True)
class Refs:
    """The commits of a gate: ``head`` branches off the protected branch at ``base``; ``tip`` is its newest commit."""

    base: str
    head: str
    tip: str


def refs(repository: Path, base: str, head: str, branch: str | None) -> Refs:
    """Find the commits; PeakgateError if ``base`` is not on the protected branch, or ``head`` is."""
    if branch:
        with suppress(PeakgateError):  # a remote's branch by its full name: a pushed tag could have the short one
            git.ask(repository, "show-ref", "--verify", f"refs/remotes/{branch}")
            branch = f"refs/remotes/{branch}"
    else:
        branch = _default_branch(repository)
    tip = git.commit_of(branch, repository, "--branch")
    given, judged = git.commit_of(base, repository, "BASE"), git.commit_of(head, repository, "HEAD")
    of_branch = git.ask(repository, "rev-list", "--first-parent", tip).decode().split()
    if given not in of_branch:
        raise PeakgateError(
            f"BASE {base}: {given[:12]} was never the newest commit of the protected branch {branch}; "
            "name one that was",
            Code.PROTECTED,
        )
    merged = False
    with suppress(PeakgateError):
        merged = not git.ask(repository, "rev-list", "--max-count=1", judged, f"^{tip}")
    if merged:
        raise PeakgateError(
            f"HEAD {head}: {judged[:12]} is on {branch} already; name a commit that changes it", Code.NOT_ALIKE
        )
    of_change = set(git.ask(repository, "rev-list", judged).decode().split())
    common = next((commit for commit in of_branch if commit in of_change), None)
    if common is None:
        raise PeakgateError(
            f"HEAD {head}: contains no commit that was the newest of {branch}; fetch the whole history, or rebase",
            Code.PROTECTED,
        )
    return Refs(common, judged, tip)


def _default_branch(repository: Path) -> str:
    """The default branch of the remote origin, according to the clone or else to the remote."""
    try:
        return git.ask(repository, "symbolic-ref", "refs/remotes/origin/HEAD").decode().strip()
    except PeakgateError:
        pass
    if "origin" not in git.ask(repository, "remote").decode().split():
        raise PeakgateError(
            "the repository has no remote origin, whose default branch is the protected one; give a branch of the "
            "repository itself, such as --branch main",
            Code.COMMIT,
        )
    try:
        answer = git.ask(repository, "ls-remote", "origin", "HEAD").decode().split()
        return answer[0]  # its commit, since a local branch could have the same name
    except (PeakgateError, IndexError):
        raise PeakgateError(
            "the protected branch is unknown: the remote origin does not name its default branch, or does not answer; "
            "give it, such as --branch origin/main",
            Code.COMMIT,
        ) from None
