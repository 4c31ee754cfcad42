"""Bisects of small repositories, each commit with a verdict that the test gives in place of ``ab``."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ab_fake import commit, git

from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.processes import sigterm_interrupts
from peakgate.base.verdict import Verdict, exit_code
from peakgate.cli import guarded
from peakgate.compare.bisect import command

CASE = "family.kernel-1"


class Ab:
    """``ab`` of commits whose time is given; ``instead`` is raised, or the verdict, where such a commit is head."""

    def __init__(
        self, times: Mapping[str, float], instead: Mapping[str, Exception | Verdict | str] | None = None
    ) -> None:
        self.times, self.instead = times, dict(instead or {})
        self.compared: list[tuple[str, str]] = []

    def __call__(self, verb: str, arguments: Sequence[str]) -> int:
        base, head = arguments[:2]
        self.compared.append((base, head))
        instead = self.instead.get(head)
        if isinstance(instead, Exception):
            raise instead
        if instead == "SIGTERM":
            os.kill(os.getpid(), signal.SIGTERM)
        slower = Verdict.SLOWER if self.times[head] > self.times[base] else Verdict.SAME
        verdict = Verdict(instead) if instead else slower
        change = {"change_percent": 2.0, "low_percent": 1.5, "high_percent": 2.5}
        row = {"case": CASE, "verdict": verdict, "reason": "+2.00 % over 10 pairs", **change}
        folder = Path(next(each for each in arguments if each.startswith("--out=")).removeprefix("--out="))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ab.json").write_text(json.dumps({"rows": [row]}))
        return exit_code([verdict])


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A project in a repository, and its nine commits, oldest first."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "peakgate.toml").write_text("")
    return folder, [commit(folder, f"change {number}") for number in range(9)]


@pytest.fixture
def commits(repository: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commits of the repository, which is the working directory."""
    monkeypatch.chdir(repository[0])
    return repository[1]


def slow_from(commits: Sequence[str], first: int) -> dict[str, float]:
    return {each: float(place >= first) for place, each in enumerate(commits)}


def bisect(tmp_path: Path, ab: Ab, good: str, bad: str, *options: str) -> int:
    arguments = [good, bad, "--case", CASE, "--out", str(tmp_path / "out"), *options]
    return guarded("bisect", partial(command.main, "bisect", arguments, ab))


def answer(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "out" / "bisect" / "bisect.json").read_text())
    return found


@pytest.mark.parametrize("first", [1, 2, 5, 8])
def test_the_first_slow_commit_is_named(tmp_path: Path, commits: list[str], first: int) -> None:
    ab = Ab(slow_from(commits, first))
    assert bisect(tmp_path, ab, commits[0], commits[-1]) == 1
    assert answer(tmp_path)["suspects"] == [commits[first]]
    assert ab.compared[-1] == (commits[first - 1], commits[first])
    assert len(ab.compared) <= 2 + 3  # of the ends, to confirm, and between 9 commits


def test_a_commit_and_its_parent_need_no_search(tmp_path: Path, commits: list[str]) -> None:
    commits = commits[:2]
    ab = Ab(slow_from(commits, 1))
    assert bisect(tmp_path, ab, *commits) == 1
    assert ab.compared == [(commits[0], commits[1])] * 2


def test_of_a_merged_branch_the_merge_is_named(tmp_path: Path, commits: list[str]) -> None:
    commits = commits[:3]
    git(Path(), "checkout", "--quiet", "-b", "branch", commits[0])
    branch = [commit(Path(), f"of the branch {number}") for number in range(3)]
    git(Path(), "checkout", "--quiet", "--detach", commits[-1])
    git(Path(), "merge", "--quiet", "--no-ff", "-m", "merge", "branch")
    merge = git(Path(), "rev-parse", "HEAD")
    after = [commit(Path(), f"after {number}") for number in range(3)]
    ab = Ab(slow_from([*commits, merge, *after], 3))
    assert bisect(tmp_path, ab, commits[0], after[-1]) == 1
    assert answer(tmp_path)["suspects"] == [merge]
    assert not {head for _, head in ab.compared} & {*branch}


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.WRONG, Verdict.MISSING, Verdict.CRASHED])
def test_a_commit_that_cannot_be_judged_is_skipped(tmp_path: Path, commits: list[str], verdict: Verdict) -> None:
    ab = Ab(slow_from(commits, 6), {commits[4]: verdict})
    assert bisect(tmp_path, ab, commits[0], commits[-1]) == 1
    assert answer(tmp_path)["suspects"] == [commits[6]]
    assert answer(tmp_path)["steps"][commits[4]].startswith(verdict)


