"""The note on a GitLab merge request: the job of the file that `init --ci gitlab` writes, run as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from stand_in_host import PROJECT, TOKEN, GitLab, answering, artifact, install, judged, needs_jq, note
from test_comment import AB, COMMIT, HOSTILE, OK

from peakgate.review import comment as render

TEMPLATE = Path(__file__).parents[2] / "src" / "peakgate" / "templates" / "gitlab.yml"
JOBS = YAML(typ="safe").load(TEMPLATE.read_text().replace("@PEAKGATE@", "git+https://example.org/p"))
URL = "https://gitlab.example.com/us/kernels/-/pipelines/70"
FOLDER = ".peakgate/out/"
PASSING = artifact(judged({"protect": OK, "bench": OK, "ab": OK}, FOLDER, COMMIT))
pytestmark = [needs_jq, pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")]


def project(**more: Any) -> GitLab:
    """Merge request 12, in whose newest pipeline the gate found a slower kernel."""
    left = judged({"protect": OK, "bench": OK, "ab": AB}, FOLDER, COMMIT)
    jobs = {70: [gate(5, "success", name="peakgate-comment"), gate(6, "failed")]}
    defaults: dict[str, Any] = {"pipelines": {12: pipeline()}, "jobs": jobs, "artifacts": {6: artifact(left)}}
    return GitLab(**(defaults | more))


def pipeline(**more: Any) -> dict[str, Any]:
    return {"id": 70, "sha": COMMIT, "web_url": URL, "project_id": PROJECT} | more


def gate(number: int, status: str, name: str = "peakgate", size: int | None = 1000) -> dict[str, Any]:
    file = None if size is None else {"size": size}
    return {"id": number, "name": name, "status": status, "artifacts_file": file}


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """What the job calls: glab, and in place of packages and a virtual environment this interpreter."""
    folder = tmp_path / "tools"
    folder.mkdir()
    install("glab", folder)
    venv = f'mkdir -p venv/bin && ln -s /bin/true venv/bin/pip && ln -s "{folder}/run" venv/bin/python'
    scripts = {"apt-get": "true", "git": "true", "python3": venv, "run": f'exec "{sys.executable}" "$@"'}
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


def commented(gitlab: GitLab, tools: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """The job's script, run as a GitLab runner does."""
    job = JOBS["peakgate-comment"]
    predefined = {
        "CI_PROJECT_ID": str(PROJECT),
        "CI_PROJECT_PATH": "us/kernels",
        "CI_SERVER_URL": "https://gitlab.example.com",
        "CI_DEFAULT_BRANCH": "main",
        "CI_REPOSITORY_URL": "https://gitlab.example.com/us/kernels.git",
        "PEAKGATE_TOKEN": TOKEN,
    }
    given = predefined | more
    own = {name: re.sub(r"\$(\w+)", lambda found: given[found[1]], value) for name, value in job["variables"].items()}
    with answering(gitlab) as found:
        environment = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"} | given | own | found
        script = "\n".join(job["script"])
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script], env=environment, capture_output=True, text=True, check=False
        )


def test_one_note_is_written_and_left_alone_while_nothing_is_new(tools: Path) -> None:
    gitlab = project()
    assert commented(gitlab, tools).returncode == 0
    (written,) = gitlab.notes[12]
    assert commented(gitlab, tools).returncode == 0
    assert written["body"].startswith(render.COMMENT_MARKER)
    assert COMMIT in written["body"]
    assert "transpose.smem\\_pad-8192-32x8 | SLOWER" in written["body"]
    assert len(gitlab.notes[12]) == 1
    assert [each for each in gitlab.asked if not each.startswith("GET")] == [
        f"POST projects/{PROJECT}/merge_requests/12/notes"
    ]


def test_a_newer_gate_rewrites_the_note_among_hundreds(tools: Path) -> None:
    notes = [note(number, "a word", 1) for number in range(150)]
    gitlab = project(notes={12: [*notes, note(150, f"{render.COMMENT_MARKER}\nolder")]}, artifacts={6: PASSING})
    gitlab.jobs[70][1]["status"] = "success"
    assert commented(gitlab, tools).returncode == 0
    assert len(gitlab.notes[12]) == 151
    assert "## Peakgate: pass\n" in gitlab.notes[12][150]["body"]
    assert gitlab.asked[-1] == f"PUT projects/{PROJECT}/merge_requests/12/notes/150"


