"""What is posted on a pull request, of files that the change may have written; and who may ask for a gate there."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import workflow
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in_host import JUDGE, REPOSITORY, TOKEN, GitHub, answering, artifact, job, judged, needs_jq
from stand_in_host import comment as posted

from peakgate.base.errors import Code
from peakgate.base.report import Tone
from peakgate.review import believed
from peakgate.review import comment as render

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
    assert annotation["message"].startswith(f"{PAD}: 1.30x slower, ")


def test_a_case_without_an_explanation_is_annotated_where_it_is_defined() -> None:
    rows = [{"case": "roof.copy", "verdict": verdict, "reason": "x"} for verdict in ("BELOW_FLOOR", "INCONCLUSIVE")]
    bench = {"cases": [row | {"file": "kernels/roof/copy.cu", "line": 3} for row in rows]}
    protect = {"changes": {"failing": [{"kind": "floor lowered", "what": "roof.copy", "before": "1", "after": "0"}]}}
    found = render.placed({"bench": bench, "protect": protect | {"exit_code": 1}})
    assert [(each.rule, str(each.path), each.line, each.tone) for each in found] == [
        ("BELOW_FLOOR", "kernels/roof/copy.cu", 3, Tone.BAD),
        ("INCONCLUSIVE", "kernels/roof/copy.cu", 3, Tone.OPEN),
        ("protected change", ".", 1, Tone.BAD),
    ]
    levels = [each["annotation_level"] for each in annotated({"bench": bench, "protect": protect})]
    assert levels == ["failure", "warning"]


def annotated(files: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = render.check_run({"r": files}, COMMIT, URL)["output"]["annotations"]
    return found


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
def test_an_annotation_outside_the_sources_is_left_out(file: object, line: object) -> None:
    ab = AB | {"explained": {"cases": [EXPLAINED | {"file": file, "line": line}]}}
    assert annotated({"ab": ab}) == []
    assert annotated({"bench": {"cases": [{"case": PAD, "verdict": "SLOWER", "file": file, "line": line}]}}) == []


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
    found = from_artifact(artifact(files | others), "out", COMMIT)
    assert (found["protect"], found["ab"], sorted(found)) == (OK, AB, ["ab", "gate", "protect"])
    assert from_artifact(b"no zip", "out", COMMIT) == {}
    assert believed.from_artifact(Path("none", "fetched.zip"), "out", COMMIT) == {}


def from_artifact(content: bytes, inside: str, commit: str) -> dict[str, Any]:
    return believed.from_artifact(BytesIO(content), inside, commit)


@pytest.mark.parametrize("name", ["protect", "bench", "ab", "gate"])
def test_files_that_the_gate_did_not_leave_are_no_verdict(name: str) -> None:
    files = judged({"protect": OK, "bench": OK, "ab": AB}, "", COMMIT)
    assert from_artifact(artifact(files), "", COMMIT)
    assert from_artifact(artifact(files), "", "d" * 40) == {}
    two = judged({"protect": OK, "bench": OK}, "", COMMIT)
    assert from_artifact(artifact(two | {"ab.json": OK}), "", COMMIT) == {}
    assert from_artifact(artifact(files | {f"{name}.json": OK | {"counts": {"PASS": 4}}}), "", COMMIT) == {}
    del files[f"{name}.json"]
    assert from_artifact(artifact(files), "", COMMIT) == {}


def fetched(hub: GitHub, folder: Path) -> None:
    """What comment.yml fetches of the run, into a folder."""
    folder.mkdir(exist_ok=True)

    def write(name: str, path: str, *, pages: bool) -> Any:
        content = hub.answer("GET", f"repos/{REPOSITORY}/{path}", None)[1]
        (folder / f"{name}.json").write_text(json.dumps([content] if pages else content))
        return content

    write("run", "actions/runs/7", pages=False)
    for at, _ in enumerate(write("jobs", "actions/runs/7/jobs", pages=True)["jobs"]):
        write(f"check-{at}", f"check-runs/{at}/annotations", pages=False)
    for each in write("artifacts", "actions/runs/7/artifacts", pages=True)["artifacts"]:
        content = hub.answer("GET", f"repos/{REPOSITORY}/actions/artifacts/{each['id']}/zip", None)[1]
        (folder / f"{each['id']}.zip").write_bytes(content)


def written(hub: GitHub, folder: Path, runners: str = '["nvidia-h200"]') -> tuple[str, str]:
    """What the comment says of the run in its second line, and the conclusion of the check."""
    fetched(hub, folder)
    about = ["--commit", COMMIT, "--url", URL, "--judge", JUDGE, "--runners", runners]
    assert believed.main(["github", str(folder), *about]) == 0
    body, check, verdict = (json.loads((folder / f"{name}.json").read_text()) for name in ("body", "check", "verdict"))
    title = body["body"].splitlines()[1]
    assert title == f"## Peakgate: {verdict['verdict']}" == f"## Peakgate: {check['output']['title']}"
    return title.removeprefix("## Peakgate: "), check["conclusion"]


PASSING = artifact(judged({"protect": OK, "bench": OK, "ab": OK}, "", COMMIT))
NO_VERDICT = render.MEANINGS[2], "failure"
PASSED = "pass", "success"


@pytest.mark.parametrize(
    ("called", "found"), [((JUDGE,), PASSED), ((JUDGE.replace("main", "weak"),), NO_VERDICT), ((), NO_VERDICT)]
)
def test_a_run_that_called_no_judge_has_no_verdict(
    called: tuple[str, ...], found: tuple[str, str], tmp_path: Path
) -> None:
    assert written(GitHub(artifacts={"gate-nvidia-h200": PASSING}, called=called), tmp_path) == found


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
def test_a_pass_needs_every_job_of_the_judges_name_to_succeed(
    jobs: list[dict[str, Any]], passes: bool, tmp_path: Path
) -> None:
    assert written(GitHub(artifacts={H200: PASSING}, jobs=jobs), tmp_path) == (PASSED if passes else NO_VERDICT)


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
    runners: list[str], others: list[str], passes: bool, tmp_path: Path
) -> None:
    names = [H200, *(f"gate-{runner}" for runner in others)]
    hub = GitHub(artifacts=dict.fromkeys(names, PASSING))
    assert written(hub, tmp_path, json.dumps(runners)) == (PASSED if passes else NO_VERDICT)


@pytest.mark.parametrize("name", ["linux", "self-hosted", "gpu"])
def test_a_job_on_an_ordinary_runner_is_never_the_judges(name: str, tmp_path: Path) -> None:
    jobs = [
        job(f"gate-{name}", labels=[*{"self-hosted", name}]),
        {"name": "gate", "conclusion": "skipped", "labels": []},
    ]
    assert written(GitHub(artifacts={f"gate-{name}": PASSING}, jobs=jobs), tmp_path) == NO_VERDICT


REVIEW = {"exit_code": 0, "counts": {"failing": 0, "review": 7}}
UNDECIDED = OK | {"exit_code": 3}


@pytest.mark.parametrize(
    ("left", "forged"),
    [
        ({"protect": REVIEW, "bench": OK, "ab": OK}, {"protect": OK, "bench": OK, "ab": OK}),
        ({"protect": OK, "bench": OK, "ab": AB}, {"protect": OK, "bench": UNDECIDED, "ab": UNDECIDED}),
    ],
)
def test_an_artifact_that_another_job_replaced_is_no_verdict(
    left: dict[str, Any], forged: dict[str, Any], tmp_path: Path
) -> None:
    files, others = judged(left, "", COMMIT), judged(forged, "", COMMIT)
    digest, other = (hashlib.sha256(each["gate.json"]).hexdigest() for each in (files, others))
    code = render.overall({"": {name: json.loads(files[f"{name}.json"]) for name in render.FILES}})
    jobs = [job(H200, "failure" if code else "success")]
    said = {}
    for content in (files, others):
        for stated in ([digest], [other], [digest, other], [], [""]):
            hub = GitHub(artifacts={H200: artifact(content)}, jobs=jobs, stated={H200: stated})
            said[content["gate.json"], *stated] = written(hub, tmp_path)
    assert said.pop((files["gate.json"], digest))[0] == render.MEANINGS[code]
    said.pop((others["gate.json"], other))  # of a judge that left the other
    assert set(said.values()) == {NO_VERDICT}


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("passes", [True, False])
def test_of_a_run_that_was_run_again_the_latest_attempt_counts(
    passes: bool, newest_first: bool, tmp_path: Path
) -> None:
    good, bad = (artifact(judged({"protect": OK, "bench": OK, "ab": ab}, "", COMMIT)) for ab in (OK, AB))
    first, second = (bad, good) if passes else (good, bad)
    jobs = [job(H200, "success" if passes else "failure")]
    hub = GitHub(artifacts={H200: second}, earlier={H200: first}, newest_first=newest_first, jobs=jobs)
    assert written(hub, tmp_path)[0] == ("pass" if passes else "regression")


@pytest.mark.parametrize("text", ["", "nvidia-h200", "{}", "[1]", '[""]'])
def test_runners_that_are_no_list_of_labels_are_bad_input(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched(GitHub(artifacts={H200: PASSING}), tmp_path)
    about = ["--commit", COMMIT, "--url", URL, "--judge", JUDGE, "--runners", text]
    assert believed.main(["github", str(tmp_path), *about]) == 2
    assert not (tmp_path / "body.json").exists()
    assert f"[{Code.UPSTREAM}]" in capsys.readouterr().err


@pytest.mark.parametrize("about", [{"--commit": "c" * 39}, {"--url": "javascript:x"}, {"--url": "https://a.b/)x"}])
def test_a_commit_or_an_address_that_is_none_is_posted_nowhere(about: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text("[]")
    options = {"--commit": COMMIT, "--url": URL} | about
    assert believed.main(["gitlab", str(tmp_path), *(word for each in options.items() for word in each)]) == 2
    assert not (tmp_path / "body.json").exists()


@pytest.mark.parametrize("file", ["ab", "gate"])
def test_a_file_of_an_artifact_that_is_too_large_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, file: str, tmp_path: Path
) -> None:
    left = judged({"protect": OK, "bench": OK, "ab": OK | {"more": "0" * 20_000} if file == "ab" else OK}, "", COMMIT)
    files = artifact(left | ({"gate.json": left["gate.json"] + b" " * 20_000} if file == "gate" else {}))
    assert written(GitHub(artifacts={H200: files}), tmp_path) == PASSED
    monkeypatch.setattr(believed, "LONGEST_FILE", 10_000)
    assert written(GitHub(artifacts={H200: files}), tmp_path) == NO_VERDICT


@pytest.mark.parametrize("code", [1, 2, 3])
def test_no_end_but_a_pass_is_a_check_that_can_be_merged(code: int, tmp_path: Path) -> None:
    worse = OK | {"exit_code": code}
    files = artifact(judged({"protect": OK, "bench": worse, "ab": OK}, "", COMMIT))
    for ended in ("success", "failure"):
        hub = GitHub(artifacts={H200: files}, jobs=[job(H200, ended)])
        assert written(hub, tmp_path) == (render.MEANINGS[code], "failure")


def posting(hub: GitHub, scratch: Path, **about: str) -> workflow.Step:
    """The last step of comment.yml, after a gate of pull request 12 that ended, or what `about` says of the event."""
    event = {f"github.event.workflow_run.{name}": value for name, value in (GATE_ENDED | about).items()}
    if about.get("event") == "pull_request_target":
        event = {"github.event_name": "pull_request_target", "github.event.number": about.get("number", "12")}
    with answering(hub) as settings:
        return workflow.last_step("comment.yml", scratch / "job", JOB | event, **settings)


JOB = {
    "github.token": TOKEN,
    "github.repository": REPOSITORY,
    "github.event.repository.default_branch": "main",
}
GATE_ENDED = {
    "event": "pull_request",
    "pull_requests[0].number": "12",
    "display_title": "gate of #13 at " + "d" * 40,
    "head_sha": COMMIT,
    "id": "7",
    "html_url": URL,
}
DISPATCHED = {"event": "workflow_dispatch", "head_sha": "b" * 40}


@needs_jq
@pytest.mark.parametrize("event", ["pull_request", "workflow_dispatch"])
def test_an_older_commits_gate_leaves_the_newest_comment(event: str, tmp_path: Path) -> None:
    found = {commit: judged({"protect": OK, "bench": OK, "ab": AB}, "", commit) for commit in (COMMIT, "d" * 40)}
    found[COMMIT] = judged({"protect": OK, "bench": OK, "ab": OK}, "", COMMIT)
    hub = GitHub(head="d" * 40)
    for commit, ended in (("d" * 40, "failure"), (COMMIT, "success")):
        hub.artifacts, hub.jobs = {H200: artifact(found[commit])}, [job(H200, ended)]
        (tmp_path / commit).mkdir()
        about = {"event": event, "display_title": f"gate of #12 at {commit}"}
        step = posting(hub, tmp_path / commit, **about, head_sha=commit if event == "pull_request" else "b" * 40)
        assert step.exit_code == 0, step.output
    (kept,) = hub.comments
    assert "## Peakgate: regression" in kept["body"]
    assert [(check["head_sha"], check["conclusion"]) for check in hub.checks] == [
        ("d" * 40, "failure"),
        (COMMIT, "success"),
    ]


@needs_jq
@pytest.mark.parametrize("why", [{"expired": True}, {"size": (20 << 20) + 1}])
def test_an_artifact_that_is_gone_or_too_large_is_not_fetched(why: dict[str, Any], tmp_path: Path) -> None:
    hub = GitHub(artifacts={H200: PASSING}, **why)
    assert posting(hub, tmp_path).exit_code == 0
    assert ": bad input" in hub.comments[0]["body"]
    assert not any(each.endswith("/zip") for each in hub.asked)


@needs_jq
def test_jobs_and_annotations_of_hundreds_are_read(tmp_path: Path) -> None:
    hub = GitHub(artifacts={H200: PASSING}, jobs=[*([job("gate-x", name="other")] * 250), job(H200)])
    assert posting(hub, tmp_path).exit_code == 0
    assert hub.checks[0]["conclusion"] == "success"
    assert len([each for each in hub.asked if "/annotations" in each]) == 1


@needs_jq
@pytest.mark.parametrize(
    ("about", "commented"),
    [
        (GATE_ENDED, ["12"]),
        (GATE_ENDED | {"pull_requests[0].number": ""}, []),
        (GATE_ENDED | {"pull_requests[0].number": "12/../13"}, []),
        (DISPATCHED | {"display_title": f"gate of #13 at {COMMIT}"}, ["13"]),
        (DISPATCHED | {"display_title": "gate"}, []),
        (DISPATCHED | {"display_title": f"gate of #13 at {COMMIT} "}, []),
        (DISPATCHED | {"display_title": f"gate of #0 at {COMMIT}"}, []),
    ],
)
def test_the_pull_request_is_the_events(about: dict[str, str], commented: list[str], tmp_path: Path) -> None:
    hub = GitHub(artifacts={H200: PASSING})
    assert posting(hub, tmp_path, **about).exit_code == 0
    assert [each["issue"] for each in hub.comments] == commented
    assert bool(hub.asked) == bool(commented)


@needs_jq
@pytest.mark.parametrize("author", ["ada", "another-app[bot]", "github-actions"])
def test_anybody_elses_comment_with_the_marker_is_left_alone(author: str, tmp_path: Path) -> None:
    hub = GitHub(comments=[posted(0, render.COMMENT_MARKER, author)])
    assert posting(hub, tmp_path).exit_code == 0
    theirs, ours = (each["body"] for each in hub.comments)
    assert theirs == render.COMMENT_MARKER
    assert ours.startswith(render.COMMENT_MARKER)
    assert len(hub.checks) == 1


@needs_jq
@pytest.mark.parametrize("others", [0, 250])
def test_our_comment_is_found_among_hundreds(others: int, tmp_path: Path) -> None:
    comments = [posted(number, "thanks", "ada") for number in range(others)]
    hub = GitHub(comments=[*comments, posted(others, render.COMMENT_MARKER)])
    assert posting(hub, tmp_path).exit_code == 0
    assert len(hub.comments) == others + 1
    assert COMMIT in hub.comments[-1]["body"]


@needs_jq
def test_another_comment_of_the_same_author_is_left_alone(tmp_path: Path) -> None:
    hub = GitHub(comments=[posted(0, "of another workflow")])
    assert posting(hub, tmp_path).exit_code == 0
    assert [each["body"].splitlines()[0] for each in hub.comments] == ["of another workflow", render.COMMENT_MARKER]


@needs_jq
def test_what_two_runs_posted_at_once_says_the_same_from_then_on(tmp_path: Path) -> None:
    older = render.render(FOUND, "d" * 40, URL)
    hub = GitHub(comments=[posted(0, older), posted(1, "thanks"), posted(2, older)])
    assert posting(hub, tmp_path).exit_code == 0
    first, between, second = (each["body"] for each in hub.comments)
    assert first == second != older
    assert between == "thanks"


PASS = render.render({"nvidia-h200": {"gate": OK, "protect": OK, "bench": OK, "ab": OK}}, COMMIT, URL)


@needs_jq
def test_a_push_takes_an_older_verdict_out_of_the_comment(tmp_path: Path) -> None:
    assert "## Peakgate: pass" in PASS
    hub = GitHub(head="d" * 40, comments=[posted(0, PASS), posted(1, PASS, "ada")])
    assert posting(hub, tmp_path, event="pull_request_target").exit_code == 0
    ours, theirs = (each["body"] for each in hub.comments)
    assert theirs == PASS
    assert ours.startswith(render.COMMENT_MARKER)
    assert "pass" not in ours
    assert "d" * 40 in ours
    assert hub.checks == []


@needs_jq
def test_an_older_commits_gate_leaves_no_verdict_it_finds(tmp_path: Path) -> None:
    hub = GitHub(head="d" * 40, comments=[posted(0, PASS)])
    assert posting(hub, tmp_path).exit_code == 0
    assert ": no verdict" in hub.comments[0]["body"]


@needs_jq
@pytest.mark.parametrize("comments", [[], [posted(0, PASS)]])
def test_a_push_neither_changes_the_newest_comment_nor_adds_one(comments: list[dict[str, Any]], tmp_path: Path) -> None:
    hub = GitHub(comments=[dict(each) for each in comments])
    assert posting(hub, tmp_path, event="pull_request_target").exit_code == 0
    assert hub.comments == comments


@needs_jq
@pytest.mark.parametrize("number", ["", "0", "12/../13", "x"])
def test_a_push_to_no_pull_request_asks_for_nothing(number: str, tmp_path: Path) -> None:
    hub = GitHub(head="d" * 40, comments=[posted(0, PASS)])
    assert posting(hub, tmp_path, event="pull_request_target", number=number).exit_code == 0
    assert hub.comments[0]["body"] == PASS
    assert hub.asked == []


@needs_jq
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_a_host_that_refuses_fails_the_job(method: str, tmp_path: Path) -> None:
    older = [posted(0, render.COMMENT_MARKER)]
    step = posting(GitHub(refuses=method, comments=older if method == "PATCH" else []), tmp_path)
    assert step.exit_code == 1
    assert "HTTP 403" in step.output


@needs_jq
def test_a_webhook_is_an_https_address(tmp_path: Path) -> None:
    hub = GitHub(artifacts={H200: PASSING})
    event = {f"github.event.workflow_run.{name}": value for name, value in GATE_ENDED.items()}
    with answering(hub) as settings:
        context = JOB | event | {"secrets.PEAKGATE_WEBHOOK": "http://127.0.0.1:9/"}
        step = workflow.last_step("comment.yml", tmp_path / "job", context, **settings)
    assert (step.exit_code, "Protocol" in step.output) == (1, True)
    assert len(hub.comments) == 1


def test_what_posts_imports_the_standard_library_alone() -> None:
    program = "import sys; sys.path.insert(0, 'src'); import peakgate.review.believed"
    subprocess.run([sys.executable, "-S", "-I", "-c", program], cwd=workflow.ROOT, check=True)


def test_the_workflows_and_the_text_have_one_marker() -> None:
    _, job = workflow.read("comment.yml")
    assert job["steps"][-1]["env"]["MARKER"] == render.COMMENT_MARKER


def asking(hub: GitHub, scratch: Path, author: str = "ada", body: str = f"/peakgate {COMMIT}") -> workflow.Step:
    """The last step of asked.yml after a comment on pull request 12."""
    event = {"issue.number": "12", "comment.user.login": author, "comment.body": body}
    with answering(hub) as settings:
        context = JOB | {f"github.event.{name}": value for name, value in event.items()}
        return workflow.last_step("asked.yml", scratch / "job", context, **settings)


@needs_jq
@pytest.mark.parametrize("author", ["ada", "a-da", "ada_acme", "A" * 39])
def test_who_may_write_starts_the_gate_of_exactly_that_commit(author: str, tmp_path: Path) -> None:
    commits = [f"{number:040x}" for number in range(200)] + [COMMIT]
    hub = GitHub(permissions={author: "write"}, commits=commits)
    assert asking(hub, tmp_path, author).exit_code == 0
    assert hub.started == [{"ref": "main", "inputs": {"head": COMMIT, "pull_request": "12"}}]


@needs_jq
@pytest.mark.parametrize(
    ("permission", "commits"),
    [("read", [COMMIT]), ("", [COMMIT]), ("writer", [COMMIT]), ("admin", ["d" * 40]), ("admin", [f"{COMMIT}0"])],
)
def test_no_other_person_and_no_other_commit_starts_anything(
    permission: str, commits: list[str], tmp_path: Path
) -> None:
    hub = GitHub(permissions={"ada": permission}, commits=commits)
    step = asking(hub, tmp_path)
    assert (step.exit_code, hub.started) == (1, [])
    assert step.output.startswith("::error::")


@pytest.mark.parametrize("author", ["", "../ada", "ada/permission?", "app[bot]", "A" * 40, "ada\n"])
def test_a_name_that_nobody_has_at_github_is_asked_about_nowhere(author: str, tmp_path: Path) -> None:
    hub = GitHub(permissions={author: "write"}, commits=[COMMIT])
    assert asking(hub, tmp_path, author).exit_code == 2
    assert hub.asked == []


@needs_jq
@pytest.mark.parametrize(
    ("body", "starts"),
    [
        (f"/peakgate {COMMIT}\r\n", True),
        ("/peakgate main", False),
        (f"/peakgate {COMMIT[:12]}", False),
        (f"/peakgate {COMMIT}; rm -rf /", False),
        (f"please /peakgate {COMMIT}", False),
        (f"/peakgate {COMMIT}\n{COMMIT}", False),
    ],
)
def test_only_the_command_with_a_whole_hash_asks_for_a_run(body: str, starts: bool, tmp_path: Path) -> None:
    hub = GitHub(permissions={"ada": "write"}, commits=[COMMIT])
    assert asking(hub, tmp_path, body=body).exit_code == (0 if starts else 2)
    assert [each["inputs"]["head"] for each in hub.started] == [COMMIT] * starts
