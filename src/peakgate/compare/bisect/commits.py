"""Bisects commits by ``git bisect run`` in a temporary worktree, which has refs/bisect of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import scratch_folder
from peakgate.base.git import ask, commit_of, environment
from peakgate.base.processes import end_group
from peakgate.compare.ab.folders import git, worktree
from peakgate.compare.bisect.search import Judge

ASK = 'echo "judge $(git rev-parse BISECT_HEAD)"; read -r code && exit "$code"; exit 255'
"""The script of ``git bisect run``: it asks this process for its exit code; without an answer (255) the bisect ends."""


def listed(good: str, bad: str) -> list[str]:
    """The commits from GOOD to BAD inclusive, oldest first, along first parents.

    Raises PeakgateError if GOOD is not an ancestor of BAD.
    """
    first, last = commit_of(good, Path(), "GOOD"), commit_of(bad, Path(), "BAD")
    if first == last:
        raise PeakgateError(f"{good} and {bad} are the same commit; name an older one as GOOD", Code.NOT_ALIKE)
    if git("merge-base", first, last) != first:
        raise PeakgateError(
            f"{good} is not an ancestor of {bad}; name one that is, see `git merge-base {good} {bad}`", Code.NOT_ALIKE
        )
    return [first, *git("rev-list", "--reverse", "--first-parent", f"{first}..{last}").splitlines()]


def bisected(points: Sequence[str], log: str, keep: Callable[[str], object], judge: Judge) -> Sequence[str]:
    """Implements ``narrowed`` of ``search`` for commits; calls ``keep`` with git's log before each step.

    ``log`` continues an earlier bisect, whose skipped commits are judged again; empty starts a new one.
    """
    with scratch_folder("bisect") as scratch, worktree(points[-1], scratch / "commits", Path()) as tree:
        if log:
            kept = [line for line in log.splitlines() if not line.startswith("git bisect skip")]
            (scratch / "log").write_text("\n".join([*kept, ""]), encoding="utf-8")
            ask(tree, "bisect", "replay", str(scratch / "log"))
        else:
            ask(tree, "bisect", "start", "--no-checkout", "--first-parent", points[-1], points[0])
        if len(_suspects(tree)) > 1:
            _run(tree, keep, judge)
        return _suspects(tree)


def _suspects(tree: Path) -> list[str]:
    """The commits that remain: ancestors of the bad commit that are not ancestors of a good one."""
    return _asked(
        tree, "rev-list", "--reverse", "--first-parent", "refs/bisect/bad", "--not", "--glob=refs/bisect/good-*"
    ).split()


def _run(tree: Path, keep: Callable[[str], object], judge: Judge) -> None:
    """Judge each commit that git chooses; PeakgateError if git fails."""
    said = ""
    with subprocess.Popen(
        ["git", "bisect", "run", "sh", "-c", ASK],
        cwd=tree,
        env=os.environ | environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C goes to the comparison only
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said = line.decode(errors="replace").strip() or said
                if said.startswith("judge "):
                    keep(_asked(tree, "bisect", "log"))
                    process.stdin.write(b"%d\n" % judge(said.removeprefix("judge ")))
                    process.stdin.flush()
            code = process.wait()
        finally:
            end_group(process)
    keep(_asked(tree, "bisect", "log"))
    if code not in (0, 2):  # 0: found; 2: only skipped commits are left
        raise PeakgateError(f"git bisect run: {said} (exit {code}); go on with --resume", Code.COMMIT)


def _asked(tree: Path, *arguments: str) -> str:
    return ask(tree, *arguments).decode(errors="replace")