@pytest.mark.parametrize("status", ["running", "created", "skipped"])
def test_a_note_stays_until_the_newest_commits_gate_ends(status: str, tools: Path) -> None:
    gitlab = project(notes={12: [note(0, f"{render.COMMENT_MARKER}\nolder")]})
    gitlab.jobs[70].append(gate(9, status, name="peakgate: [nvidia-b200]"))
    assert commented(gitlab, tools).returncode == 0
    assert [each["body"] for each in gitlab.notes[12]] == [f"{render.COMMENT_MARKER}\nolder"]


@pytest.mark.parametrize("head", [None, pipeline(project_id=43)])
def test_a_merge_request_without_a_pipeline_of_ours_has_no_note(head: dict[str, Any] | None, tools: Path) -> None:
    gitlab = project(pipelines={12: head})
    assert commented(gitlab, tools).returncode == 0
    assert gitlab.notes == {}


def test_another_users_note_with_the_marker_is_left_alone(tools: Path) -> None:
    gitlab = project(notes={12: [note(0, f"{render.COMMENT_MARKER}\nall is well", author=1)]})
    assert commented(gitlab, tools).returncode == 0
    assert [each["body"].partition("\n")[2][:11] for each in gitlab.notes[12]] == ["all is well", "## Peakgate"]


def test_the_number_is_the_pipelines_or_every_open_one(tools: Path) -> None:
    gitlab = project(pipelines={12: pipeline(), 13: pipeline()})
    assert commented(gitlab, tools, CI_MERGE_REQUEST_IID="13").returncode == 0
    assert list(gitlab.notes) == [13]
    assert commented(gitlab, tools).returncode == 0
    assert list(gitlab.notes) == [13, 12]


def test_a_project_without_a_merge_request_writes_nothing(tools: Path) -> None:
    assert commented(project(pipelines={}), tools).returncode == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"status": "canceled", "artifacts_file": None}, "bad input"),
        ({"artifacts_file": {"size": (20 << 20) + 1}}, "bad input"),
        ({"id": 9}, "bad input"),  # whose artifact has expired: 404
        ({"name": "peakgate: [nvidia-h200]"}, "regression"),
        ({"name": "peakgate 1/2"}, "regression"),
    ],
)
def test_a_gate_without_an_artifact_is_never_a_pass(changed: dict[str, Any], said: str, tools: Path) -> None:
    gitlab = project()
    gitlab.jobs[70][1] |= changed
    assert commented(gitlab, tools).returncode == 0
    assert f"## Peakgate: {said}" in gitlab.notes[12][0]["body"]


@pytest.mark.parametrize("status", ["failed", "canceled"])
def test_a_passing_artifact_of_a_failed_job_is_no_pass(status: str, tools: Path) -> None:
    gitlab = project(artifacts={6: PASSING})
    gitlab.jobs[70][1]["status"] = status
    assert commented(gitlab, tools).returncode == 0
    assert ": bad input" in gitlab.notes[12][0]["body"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_a_host_that_refuses_fails_the_job(method: str, tools: Path) -> None:
    old = {12: [note(0, render.COMMENT_MARKER)]} if method == "PUT" else {}
    done = commented(project(refuses=method, notes=old), tools)
    assert done.returncode != 0
    assert "HTTP 403" in done.stderr
    assert TOKEN not in done.stderr + done.stdout


def test_one_merge_request_that_fails_leaves_the_others_theirs(tools: Path) -> None:
    gitlab = project(pipelines={11: pipeline(), 12: pipeline()}, locked={11})
    assert commented(gitlab, tools).returncode != 0
    assert list(gitlab.notes) == [12]


def test_a_webhook_is_an_https_address(tools: Path) -> None:
    gitlab = project()
    done = commented(gitlab, tools, PEAKGATE_WEBHOOK="http://127.0.0.1:9/")
    assert (done.returncode != 0, "Protocol" in done.stderr) == (True, True)
    assert len(gitlab.notes[12]) == 1


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


def test_the_job_that_measures_and_the_one_that_writes_are_two() -> None:
    measuring, writing = JOBS["peakgate"], JOBS["peakgate-comment"]
    assert "PEAKGATE_TOKEN" not in str(measuring)
    assert all("$PEAKGATE_TOKEN" in rule["if"] and "PROTECTED" in rule["if"] for rule in writing["rules"])
    assert "tags" not in writing
    assert writing["variables"]["JOB"] == "peakgate"
    assert f"{writing['variables']['FOLDER']}/" in measuring["artifacts"]["paths"]
    assert writing["variables"]["MARKER"] == render.COMMENT_MARKER
