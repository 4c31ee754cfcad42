"""What is posted on a pull request: .github/comment.py and asked.py, with files that the change may have written."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from github import JUDGE, REPOSITORY, TOKEN, GitHub, artifact, job, judged, serving
from github import comment as posted
from hypothesis import given, settings
from hypothesis import strategies as st

from peakgate.review import comment as render

sys.path.insert(0, str(Path(__file__).parents[2] / ".github"))
comment = importlib.import_module("comment")
asked = importlib.import_module("asked")

COMMIT, URL = "c" * 40, "https://github.com/us/kernels/actions/runs/7"
PAD = "transpose.smem_pad-8192-32x8"
EXPLAINED = {
    "case": PAD,
    "file": "kernels/transpose/smem_pad.cu",
    "line": 12,
    "findings": [{"cause": "bank conflicts", "sentence": "More bank conflicts in shared memory: 0 to 900000."}],
}
AB = {
    "exit_code": 1,
    "counts": {"SLOWER": 1, "SAME": 2},
    "rows": [
        {"case": PAD, "verdict": "SLOWER", "reason": "1.30x slower, p < 1e-06"},
        {"case": "roof.copy", "verdict": "SAME", "reason": "unchanged"},
    ],
    "explained": {"cases": [EXPLAINED]},
}
OK = {"exit_code": 0, "counts": {"PASS": 3}}
FOUND: dict[str, dict[str, Any]] = {
    "nvidia-h200": {"gate": OK | {"exit_code": 1}, "protect": OK, "bench": OK, "ab": AB}
}


def test_a_slower_kernel_stands_in_the_comment_with_its_reason() -> None:
    text = render.render(FOUND, COMMIT, URL)
    assert text.startswith(render.COMMENT_MARKER)
    assert "## Peakgate: regression" in text
    assert "1 SLOWER, 2" in text
    assert "p &lt; 1e-06" in text
    assert "conflicts in shared" in text
    assert "roof.copy" not in text


def test_the_check_annotates_the_line_that_got_slower() -> None:
    found = render.check_run(FOUND, COMMIT, URL)
    assert (found["conclusion"], found["head_sha"]) == ("failure", COMMIT)
    (annotation,) = found["output"]["annotations"]
    assert (annotation["path"], annotation["start_line"]) == ("kernels/transpose/smem_pad.cu", 12)
    assert annotation["message"].startswith("1.30x slower, ")


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [({}, 2), ({"a": {"protect": OK, "bench": OK, "ab": OK}}, 2), ({"a": {"gate": OK, "protect": OK, "bench": OK}}, 0)],
)
def test_a_verdict_that_is_missing_is_never_a_pass(verdicts: dict[str, Any], code: int) -> None:
    assert render.overall(verdicts) == code
    assert (render.check_run(verdicts, COMMIT, URL)["conclusion"] == "success") == (code == 0)


HOSTILE = "<img src=x onerror=alert(1)> @everyone #1 [x](https://evil.example) `` | --> ![y](z) \x1b[31m\u202e &amp;"


@given(st.lists(st.dictionaries(st.sampled_from(render.FILES), st.sampled_from([0, 1, 2, 3])), min_size=1, max_size=4))
def test_the_worst_of_all_files_of_all_runners_counts(codes: list[dict[str, int]]) -> None:
    complete = [{"gate": 0, **each} for each in codes]
    found = {str(at): {name: {"exit_code": code} for name, code in each.items()} for at, each in enumerate(complete)}
    every = {code for each in complete for code in each.values()}
    assert render.overall(found) == next(code for code in (1, 2, 3, 0) if code in every)
    assert (render.check_run(found, COMMIT, URL)["conclusion"] == "success") == (every == {0})
    assert render.overall({**found, "another": {}}) in (1, 2)


@pytest.mark.parametrize("code", [None, True, False, "0", 0.0, [], 4, -1, 70])
def test_what_is_no_exit_code_is_bad_input(code: object) -> None:
    assert render.overall({"runner": {"gate": {"exit_code": code}}}) == 2
    assert render.overall({"runner": {"gate": {"exit_code": 0}, "ab": {"exit_code": code}}}) == 2


def test_hostile_text_is_shown_as_it_is() -> None:
    rows = [{"case": HOSTILE, "verdict": "SLOWER", "reason": f"{HOSTILE}\n\n# a heading\n{render.COMMENT_MARKER}"}]
    text = render.render({HOSTILE: {"ab": AB | {"rows": rows, "counts": {HOSTILE: 3}}}}, COMMIT, URL)
    assert text.count(render.COMMENT_MARKER) == 1
    body = text.removeprefix(render.COMMENT_MARKER)
    assert not re.search(r"<[^>]", body)
    assert not re.search(r"@\w|#\d|\x1b|\u202e|evil://|https://evil", body)
    assert not re.search(r"(?<!\\)`|(?<!\\)!\\?\[", body)
    (row,) = [line for line in text.splitlines() if "SLOWER" in line and line.startswith("|")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 4


ELSEWHERE = ["../x.cu", "/etc/passwd", "a/../b.cu", "x.cu\n", "kernels/a.txt", 7, None, f"{'a' * 600}.cu"]
PLACES = [*((file, 1) for file in ELSEWHERE), ("a.cu", 0), ("a.cu", "1"), ("a.cu", True)]


@pytest.mark.parametrize(("file", "line"), PLACES)
def test_an_annotation_outside_the_repositorys_sources_is_left_out(file: object, line: object) -> None:
    ab = AB | {"explained": {"cases": [EXPLAINED | {"file": file, "line": line}]}}
    assert render.check_run({"r": {"ab": ab}}, COMMIT, URL)["output"]["annotations"] == []


KEYS = ["rows", "cases", "case", "verdict", "reason", "counts", "explained", "file", "line", "exit_code"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=10), st.dictionaries(st.sampled_from(render.FILES), anything), max_size=3))
def test_whatever_the_files_hold_there_is_a_comment_and_a_check(verdicts: dict[str, Any]) -> None:
    text = render.render(verdicts, COMMIT, URL)
    assert len(text) <= render.LONGEST_COMMENT
    assert render.check_run(verdicts, COMMIT, URL)["conclusion"] in {"success", "failure"}


def test_the_worst_verdicts_come_first_and_no_other_is_listed() -> None:
    listed = [("a", "INCONCLUSIVE"), ("b", "SLOWER"), ("c", "SAME"), ("d", "WRONG")]
    rows = [{"case": case, "verdict": verdict, "reason": ""} for case, verdict in listed]
    text = render.render({"a runner": {"ab": AB | {"rows": rows}}}, COMMIT, URL)
    cells = [line.split(" | ")[:2] for line in text.splitlines() if line.startswith("| ")]
    assert cells[2:] == [["| d", "WRONG"], ["| b", "SLOWER"], ["| a", "INCONCLUSIVE"]]


def test_a_comment_that_would_be_too_long_is_cut_between_rows() -> None:
    row = {"case": "&" * 250, "verdict": "SLOWER", "reason": "<" * 250}
    files = {"protect": OK, "bench": OK, "ab": AB | {"rows": [row] * 50}}
    text = render.render({f"runner {number}": files for number in range(8)}, COMMIT, URL)
    assert len(text) <= render.LONGEST_COMMENT
    assert text.endswith(render.BEGIN_CUT)
    assert text.removesuffix(render.BEGIN_CUT).endswith("|\n")


def test_an_artifact_gives_its_verdict_files_and_nothing_else() -> None:
    files = judged({"ab": AB, "protect": OK}, "out/", COMMIT)
    others = {"../../ab.json": OK, "x/protect.json": OK}
    found = render.from_artifact(artifact(files | others), "out", COMMIT)
    assert (found["protect"], found["ab"], sorted(found)) == (OK, AB, ["ab", "gate", "protect"])
    assert render.from_artifact(b"no zip", "out", COMMIT) == {}


@pytest.mark.parametrize("name", ["protect", "bench", "ab", "gate"])
def test_files_that_are_not_the_ones_the_gate_left_on_this_commit_are_no_verdict(name: str) -> None:
    files = judged({"protect": OK, "bench": OK, "ab": AB}, "", COMMIT)
    assert render.from_artifact(artifact(files), "", COMMIT)
    assert render.from_artifact(artifact(files), "", "d" * 40) == {}
    two = judged({"protect": OK, "bench": OK}, "", COMMIT)
    assert render.from_artifact(artifact(two | {"ab.json": OK}), "", COMMIT) == {}
    assert render.from_artifact(artifact(files | {f"{name}.json": OK | {"counts": {"PASS": 4}}}), "", COMMIT) == {}
    del files[f"{name}.json"]
    assert render.from_artifact(artifact(files), "", COMMIT) == {}


def test_a_run_that_called_no_judge_has_no_verdict() -> None:
    files = artifact(judged({"protect": OK, "bench": OK, "ab": OK}, "", COMMIT))
    for called, code in (((JUDGE,), "pass"), ((JUDGE.replace("main", "weak"),), "bad input"), ((), "bad input")):
        with serving(GitHub(artifacts={"gate-nvidia-h200": files}, called=called)) as github:
            assert comment.main(environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL)) == 0
        assert f"## Peakgate: {code}" in github.comments[0]["body"]


H200 = "gate-nvidia-h200"
FAKE: dict[str, Any] = {"labels": ["ubuntu-latest"]}


@pytest.mark.parametrize(
    ("jobs", "passes"),
    [
        ([job(H200)], True),
        ([job(H200, "failure")], False),
        ([job(H200, "cancelled")], False),
        ([job(H200, "skipped")], False),
        ([], False),
        ([job(H200, **FAKE)], False),
        ([job(H200, labels=["self-hosted", "nvidia-h200"])], False),
        ([job(H200, labels=["self-hosted", "gpu"])], False),
        ([job(H200, labels=["self-hosted", "gpu", "nvidia-h200", "spare"])], False),
        ([job(H200, "failure"), job(H200, **FAKE)], False),
        ([job(H200, "failure", "another"), job(H200)], False),
        ([job(H200, "failure", "a / b"), job(H200, **FAKE)], False),
        ([{"name": "judge (nvidia-h200)", "conclusion": "success", "labels": ["self-hosted", "nvidia-h200"]}], False),
        ([*([job("gate-x", **FAKE)] * 250), job(H200, "failure"), job(H200)], False),
        ([job("gate-x", name="other")] * 2000 + [job(H200, "failure")], False),
        ([job("gate-x", name="other")] * 250 + [job(H200)], True),
    ],
)
def test_a_pass_is_posted_only_where_every_job_of_the_judges_name_succeeded(
    jobs: list[dict[str, Any]], passes: bool
) -> None:
    files = artifact(judged({"protect": OK, "bench": OK, "ab": OK}, "", COMMIT))
    with serving(GitHub(artifacts={H200: files}, jobs=jobs)) as github:
        assert comment.main(environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL)) == 0
    assert ("## Peakgate: pass" in github.comments[0]["body"]) == passes
    assert [check["conclusion"] for check in github.checks] == ["success" if passes else "failure"]


@pytest.mark.parametrize(
    ("runners", "others", "passes"),
    [
        (["nvidia-h200"], [], True),
        (["nvidia-h200"], ["nvidia-b200"], True),
        (["nvidia-h200", "nvidia-b200"], ["nvidia-b200"], True),
        (["nvidia-h200", "nvidia-b200"], [], False),
        (["nvidia-b200"], [], False),
        ([], [], False),
    ],
)
def test_every_runner_of_the_settings_and_no_other_has_to_pass(
    runners: list[str], others: list[str], passes: bool
) -> None:
    files = artifact(judged({"protect": OK, "bench": OK, "ab": OK}, "", COMMIT))
    names = [H200, *(f"gate-{runner}" for runner in others)]
    with serving(GitHub(artifacts=dict.fromkeys(names, files))) as github:
        asked_for = {"EVENT": "pull_request", "COMMIT": COMMIT, "RUN": "7", "URL": URL}
        assert comment.main(environment(github, **asked_for, PEAKGATE_RUNNERS=json.dumps(runners))) == 0
    assert ("## Peakgate: pass" in github.comments[0]["body"]) == passes


@pytest.mark.parametrize("name", ["linux", "self-hosted", "gpu"])
def test_a_job_on_an_ordinary_runner_is_never_the_judges(name: str) -> None:
    files = artifact(judged({"protect": OK, "bench": OK, "ab": OK}, "", COMMIT))
    jobs = [
        job(f"gate-{name}", labels=[*{"self-hosted", name}]),
        {"name": "gate", "conclusion": "skipped", "labels": []},
    ]
    with serving(GitHub(artifacts={f"gate-{name}": files}, jobs=jobs)) as github:
        assert comment.main(environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL)) == 0
    assert "## Peakgate: bad input" in github.comments[0]["body"]
    assert github.checks[0]["conclusion"] == "failure"


REVIEW = {"exit_code": 0, "counts": {"failing": 0, "review": 7}}
UNDECIDED = OK | {"exit_code": 3}


@pytest.mark.parametrize(
    ("left", "forged"),
    [
        ({"protect": REVIEW, "bench": OK, "ab": OK}, {"protect": OK, "bench": OK, "ab": OK}),
        ({"protect": OK, "bench": OK, "ab": AB}, {"protect": OK, "bench": UNDECIDED, "ab": UNDECIDED}),
    ],
)
def test_an_artifact_that_another_job_replaced_is_no_verdict(left: dict[str, Any], forged: dict[str, Any]) -> None:
    files, others = judged(left, "", COMMIT), judged(forged, "", COMMIT)
    digest, other = (hashlib.sha256(each["gate.json"]).hexdigest() for each in (files, others))
    code = render.overall({"": {name: json.loads(files[f"{name}.json"]) for name in render.FILES}})
    jobs = [job(H200, "failure" if code else "success")]
    run = {"EVENT": "pull_request", "COMMIT": COMMIT, "RUN": "7", "URL": URL}
    said = {}
    for content in (files, others):
        for stated in ([digest], [other], [digest, other], [], [""]):
            hub = GitHub(artifacts={H200: artifact(content)}, jobs=jobs, stated={H200: stated})
            with serving(hub) as github:
                assert comment.main(environment(github, **run)) == 0
            said[content["gate.json"], *stated] = github.comments[0]["body"].splitlines()[1]
    assert said.pop((files["gate.json"], digest)) == f"## Peakgate: {render.MEANINGS[code]}"
    said.pop((others["gate.json"], other))  # of a judge that left the other
    assert set(said.values()) == {f"## Peakgate: {render.MEANINGS[2]}"}


def test_the_digest_that_is_read_is_the_one_that_the_judges_last_step_states() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / ".github" / "verdict.py"))
    assert script["DIGEST_OF"] + "gate.json" == comment.DIGEST_TITLE


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("passes", [True, False])
def test_of_a_run_that_was_run_again_the_latest_attempt_counts(passes: bool, newest_first: bool) -> None:
    good, bad = (artifact(judged({"protect": OK, "bench": OK, "ab": ab}, "", COMMIT)) for ab in (OK, AB))
    first, second = (bad, good) if passes else (good, bad)
    jobs = [job(H200, "success" if passes else "failure")]
    hub = GitHub(artifacts={H200: second}, earlier={H200: first}, newest_first=newest_first, jobs=jobs)
    with serving(hub) as github:
        assert comment.main(environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL)) == 0
    assert f"## Peakgate: {'pass' if passes else 'regression'}" in github.comments[0]["body"]


@pytest.mark.parametrize("event", ["pull_request", "workflow_dispatch"])
def test_a_gate_of_an_older_commit_leaves_the_comment_of_the_newest(event: str) -> None:
    found = {commit: judged({"protect": OK, "bench": OK, "ab": AB}, "", commit) for commit in (COMMIT, "d" * 40)}
    found[COMMIT] = judged({"protect": OK, "bench": OK, "ab": OK}, "", COMMIT)
    with serving(GitHub(head="d" * 40)) as github:
        for commit, ended in (("d" * 40, "failure"), (COMMIT, "success")):
            github.artifacts, github.jobs = {H200: artifact(found[commit])}, [job(H200, ended)]
            run = {"EVENT": event, "COMMIT": commit, "TITLE": f"gate of #12 at {commit}", "RUN": "7", "URL": URL}
            assert comment.main(environment(github, **run)) == 0
    (kept,) = github.comments
    assert "## Peakgate: regression" in kept["body"]
    assert [(check["head_sha"], check["conclusion"]) for check in github.checks] == [
        ("d" * 40, "failure"),
        (COMMIT, "success"),
    ]


@pytest.mark.parametrize("text", ["", "nvidia-h200", "{}", "[1]", '[""]'])
def test_runners_that_are_no_list_of_labels_are_bad_input(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(GitHub()) as github:
        run = environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL, PEAKGATE_RUNNERS=text)
        assert comment.main(run) == 2
    assert github.comments == github.checks == []
    assert "::error::" in capsys.readouterr().out


@pytest.mark.parametrize("why", ["expired", "too large an artifact", "too large a file", "too large a gate"])
def test_what_cannot_be_read_whole_is_no_verdict(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    long = OK | {"more": "0" * 20_000}
    left = judged({"protect": OK, "bench": OK, "ab": long if why != "too large a gate" else OK}, "", COMMIT)
    files = artifact(left | ({"gate.json": left["gate.json"] + b" " * 20_000} if why == "too large a gate" else {}))
    assert len(files) < 2_000
    if why in ("too large a file", "too large a gate"):
        monkeypatch.setattr(render, "LONGEST_FILE", 10_000)
    if why == "too large an artifact":
        monkeypatch.setattr(comment, "LONGEST_FILE", 100)
    with serving(GitHub(artifacts={H200: files}, expired=why == "expired")) as github:
        assert comment.main(environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL)) == 0
    assert "## Peakgate: bad input" in github.comments[0]["body"]


def test_only_as_much_of_an_answer_is_read_as_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "LARGEST_ANSWER_BYTES", 10)
    with (
        serving(GitHub(commits=[COMMIT])) as github,
        pytest.raises(render.RestError, match="larger than"),
    ):
        comment.interface(environment(github))("GET", "pulls/12/commits?per_page=100&page=1")


@pytest.mark.parametrize("code", [1, 2, 3])
def test_no_end_but_a_pass_is_a_check_that_can_be_merged(code: int) -> None:
    worse = OK | {"exit_code": code}
    files = artifact(judged({"protect": OK, "bench": worse, "ab": OK}, "", COMMIT))
    for ended in ("success", "failure"):
        with serving(GitHub(artifacts={H200: files}, jobs=[job(H200, ended)])) as github:
            assert comment.main(environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL)) == 0
        assert f"## Peakgate: {render.MEANINGS[code]}" in github.comments[0]["body"]
        assert github.checks[0]["conclusion"] == "failure"


ASKED = "gate of #13 at " + "d" * 40


@pytest.mark.parametrize(
    ("event", "number", "title", "branch", "found"),
    [
        ("pull_request", "12", ASKED, "topic", ("12", COMMIT)),
        ("workflow_dispatch", "", ASKED, "main", ("13", "d" * 40)),
        ("workflow_dispatch", "", ASKED, "topic", None),
        ("workflow_dispatch", "", ASKED, "", None),
        ("workflow_dispatch", "", "gate", "main", None),
        ("pull_request", "", ASKED, "main", None),
        ("pull_request", "12/../13", "", "topic", None),
        ("merge_group", "12", "", "main", None),
    ],
)
def test_the_pull_request_is_the_events(event: str, number: str, title: str, branch: str, found: object) -> None:
    run = {"EVENT": event, "NUMBER": number, "TITLE": title, "COMMIT": COMMIT, "BRANCH": branch}
    assert comment.pull_request(run | {"DEFAULT_BRANCH": "main"}) == found
    if event == "workflow_dispatch":
        assert comment.pull_request(run | {"DEFAULT_BRANCH": ""}) is None
        assert comment.pull_request(run) is None


def test_a_dispatch_on_a_branch_of_ones_own_posts_nothing() -> None:
    with serving(GitHub(jobs=[job(H200, "skipped")], comments=[posted(0, render.COMMENT_MARKER)])) as github:
        run = {"EVENT": "workflow_dispatch", "TITLE": f"gate of #12 at {COMMIT}", "BRANCH": "topic"}
        assert comment.main(environment(github, **run, COMMIT="b" * 40, RUN="7", URL=URL)) == 0
    assert github.checks == []
    assert [each["body"] for each in github.comments] == [render.COMMENT_MARKER]


@pytest.mark.parametrize(
    ("body", "commit"),
    [
        (f"/peakgate {COMMIT}", COMMIT),
        (f"/peakgate {COMMIT}\r\n", COMMIT),
        ("/peakgate main", None),
        (f"/peakgate {COMMIT[:12]}", None),
        (f"/peakgate {COMMIT}; rm -rf /", None),
        (f"please /peakgate {COMMIT}", None),
        (f"/peakgate {COMMIT}\n{COMMIT}", None),
    ],
)
def test_only_the_command_with_a_whole_hash_asks_for_a_run(body: str, commit: str | None) -> None:
    assert asked.asked(body) == commit


def environment(github: GitHub, **more: str) -> dict[str, str]:
    common = {"GITHUB_TOKEN": TOKEN, "JUDGE": JUDGE, "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_API_URL": github.address}
    common |= {"PEAKGATE_RUNNERS": '["nvidia-h200"]', "DEFAULT_BRANCH": "main"}
    return common | {"NUMBER": "12", "BRANCH": "main", "AUTHOR": "ada", "BODY": f"/peakgate {COMMIT}"} | more


@pytest.mark.parametrize("author", ["ada", "a-da", "ada_acme", "A" * 39])
def test_who_may_write_starts_the_gate_of_exactly_that_commit(author: str) -> None:
    with serving(GitHub(permissions={author: "write"}, commits=[COMMIT])) as github:
        assert asked.main(environment(github, AUTHOR=author)) == 0
    inputs = {"head": COMMIT, "pull_request": "12"}
    assert github.started == [{"ref": "main", "inputs": inputs}]


@pytest.mark.parametrize(
    ("permission", "commits", "said"),
    [("read", [COMMIT], "asking for a run needs write"), ("admin", ["d" * 40], "is no commit of pull request 12")],
)
def test_no_other_person_and_no_other_commit_starts_anything(
    permission: str, commits: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(GitHub(permissions={"ada": permission}, commits=commits)) as github:
        assert asked.main(environment(github)) == 1
    assert github.started == []
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("author", ["", "../ada", "ada/permission?", "app[bot]", "A" * 40, "ada\n"])
def test_a_name_that_nobody_has_at_github_is_asked_about_nowhere(author: str) -> None:
    with serving(GitHub(permissions={author: "write"}, commits=[COMMIT])) as github:
        assert asked.main(environment(github, AUTHOR=author)) == 2
    assert github.started == []


@pytest.mark.parametrize("author", ["ada", "another-app[bot]", "github-actions"])
def test_the_comment_of_anybody_else_that_has_the_marker_is_left_alone(author: str) -> None:
    with serving(GitHub(comments=[posted(0, render.COMMENT_MARKER, author)])) as github:
        assert comment.main(environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL)) == 0
    theirs, ours = (each["body"] for each in github.comments)
    assert theirs == render.COMMENT_MARKER
    assert ours.startswith(render.COMMENT_MARKER)
    assert len(github.checks) == 1


@pytest.mark.parametrize("others", [99, 100, 250])
def test_our_comment_is_found_among_hundreds(others: int) -> None:
    comments = [posted(number, "thanks", "ada") for number in range(others)]
    with serving(GitHub(comments=[*comments, posted(others, render.COMMENT_MARKER)])) as github:
        assert comment.main(environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL)) == 0
    assert len(github.comments) == others + 1
    assert COMMIT in github.comments[-1]["body"]


def test_what_two_runs_posted_at_once_says_the_same_from_then_on() -> None:
    older = render.render(FOUND, "d" * 40, URL)
    with serving(GitHub(comments=[posted(0, older), posted(1, "thanks"), posted(2, older)])) as github:
        assert comment.main(environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL)) == 0
    first, between, second = (each["body"] for each in github.comments)
    assert first == second != older
    assert between == "thanks"


PASS = render.render({"nvidia-h200": {"gate": OK, "protect": OK, "bench": OK, "ab": OK}}, COMMIT, URL)


def test_a_push_takes_the_verdict_of_an_older_commit_out_of_the_comment() -> None:
    assert "## Peakgate: pass" in PASS
    with serving(GitHub(head="d" * 40, comments=[posted(0, PASS), posted(1, PASS, "ada")])) as github:
        assert comment.main(environment(github, EVENT="pull_request_target")) == 0
    ours, theirs = (each["body"] for each in github.comments)
    assert theirs == PASS
    assert ours.startswith(render.COMMENT_MARKER)
    assert "pass" not in ours
    assert "d" * 40 in ours
    assert github.checks == []


@pytest.mark.parametrize("event", ["pull_request_target", "pull_request"])
def test_a_gate_of_an_older_commit_leaves_no_verdict_that_it_finds(event: str) -> None:
    with serving(GitHub(head="d" * 40, comments=[posted(0, PASS)])) as github:
        assert comment.main(environment(github, EVENT=event, COMMIT=COMMIT, RUN="7", URL=URL)) == 0
    assert "## Peakgate: no verdict yet" in github.comments[0]["body"]


@pytest.mark.parametrize("comments", [[], [posted(0, PASS)]])
def test_a_push_changes_no_comment_of_the_newest_commit_and_writes_none(comments: list[dict[str, Any]]) -> None:
    with serving(GitHub(comments=[dict(each) for each in comments])) as github:
        assert comment.main(environment(github, EVENT="pull_request_target")) == 0
    assert github.comments == comments


@pytest.mark.parametrize("number", ["", "0", "12/../13", "x"])
def test_a_push_to_no_pull_request_asks_for_nothing(number: str) -> None:
    with serving(GitHub(head="d" * 40, comments=[posted(0, PASS)])) as github:
        assert comment.main(environment(github, EVENT="pull_request_target", NUMBER=number)) == 0
    assert github.comments[0]["body"] == PASS


def test_an_interface_that_refuses_is_one_line_and_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(GitHub()) as github:
        run = environment(github, EVENT="pull_request", COMMIT=COMMIT, RUN="7", URL=URL, GITHUB_TOKEN="another")
        assert comment.main(run) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("::error::")
    assert "HTTP error 403" in line
    assert github.refused


def test_a_webhook_is_an_https_address() -> None:
    with pytest.raises(render.RestError, match="begins with https://"):
        render.notify("http://example.org", {}, 0)