def test_skipped_commits_before_a_slow_one_leave_several(tmp_path: Path, commits: list[str]) -> None:
    times = slow_from(commits, 4)
    ab = Ab(times, dict.fromkeys(commits[3:5], Verdict.INCONCLUSIVE))
    assert bisect(tmp_path, ab, commits[0], commits[-1]) == 3
    assert answer(tmp_path)["suspects"] == commits[3:6]
    assert answer(tmp_path)["border"] is None
    again = Ab(times)
    assert bisect(tmp_path, again, commits[0], commits[-1], "--resume") == 1
    assert answer(tmp_path)["suspects"] == [commits[4]]
    assert {head for _, head in again.compared} <= {*commits[3:5]}


@pytest.mark.parametrize(("first", "head", "verdict"), [(4, 2, Verdict.SLOWER), (6, 6, Verdict.SAME)])
def test_one_wrong_verdict_accuses_no_commit(
    tmp_path: Path, commits: list[str], first: int, head: int, verdict: Verdict
) -> None:
    class OnceWrong(Ab):
        def __call__(self, verb: str, arguments: Sequence[str]) -> int:
            code = super().__call__(verb, arguments)
            self.instead.pop(arguments[1], None)
            return code

    ab = OnceWrong(slow_from(commits, first), {commits[head]: verdict})
    assert bisect(tmp_path, ab, commits[0], commits[-1]) == 3
    assert answer(tmp_path)["border"]["verdict"] == Verdict.SAME


def test_ends_that_do_not_differ_are_no_commits_fault(tmp_path: Path, commits: list[str]) -> None:
    commits = commits[:5]
    ab = Ab(slow_from(commits, 9))
    assert bisect(tmp_path, ab, commits[0], commits[-1]) == 0
    assert ab.compared == [(commits[0], commits[-1])]


def test_ends_that_are_undecided_are_not_searched(tmp_path: Path, commits: list[str]) -> None:
    commits = commits[:5]
    ab = Ab(slow_from(commits, 2), {commits[-1]: Verdict.INCONCLUSIVE})
    assert bisect(tmp_path, ab, commits[0], commits[-1]) == 3
    ab.instead = {}
    assert bisect(tmp_path, ab, commits[0], commits[-1], "--resume") == 2  # nothing is known yet
    assert bisect(tmp_path, ab, commits[0], commits[-1]) == 1


STOPS = [
    (PeakgateError("bad input", Code.OPTION), 2),
    (CannotDecide("the GPU is in use", Code.BUSY), 3),
    (RuntimeError("a defect"), 70),
    ("SIGTERM", 130),
]


@pytest.mark.parametrize(("what", "code"), STOPS, ids=["bad input", "busy", "defect", "interrupted"])
def test_what_says_nothing_of_a_commit_stops_the_bisect(
    tmp_path: Path, commits: list[str], what: Exception | str, code: int
) -> None:
    ab = Ab(slow_from(commits, 6), {commits[6]: what})
    with sigterm_interrupts():
        assert bisect(tmp_path, ab, commits[0], commits[-1]) == code
    assert not (tmp_path / "out" / "bisect" / "bisect.json").exists()
    again = Ab(ab.times)
    assert bisect(tmp_path, again, commits[0], commits[-1], "--resume") == 1
    assert answer(tmp_path)["suspects"] == [commits[6]]
    assert not {*again.compared} & {*ab.compared[:-1]}


def test_the_checkout_and_a_bisect_in_it_stay_as_they_are(tmp_path: Path, commits: list[str]) -> None:
    git(Path(), "bisect", "start", commits[-1], commits[0])

    def state() -> list[str]:
        asked = (["bisect", "log"], ["for-each-ref"], ["status"], ["rev-parse", "HEAD"], ["worktree", "list"])
        return [git(Path(), *each) for each in asked]

    before = state()
    assert bisect(tmp_path, Ab(slow_from(commits, 3)), commits[0], commits[-1]) == 1
    assert state() == before
    git(Path(), "bisect", "reset")


def test_a_state_of_another_question_is_not_resumed(tmp_path: Path, commits: list[str]) -> None:
    commits = commits[:5]
    ab = Ab(slow_from(commits, 3))
    assert bisect(tmp_path, ab, commits[0], commits[-1]) == 1
    with pytest.raises(PeakgateError) as error:
        command.main("bisect", [commits[0], commits[-1], "--out", str(tmp_path / "out"), "--resume"], ab)
    assert error.value.code is Code.CHANGED


def test_the_plan_counts_comparisons_and_makes_none(
    tmp_path: Path, commits: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ab = Ab({})
    assert bisect(tmp_path, ab, commits[0], commits[-1], "--plan") == 0
    assert "5 comparisons" in capsys.readouterr().out
    assert ab.compared == []
