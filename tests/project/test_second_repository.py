"""The workflows that `init --ci github` writes, in a repository that is not Peakgate's: run step by step there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import stand_in_host
import workflow
from ab_fake import git
from stand_in_host import REPOSITORY, GitHub, artifact, comment, judged

from peakgate.cli import main
from peakgate.review.comment import COMMENT_MARKER

COMMIT = "c" * 40
ADDRESS = "git+https://example.org/peakgate@" + "0123456789" * 4
JUDGE = f"{REPOSITORY}/.github/workflows/peakgate-judge.yml@refs/heads/main"
SLOW: dict[str, Any] = {
    "exit_code": 1,
    "rows": [{"case": "own.mine-256", "verdict": "SLOWER", "reason": "1.30x slower"}],
}
OK: dict[str, Any] = {"exit_code": 0}
KNOWN = {
    "github.token": stand_in_host.TOKEN,
    "github.event.repository.default_branch": "main",
    "github.repository": REPOSITORY,
}
pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
    stand_in_host.needs_jq,
]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A team's repository after `init --ci github`, committed."""
    (folder := tmp_path / "kernels").mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "remote", "add", "origin", f"git@github.com:{REPOSITORY}.git")
    monkeypatch.chdir(folder)
    assert main(["init", "--ci", "github", "--peakgate", ADDRESS]) == 0
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Gate changes")
    return folder


def path_of(repository: Path, name: str) -> str:
    return str(repository / ".github" / "workflows" / f"peakgate{name}.yml")


def run(repository: Path, name: str, scratch: Path, context: dict[str, Any], hub: GitHub) -> workflow.Job:
    """Run a workflow's job there, as GitHub would with this state."""
    known = KNOWN | {"github.sha": git(repository, "rev-parse", "HEAD")} | context
    with stand_in_host.answering(hub) as settings:
        return workflow.run(path_of(repository, name), repository, scratch, known, **settings)


def ended(**more: str) -> dict[str, Any]:
    """What GitHub says of a gate of pull request 12 that ended."""
    about = {
        "event": "pull_request",
        "pull_requests[0].number": "12",
        "head_sha": COMMIT,
        "id": "7",
        "html_url": "https://github.com/us/kernels/actions/runs/7",
    }
    return {f"github.event.workflow_run.{name}": value for name, value in (about | more).items()}


def left(ab: dict[str, Any]) -> dict[str, bytes]:
    """The judge's artifact of a gate whose comparison found this."""
    files = judged({"protect": OK, "bench": OK, "ab": ab}, "", COMMIT)
    return {"gate-gpu": artifact(files)}


def test_one_comment_follows_the_verdicts_of_a_pull_request(elsewhere: Path, tmp_path: Path) -> None:
    hub = GitHub(artifacts=left(SLOW), called=(JUDGE,))
    for turn, (ab, title) in enumerate(((SLOW, "regression"), (OK, "pass"))):
        hub.artifacts = left(ab)
        job = run(elsewhere, "-comment", tmp_path / str(turn), ended(), hub)
        assert not job.failed, job
        (posted,) = hub.comments
        assert (posted["issue"], f"## Peakgate: {title}" in posted["body"]) == ("12", True)
    assert [check["conclusion"] for check in hub.checks] == ["failure", "success"]


@pytest.mark.parametrize("forged", ["another workflow", "no digest", "another commit"])
def test_what_the_judge_did_not_leave_is_never_a_pass(elsewhere: Path, tmp_path: Path, forged: str) -> None:
    hub = GitHub(artifacts=left(OK), called=() if forged == "another workflow" else (JUDGE,))
    hub.stated = {} if forged == "no digest" else None
    other = {"head_sha": "d" * 40} if forged == "another commit" else {}
    hub.head = other.get("head_sha", COMMIT)
    assert not run(elsewhere, "-comment", tmp_path / "job", ended(**other), hub).failed
    assert "pass" not in hub.comments[0]["body"]
    assert [check["conclusion"] for check in hub.checks] == ["failure"]


def test_a_push_takes_an_older_verdict_out_of_the_comment(elsewhere: Path, tmp_path: Path) -> None:
    older = f"{COMMENT_MARKER}\n## Peakgate: pass\n\nCommit {COMMIT}, [run]()\n"
    hub = GitHub(head="d" * 40, comments=[comment(0, older), comment(1, older, author="mallory")])
    pushed = {"github.event_name": "pull_request_target", "github.event.number": "12"}
    assert not run(elsewhere, "-comment", tmp_path / "job", pushed, hub).failed
    assert ["pass" in each["body"] for each in hub.comments] == [False, True]


def asked(body: str, association: str = "COLLABORATOR") -> dict[str, Any]:
    """What GitHub says of a comment on pull request 12."""
    return KNOWN | {
        "github.event.issue.pull_request": True,
        "github.event.issue.number": "12",
        "github.event.comment.user.login": "ada",
        "github.event.comment.author_association": association,
        "github.event.comment.body": body,
    }


