"""The note on a GitLab merge request: `peakgate comment` against a server that plays GitLab's interface."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
from github import PROJECT, TOKEN, GitLab, artifact, judged, note, serving
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from test_comment import AB, COMMIT, HOSTILE, OK

from peakgate.cli import main
from peakgate.review import comment as render

URL = "https://gitlab.example.com/us/kernels/-/pipelines/70"
FOLDER = ".peakgate/out/"
FILES = judged({"protect": OK, "bench": OK, "ab": AB}, FOLDER, COMMIT)


def project(**more: Any) -> GitLab:
    """Merge request 12, whose newest gate has not ended and whose gate before found a slower kernel."""
    pipelines = [
        {"id": 72, "sha": "d" * 40, "web_url": URL, "project_id": 43},
        {"id": 71, "sha": "d" * 40, "web_url": URL, "project_id": PROJECT},
        {"id": 70, "sha": COMMIT, "web_url": URL, "project_id": PROJECT},
    ]
    jobs = {71: [gate(8, "running")], 70: [gate(5, "success", name="peakgate-comment"), gate(6, "failed")]}
    return GitLab(pipelines={12: pipelines}, jobs=jobs, artifacts={6: artifact(FILES)}, **more)


def gate(number: int, status: str, name: str = "peakgate", size: int = 1000) -> dict[str, Any]:
    return {"id": number, "name": name, "status": status, "artifacts_file": {"size": size}}


@pytest.fixture(autouse=True)
def _job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEAKGATE_TOKEN", TOKEN)
    monkeypatch.setenv("CI_COMMIT_REF_PROTECTED", "true")
    monkeypatch.setenv("CI_PROJECT_ID", str(PROJECT))
    monkeypatch.setenv("CI_PROJECT_PATH", "us/kernels")
    monkeypatch.delenv("CI_MERGE_REQUEST_IID", raising=False)


def commented(gitlab: GitLab, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setenv("CI_API_V4_URL", gitlab.address)
    return main(["comment", *arguments])


def test_one_note_is_written_and_left_alone_while_nothing_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(project()) as gitlab:
        assert commented(gitlab, monkeypatch) == 0
        (written,) = gitlab.notes[12]
        assert commented(gitlab, monkeypatch) == 0
    assert written["body"].startswith(render.COMMENT_MARKER)
    assert COMMIT in written["body"]
    assert "transpose.smem\\_pad-8192-32x8 | SLOWER" in written["body"]
    assert len(gitlab.notes[12]) == 1
    assert [each for each in gitlab.asked if not each.startswith("GET")] == [
        f"POST projects/{PROJECT}/merge_requests/12/notes"
    ]


def test_a_newer_gate_rewrites_the_note_among_hundreds(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(project(notes={12: [note(number, "a word", 1) for number in range(150)]})) as gitlab:
        assert commented(gitlab, monkeypatch) == 0
        gitlab.jobs[71] = [gate(8, "success")]
        gitlab.artifacts[8] = artifact(judged({"protect": OK, "bench": OK, "ab": OK}, FOLDER, "d" * 40))
        assert commented(gitlab, monkeypatch) == 0
    assert len(gitlab.notes[12]) == 151
    assert "## Peakgate: pass\n" in gitlab.notes[12][150]["body"]
    assert "d" * 40 in gitlab.notes[12][150]["body"]
    assert gitlab.asked[-1] == f"PUT projects/{PROJECT}/merge_requests/12/notes/150"


@pytest.mark.parametrize("status", ["running", "pending", "created", "manual", "skipped"])
def test_an_earlier_commit_says_nothing_of_the_newest_that_is_judged_again(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(project()) as gitlab:
        gitlab.jobs[70] = [gate(6, "success")]
        gitlab.artifacts[6] = artifact(judged({"protect": OK, "bench": OK, "ab": OK}, FOLDER, COMMIT))
        gitlab.jobs[71] = [gate(8, "failed")]
        gitlab.artifacts[8] = artifact(judged({"protect": OK, "bench": OK, "ab": AB}, FOLDER, "d" * 40))
        assert commented(gitlab, monkeypatch) == 0
        gitlab.jobs[71] = [gate(9, status)]
        assert commented(gitlab, monkeypatch) == 0
    (written,) = gitlab.notes[12]
    assert "## Peakgate: regression\n" in written["body"]


def test_the_note_of_another_user_that_has_the_marker_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    forged = note(0, f"{render.COMMENT_MARKER}\nall is well\n<!-- peakgate: jobs 6 -->", author=1)
    with serving(project(notes={12: [forged]})) as gitlab:
        assert commented(gitlab, monkeypatch) == 0
    assert [each["body"].partition("\n")[2][:11] for each in gitlab.notes[12]] == ["all is well", "## Peakgate"]


def test_the_number_is_the_pipelines_or_the_one_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(project()) as gitlab:
        gitlab.pipelines[13] = gitlab.pipelines[12]
        monkeypatch.setenv("CI_MERGE_REQUEST_IID", "13")
        assert commented(gitlab, monkeypatch) == 0
        assert list(gitlab.notes) == [13]
        assert commented(gitlab, monkeypatch, "--merge-request", "12") == 0
        assert list(gitlab.notes) == [13, 12]


@pytest.mark.parametrize("number", ["", "0", "12/../13", "12\n", "-1", "1" * 12])
def test_what_is_no_number_is_refused(
    number: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(project()) as gitlab:
        assert commented(gitlab, monkeypatch, f"--merge-request={number}") == 2
    assert "expected its number" in capsys.readouterr().err
    assert gitlab.asked == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"status": "canceled", "artifacts_file": None}, "bad input"),
        ({"artifacts_file": {"size": render.LONGEST_FILE + 1}}, "bad input"),
        ({"id": 9}, "bad input"),  # whose artifact has expired: 404
        ({"name": "peakgate: [nvidia-h200]"}, "regression"),
        ({"name": "peakgate 1/2"}, "regression"),
    ],
)
def test_a_gate_without_an_artifact_is_never_a_pass(
    changed: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(project()) as gitlab:
        gitlab.jobs[70][1] |= changed
        assert commented(gitlab, monkeypatch) == 0
    assert f"## Peakgate: {said}" in gitlab.notes[12][0]["body"]


def test_a_merge_request_whose_gate_has_not_ended_has_no_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(project()) as gitlab:
        gitlab.jobs[70] = [gate(6, "pending")]
        assert commented(gitlab, monkeypatch) == 0
    assert gitlab.notes == {}
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(("method", "status"), [("POST", 403), ("PUT", 403), ("GET", 401), ("GET", 500)])
def test_an_interface_that_refuses_is_one_line_and_bad_input(
    method: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {12: [note(0, render.COMMENT_MARKER)]} if method == "PUT" else {}
    with serving(project(statuses={method: status}, notes=old)) as gitlab:
        assert commented(gitlab, monkeypatch, "--merge-request=12") == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert f": {method} projects/{PROJECT}/merge_requests/12/" in line
    assert f"HTTP error {status}" in line
    assert TOKEN not in line


def test_one_merge_request_that_fails_leaves_the_others_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(project()) as gitlab:
        gitlab.pipelines = {11: [{"id": "x"}], **gitlab.pipelines}
        assert commented(gitlab, monkeypatch) == 2
    assert list(gitlab.notes) == [12]


def test_a_server_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(render, "ANSWER_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("CI_API_V4_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert main(["comment"]) == 2
    assert "timed out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CI_COMMIT_REF_PROTECTED", "false", "needs a pipeline of a protected branch"),
        ("PEAKGATE_TOKEN", "", "needs a pipeline of a protected branch"),
        ("CI_PROJECT_ID", None, "is for a GitLab job; CI_PROJECT_ID is not set"),
        ("PEAKGATE_TOKEN", "glpat\nInjected: header", "invalid characters"),
    ],
)
def test_a_token_that_a_change_could_read_is_not_used(
    name: str, value: str | None, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(project()) as gitlab:
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
        assert commented(gitlab, monkeypatch) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "glpat" not in error
    assert gitlab.asked == []


def test_the_token_is_not_sent_to_where_an_artifact_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(GitLab()) as storage, serving(project(elsewhere=f"{storage.address}/6.zip")) as gitlab:
        assert commented(gitlab, monkeypatch) == 2
    assert (storage.refused, storage.asked) == (1, [])  # it came, and without the token


REFERENCE = re.compile(r"[@#$~%^!](?=[\w\"{])|&amp;(?=\w)|:\w+:")
COMMANDS = "/close\n/assign @root $1 ~bug %2 &3 !4 #5 ^6 :tada: kernels!7 group/project#8"


@settings(max_examples=30, deadline=None)
@given(st.text() | st.sampled_from([COMMANDS, HOSTILE, "$x^2$", "- [ ] /merge"]))
def test_no_text_of_a_file_is_a_command_or_a_reference(text: str) -> None:
    rows = [{"case": text, "verdict": "SLOWER", "reason": f"{text}\n{text}"}]
    explained = {"cases": [{"case": text, "findings": [{"sentence": text}]}]}
    body = render.render({text: {"ab": AB | {"rows": rows, "explained": explained}}}, COMMIT, URL)
    shown = body.removeprefix(render.COMMENT_MARKER).replace("&lt;", " ").replace("&gt;", " ")
    lines = shown.replace("##", "").splitlines()
    assert not [line for line in lines if line.lstrip().startswith("/")]
    assert not [line for line in lines if REFERENCE.search(line)]


TEMPLATE = Path(__file__).parents[2] / "src" / "peakgate" / "templates" / "gitlab.yml"
EXAMPLE = Path(__file__).parents[2] / ".github" / "examples" / "gitlab-ci.yml"


@pytest.mark.parametrize(
    ("path", "measuring", "writing"), [(TEMPLATE, "peakgate", "peakgate-comment"), (EXAMPLE, "gate", "comment")]
)
def test_the_job_that_measures_and_the_one_that_writes_are_two(path: Path, measuring: str, writing: str) -> None:
    jobs = YAML(typ="safe").load(path.read_text().replace("@PEAKGATE@", "git+https://example.org/p"))
    assert "PEAKGATE_TOKEN" not in str(jobs[measuring])
    assert all("$PEAKGATE_TOKEN" in rule["if"] and "PROTECTED" in rule["if"] for rule in jobs[writing]["rules"])
    assert "tags" not in jobs[writing]
    (command,) = [line for line in jobs[writing]["script"] if "peakgate comment" in line]
    assert ("--job gate" in command) == (measuring == "gate")