@pytest.mark.parametrize(
    ("body", "pulled", "started"),
    [
        ("/peakgate", (REPOSITORY, "write"), [COMMIT]),
        ("/peakgate\r\n", (REPOSITORY, "admin"), [COMMIT]),
        (f"/peakgate {'b' * 40}", (REPOSITORY, "write"), ["b" * 40]),
        (f"/peakgate {COMMIT}", ("mallory/kernels", "write"), [COMMIT]),
        ("/peakgate", ("mallory/kernels", "write"), []),
        (f"/peakgate {'d' * 40}", (REPOSITORY, "write"), []),
        ("/peakgate", (REPOSITORY, "read"), []),
        ("/peakgate please", (REPOSITORY, "write"), []),
        ("/peakgate\n$(gh api user)", (REPOSITORY, "write"), []),
    ],
)
def test_a_comment_of_who_may_write_starts_a_gate(
    elsewhere: Path, tmp_path: Path, body: str, pulled: tuple[str, str], started: list[str]
) -> None:
    comes_from, permission = pulled
    hub = GitHub(permissions={"ada": permission}, commits=["b" * 40, COMMIT], comes_from=comes_from)
    job = run(elsewhere, "-asked", tmp_path / "job", asked(body), hub)
    assert job.failed is not bool(started)
    assert hub.started == [{"ref": "main", "inputs": {"head": each, "pull_request": "12"}} for each in started]


@pytest.mark.parametrize("association", ["NONE", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN", ""])
def test_a_strangers_comment_starts_no_job(elsewhere: Path, association: str) -> None:
    _, job = workflow.read(path_of(elsewhere, "-asked"))
    assert not workflow.wanted(job["if"], asked("/peakgate", association))
    assert not workflow.wanted(job["if"], asked("thanks"))
    assert workflow.wanted(job["if"], asked("/peakgate"))


def test_a_gate_that_was_asked_for_is_posted_where_it_was_asked(elsewhere: Path, tmp_path: Path) -> None:
    document, _ = workflow.read(path_of(elsewhere, ""))
    title = workflow.filled(document["run-name"], {"inputs.pull_request": "13", "inputs.head": COMMIT})
    dispatched = {"event": "workflow_dispatch", "head_branch": "main", "head_sha": "a" * 40, "display_title": title}
    hub = GitHub(artifacts=left(SLOW), called=(JUDGE,))
    assert not run(elsewhere, "-comment", tmp_path / "job", ended(**dispatched), hub).failed
    assert [(each["issue"], COMMIT in each["body"]) for each in hub.comments] == [("13", True)]


def test_what_may_write_runs_nothing_of_a_change(elsewhere: Path) -> None:
    for name, refs in (("-comment", ["${{ github.event.repository.default_branch }}"]), ("-asked", [])):
        document, job = workflow.read(path_of(elsewhere, name))
        assert document["permissions"] == {}
        assert "concurrency" not in {**document, **job}  # a change's workflow could take its name
        assert [step["with"]["ref"] for step in job["steps"] if "uses" in step] == refs
        assert not any("${{" in step.get("run", "") for step in job["steps"])
    _, job = workflow.read(path_of(elsewhere, "-comment"))
    assert workflow.wanted(job["if"], ended())
    assert not workflow.wanted(job["if"], ended() | {"vars.PEAKGATE_GPU": "none"})


def test_its_scripts_are_those_of_this_repository(elsewhere: Path) -> None:
    for name, own in (("-comment", "comment.yml"), ("-asked", "asked.yml")):
        _, theirs = workflow.read(path_of(elsewhere, name))
        _, ours = workflow.read(own)
        assert theirs["steps"][-1]["run"] == ours["steps"][-1]["run"]
    assert workflow.read(path_of(elsewhere, ""))[0]["run-name"] == workflow.read("gate.yml")[0]["run-name"]


@pytest.mark.parametrize(
    "linter", [["zizmor", "--offline", "--quiet"], ["check-jsonschema", "--builtin-schema=vendor.github-workflows"]]
)
def test_linters_find_nothing_in_what_is_written(elsewhere: Path, linter: list[str]) -> None:
    if shutil.which(linter[0]) is None:
        pytest.skip(f"{linter[0]} is not installed")
    files = map(str, (elsewhere / ".github" / "workflows").glob("*.yml"))
    done = subprocess.run([*linter, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_comment_looks_for_the_runners_of_the_judge(elsewhere: Path) -> None:
    _, job = workflow.read(path_of(elsewhere, "-comment"))
    runners = json.loads(job["steps"][-1]["env"]["PEAKGATE_RUNNERS"])
    _, judge = workflow.read(path_of(elsewhere, "-judge"))
    assert runners == judge["strategy"]["matrix"]["runner"]
