"""The workflows of .github/, each run here step by step on the emulator and on saved runs."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import stand_in_host
import workflow
from ab_fake import HARNESS, FakeSide, git
from ruamel.yaml import YAML
from synthetic_runs import LADDER, document, save, slower

from peakgate.cli import main
from peakgate.compare.ab import command, process
from peakgate.review.believed import JOB, LABELS
from peakgate.review.comment import COMMENT_MARKER

PAD = "transpose.smem_pad-8192-32x8"
CHANGED = dict.fromkeys(LADDER, "same") | {PAD: "changed"}
pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
    pytest.mark.skipif(not (workflow.ROOT / ".git").exists(), reason="not a git checkout"),
]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """This working tree as a repository, and its two commits."""
    return workflow.repository(tmp_path_factory.mktemp("origin"))


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Saved experiments of `ab`: one with a slower kernel, one without."""
    saved = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "PRELOAD", ())
        patch.setattr(command, "device_uuid", lambda _device: "GPU-0")
        patch.setattr(process, "HARNESS", HARNESS)
        patch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        for name, factor in (("slower", 1.3), ("same", 1.0)):
            folder = tmp_path_factory.mktemp(name)
            sides = {"base": FakeSide(), "head": FakeSide(CHANGED, slower(PAD, factor))}
            written = [str(fake.write(folder / side, side, folder / "log")) for side, fake in sides.items()]
            main(["ab", *written, "--out", str(folder / "out"), "--pairs", "4,4"])
            saved[name] = str(folder / "out")
    return saved


def change(origin: tuple[Path, str, str], **more: Any) -> dict[str, Any]:
    """What GitHub says of a pull request of this repository: the merge commit's first parent is its base."""
    _, _, head = origin
    return {
        "github.event_name": "pull_request",
        "github.repository": "us/kernels",
        "github.event.pull_request.head.repo.full_name": "us/kernels",
        "github.sha": head,
        **more,
    }


def said(job: workflow.Job) -> str:
    """All that the steps said, for a failed assertion."""
    return "\n".join(f"== {step.name}: {step.exit_code}\n{step.output[-1500:]}" for step in job.steps)


def calls(scratch: Path) -> list[str]:
    return (scratch / "calls").read_text().splitlines()


def run(
    name: str, origin: tuple[Path, str, str], scratch: Path, context: dict[str, Any], **settings: str
) -> workflow.Job:
    return workflow.run(name, origin[0], scratch / "job", context, STAND_IN_LOG=str(scratch / "calls"), **settings)


def judge(origin: tuple[Path, str, str], scratch: Path, head: str, experiment: str, **settings: str) -> workflow.Job:
    """The gate of a change, as judge.yml runs it."""
    about = {"github.event_name": "pull_request", "github.event.pull_request.head.sha": head, "inputs.head": "innocent"}
    about |= {"github.sha": "the merge with the base branch"}
    about |= {"github.event.repository.default_branch": "main", "github.repository": "us/kernels"}
    about |= {"github.event.pull_request.head.repo.full_name": "us/kernels"}
    return run("judge.yml", origin, scratch, about, STAND_IN_AB=experiment, **settings)


def test_a_slower_kernel_fails_the_gate_and_is_in_the_summary(
    origin: tuple[Path, str, str], tmp_path: Path, experiments: dict[str, str]
) -> None:
    folder, _, base = origin
    head = changing(folder, {"kernels/note": "other"})
    job = judge(origin, tmp_path, head, experiments["slower"])
    change, temporary = job.workspace / "change", tmp_path / "job" / "temp"
    (call,) = calls(tmp_path)
    assert call == (
        f"-f judge/tool/noxfile.py -s gate -- refs/remotes/origin/main {head} "
        f"--repository {change} --branch refs/remotes/origin/main "
        f"--out {temporary}/judge/out --device gpu:0 --strict-gate --explain"
    )
    assert job["Verdict"].exit_code == 1, said(job)
    assert job.failed
    assert f"judged by {base[:12]}" in job["Judge"].output
    assert "\nab: regression\n" in job["Judge"].output
    assert "::error title=Peakgate: regression::gate: " in job["Verdict"].output
    digest = hashlib.sha256((temporary / "judge" / "out" / "gate.json").read_bytes()).hexdigest()
    assert f"::notice title=Peakgate%3A SHA-256 of gate.json::{digest}\n" in job["Judge"].output
    assert f",title=Peakgate%3A SLOWER::{PAD}: " in job["Judge"].output
    assert PAD in job.summary
    assert {
        "gate.json",
        "protect.json",
        "gate.sarif",
        *(f"ab.{form}" for form in ("md", "csv", "json", "junit.xml")),
    } <= job.artifacts
    assert [path.name for path in job.workspace.iterdir()] == ["change"]
    assert git(change, "status", "--porcelain", "--ignored") == ""


def test_a_gate_whose_run_never_began_ends_with_2(origin: tuple[Path, str, str], tmp_path: Path) -> None:
    names = [f"{folder}/gate.json" for folder in ("judge/out", "out", ".judge/out")]
    head = changing(origin[0], dict.fromkeys(names, '{"exit_code": 0}'))
    job = judge(origin, tmp_path, head, "nowhere", STAND_IN_K="no_such_case")
    assert job["Verdict"].exit_code == 2, said(job)


H200 = "baselines/nvidia-h200"


TAMPERED = {
    f"{H200}/floors.toml": 'schema = 1\ngpu = "nvidia-h200"\n',
    f"{H200}/runs/20261120T173100-gate.json.gz": "{}",
    ".github/verdict.py": "",
    "noxfile.py": "",
    "src/peakgate/base/verdict.py": "raise SystemExit(0)\n",
}
"""Floors deleted, a run edited, and the judge itself emptied."""


HARMFUL = {
    **dict.fromkeys(("venv.py", "venv/__main__.py", "nox.py", "pip.py", "sitecustomize.py"), "raise SystemExit(70)"),
    "uv.toml": 'offline = true\ncache-dir = "packages"\n',
    "pip.conf": "[global]\nno-index = true\n",
    ".venv/lib/python3.11/site-packages/zz.pth": "import sys; sys.exit(70)\n",
    "judge/venv/bin/nox": "#!/bin/false\n",
}
"""What would run, or be read, one folder from the judge."""


def test_a_change_that_tampers_with_its_judge_is_judged(
    origin: tuple[Path, str, str], tmp_path: Path, experiments: dict[str, str]
) -> None:
    head = changing(origin[0], TAMPERED | HARMFUL)
    job = judge(origin, tmp_path, head, experiments["same"])
    assert job["Verdict"].exit_code == 1, said(job)
    listed = job["Judge"].output
    assert "protect: regression" in listed
    assert "floor dropped: " in listed
    assert "run edited: 20261120T173100-gate.json.gz" in listed
    assert all(
        f"for review: {path}" in listed for path in (".github/verdict.py", "noxfile.py", "src/peakgate/base/verdict.py")
    )


def test_what_sets_up_the_judge_reads_nothing_of_the_change() -> None:
    _, job = workflow.read("judge.yml")
    for step in job["steps"]:
        if "run" in step:
            assert step["working-directory"] == "${{ runner.temp }}"
    assert {"UV_NO_CONFIG": "1", "PIP_CONFIG_FILE": "/dev/null"}.items() <= job["env"].items()
    assert workflow.read("judge.yml")[0]["on"] == {"workflow_call": None}


def changing(folder: Path, files: dict[str, str]) -> str:
    """A commit on top of the origin's newest that writes these files, which no branch keeps."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "--all", "--force", *files)
    git(folder, "commit", "--quiet", "--message", "dodge")
    commit = git(folder, "rev-parse", "HEAD")
    git(folder, "reset", "--quiet", "--hard", "HEAD^")
    return commit


def test_the_changes_workflow_only_calls_the_bases_judge() -> None:
    document, job = workflow.read("gate.yml")
    assert "steps" not in job
    assert job["uses"].endswith("/.github/workflows/judge.yml@main")
    assert "with" not in job
    assert document["permissions"] == {"contents": "read"}


OURS, THEIRS = "us/kernels", "them/kernels"
PULL_REQUEST = {"pull_request.head.sha": "c" * 40, "pull_request.head.repo.full_name": OURS}
MERGE_GROUP = {"merge_group.head_sha": "d" * 40}
DISPATCH = {"inputs.head": "e" * 40, "inputs.pull_request": "12"}
EVENTS: list[tuple[str, str, dict[str, str], str | None]] = [
    ("pull_request", "refs/pull/12/merge", PULL_REQUEST, "c" * 40),
    ("pull_request", "refs/pull/12/merge", PULL_REQUEST | {"pull_request.head.repo.full_name": THEIRS}, None),
    ("pull_request", "refs/pull/12/merge", PULL_REQUEST | {"pull_request.head.repo.full_name": ""}, None),
    ("merge_group", "refs/heads/gh-readonly-queue/main/pr-12", MERGE_GROUP, "d" * 40),
    ("workflow_dispatch", "refs/heads/main", DISPATCH, "e" * 40),
    ("workflow_dispatch", "refs/heads/change", DISPATCH, None),
    ("workflow_dispatch", "refs/tags/main", DISPATCH, None),
    *(
        (event, "refs/heads/main", PULL_REQUEST | {"pull_request.head.repo.full_name": repository}, None)
        for event in ("pull_request_review", "pull_request_review_comment", "pull_request_target")
        for repository in (OURS, THEIRS)
    ),
    *(
        (event, "refs/heads/main", {}, None)
        for event in ("push", "schedule", "issue_comment", "workflow_run", "repository_dispatch", "release", "create")
    ),
]
"""By event the branch or tag of the run, what GitHub says of it, and the commit that is judged; None: no job runs."""


@pytest.mark.parametrize("file", ["judge.yml", "github-judge.yml"])
@pytest.mark.parametrize(("event", "ref", "about", "judged"), EVENTS)
def test_the_event_names_the_commit_and_others_reach_no_gpu(
    file: str, event: str, ref: str, about: dict[str, str], judged: str | None
) -> None:
    templates = workflow.ROOT / "src" / "peakgate" / "templates"
    document, job = workflow.read(file if file == "judge.yml" else str(templates / file))
    context = {"github.event_name": event, "github.ref": ref, "github.repository": OURS, "github.sha": "f" * 40}
    context |= {"github.event.repository.default_branch": "main", "inputs.head": "innocent"}
    context |= {f"github.event.{name}": value for name, value in about.items()}
    assert workflow.wanted(job["if"], context) == (judged is not None)
    assert document["on"] == {"workflow_call": None}
    if judged is not None:
        assert workflow.filled(job["env"]["HEAD"], context) == judged
        assert job["steps"][0]["with"]["ref"] == "${{ env.HEAD }}"


@pytest.mark.parametrize("file", ["judge.yml", "github-judge.yml"])
def test_a_judge_drops_no_waiting_change_and_is_not_skipped(file: str) -> None:
    templates = workflow.ROOT / "src" / "peakgate" / "templates"
    _, job = workflow.read(file if file == "judge.yml" else str(templates / file))
    assert job["concurrency"]["queue"] == "max"
    assert "cancel-in-progress" not in job["concurrency"]
    assert job["name"] == "judge (${{ matrix.runner }})"
    assert "${{ matrix.runner }}" in job["runs-on"]


def test_no_script_of_a_checkout_ends_the_judge_of_init() -> None:
    templates = workflow.ROOT / "src" / "peakgate" / "templates"
    _, job = workflow.read(str(templates / "github-judge.yml"))
    *before, judging, upload = job["steps"]
    assert "-I -m peakgate gate " in judging["run"]
    assert not any("continue-on-error" in step for step in job["steps"])
    assert "run" not in upload
    for step in (*before, judging):
        assert not any(ending in step.get("run", "") for ending in (".py", ".sh", "nox", "judge/tool"))


def test_what_is_posted_is_of_the_judges_runners_and_labels() -> None:
    _, judge_job = workflow.read("judge.yml")
    _, commenting = workflow.read("comment.yml")
    post = commenting["steps"][-1]["env"]
    runners = judge_job["strategy"]["matrix"]["runner"]
    asked = workflow.TEMPLATE.sub(lambda template: template[1].strip(), runners)
    assert asked == f"fromJSON({workflow.TEMPLATE.sub(lambda template: template[1].strip(), post['PEAKGATE_RUNNERS'])})"
    assert {*judge_job["runs-on"]} == LABELS | {"${{ matrix.runner }}"}
    assert JOB.fullmatch(f"gate / {judge_job['name']}")


def test_no_workflow_takes_kernels_that_a_checkout_has_built() -> None:
    templates = workflow.ROOT / "src" / "peakgate" / "templates"
    files = [*workflow.WORKFLOWS.glob("*.yml"), *templates.glob("github-*.yml")]
    for file in files:
        text = file.read_text().replace("@BRANCH@", "main")
        jobs = YAML(typ="safe").load(text)["jobs"].values()
        steps = [step for job in jobs for step in job.get("steps", []) if "run" in step]
        runs = [at for at, step in enumerate(steps) if "nox -s" in step["run"] or "peakgate bench" in step["run"]]
        runs += [at for at, step in enumerate(steps) if ".ci/run" in step["run"] or "peakgate check" in step["run"]]
        for at in runs:
            before = "".join(step["run"] for step in steps[:at])
            assert "PEAKGATE_CACHE=$RUNNER_TEMP/cache" in before, file


def test_a_forks_pull_request_runs_nothing_on_our_machines(origin: tuple[Path, str, str], tmp_path: Path) -> None:
    fork = change(origin, **{"github.event.pull_request.head.repo.full_name": "them/kernels"})
    job = run("judge.yml", origin, tmp_path, fork)
    assert job.steps == []
    _, caller = workflow.read("gate.yml")
    assert not workflow.wanted(caller["if"], fork)
    assert not (tmp_path / "calls").exists()


def test_every_night_adds_a_run_to_the_history_and_judges_it(origin: tuple[Path, str, str], tmp_path: Path) -> None:
    history = tmp_path / "history"
    for day, factor in enumerate((1.0,) * 20 + (1.2,) * 5, start=1):
        taken = {"datetime": f"2025-11-{day:02d}T12:00:00+00:00"}  # a run of the future would be refused
        save(history / "main" / "nvidia-h200", f"{day:04d}", document(slower(PAD, factor), day=day) | taken)
    job = run("nightly.yml", origin, tmp_path, {"github.sha": origin[2], "vars.PEAKGATE_HISTORY": str(history)})
    assert [line.split()[1] for line in calls(tmp_path)] == ["bench", "history", "selftest"]
    assert calls(tmp_path)[0].endswith("--device gpu:0 --tier full")
    assert len(list((history / "main" / "cpu-emulator").rglob("0001_*.json"))) == 1, said(job)
    assert job["Verdict"].exit_code == 1, said(job)
    assert "::error title=Peakgate: regression::history: " in job["Verdict"].output
    assert "bench: 1 NO_FLOOR" in job["Verdict"].output
    assert "Peakgate: " in job["Verdict"].output.splitlines()[2]
    assert PAD in job.summary
    assert {"reports/out/history.md", "reports/out/selftest.json"} <= job.artifacts


def test_five_sessions_are_kept_before_an_upgrade(origin: tuple[Path, str, str], tmp_path: Path) -> None:
    asked = {"inputs.step": "before", "inputs.runner": "nvidia-h200", "inputs.commit": "main"}
    context = {"github.sha": origin[2], "vars.PEAKGATE_HISTORY": str(tmp_path / "history"), **asked}
    job = run("driver-upgrade.yml", origin, tmp_path, context)
    assert calls(tmp_path) == ["-s bench -- --device gpu:0 --tier full"] * 5
    assert job["Compare the drivers"].exit_code is None
    assert len(list((tmp_path / "history" / "drivers" / "cpu-emulator").rglob("*.json"))) == 5, said(job)
    assert (job["Verdict"].exit_code, job.failed) == (0, False), said(job)


def test_two_drivers_are_compared_after_an_upgrade(origin: tuple[Path, str, str], tmp_path: Path) -> None:
    for day in range(1, 11):
        driver, times = ("590.44.01", slower(PAD, 1.2)) if day > 5 else ("580.159.04", LADDER)
        jitter = {case: time_us * (1 + 0.001 * (day % 3)) for case, time_us in times.items()}
        save(tmp_path / "history" / "drivers" / "nvidia-h200", str(day), document(jitter, day=day, driver=driver))
    asked = {"inputs.step": "compare", "inputs.runner": "nvidia-h200", "inputs.commit": "main"}
    asked |= {"inputs.base": "580.159.04", "inputs.new": "590.44.01"}
    context = {"github.sha": origin[2], "vars.PEAKGATE_HISTORY": str(tmp_path / "history"), **asked}
    job = run("driver-upgrade.yml", origin, tmp_path, context)
    assert job["Measure five sessions"].exit_code is None
    assert job["Verdict"].exit_code == 1, said(job)
    assert "590.44.01" in job.summary
    assert json.loads((job.workspace / "reports/out/compare.json").read_text())["exit_code"] == 1


SHARES = (
    "tests/emulator tests/inspect tests/kernels",
    "tests/compare tests/project",
    "tests/run tests/review tests/callables tests/base",
    "tests/lab tests/spec tests/compile tests/measure tests/judge tests/device tests/runfile tests/session tests/render tests/fleet tests/pages",  # noqa: E501
)
HOSTED = [
    "bench -- --device cpu -k transpose",
    "docs",
    "ladder",
    "lint",
    "stranger",
    *(f"tests -- --durations 15 {share}" for share in SHARES),
    "check -- --jobs 1",
    "inspect -- mutants --jobs 1 --skip-listed -k access or transpose or occupancy or roof and not tcgen05",
    "inspect -- resources --jobs 1 --architectures 90",
]


def test_a_hosted_machine_runs_the_tests_of_every_room() -> None:
    rooms = {
        path.parent.relative_to(workflow.ROOT).as_posix() for path in (workflow.ROOT / "tests").glob("*/test_*.py")
    }
    assert sorted(" ".join(SHARES).split()) == sorted(rooms)


def test_a_hosted_machine_runs_every_check_that_needs_no_gpu(origin: tuple[Path, str, str], tmp_path: Path) -> None:
    job = run("no-gpu.yml", origin, tmp_path, {"github.sha": origin[2]})
    assert not job.failed, said(job)
    assert {line.removeprefix("-s ") for line in calls(tmp_path)} == {"tests --install-only", *HOSTED}
    assert "bench.json" in job.artifacts


@pytest.mark.parametrize("name", ["comment.yml", "asked.yml"])
def test_no_workflow_of_a_change_cancels_what_may_write(name: str) -> None:
    document, job = workflow.read(name)
    assert "concurrency" not in document
    assert "concurrency" not in job


def completed(number: int | str, **more: str) -> dict[str, Any]:
    """What GitHub says of a gate that ended."""
    run = "github.event.workflow_run"
    return {
        "github.token": stand_in_host.TOKEN,
        "github.event.repository.default_branch": "main",
        "github.repository": stand_in_host.REPOSITORY,
        f"{run}.event": "pull_request",
        f"{run}.pull_requests[0].number": str(number),
        f"{run}.display_title": "gate of #13 at " + "d" * 40,
        f"{run}.head_sha": "c" * 40,
        f"{run}.id": "7",
        f"{run}.html_url": "https://github.com/us/kernels/actions/runs/7",
        **more,
    }


@pytest.mark.parametrize(
    ("event", "branch", "runs"),
    [
        ("pull_request", "topic", True),
        ("workflow_dispatch", "main", True),
        ("workflow_dispatch", "topic", False),
        ("workflow_dispatch", "", False),
        ("merge_group", "main", False),
        ("push", "main", False),
    ],
)
def test_gates_of_requests_and_of_the_default_branch_are_posted(event: str, branch: str, runs: bool) -> None:
    _, job = workflow.read("comment.yml")
    about = {"github.event.workflow_run.event": event, "github.event.workflow_run.head_branch": branch}
    assert workflow.wanted(job["if"], completed(12) | about) == runs


@stand_in_host.needs_jq
def test_a_push_takes_an_older_verdict_out_of_the_comment(origin: tuple[Path, str, str], tmp_path: Path) -> None:
    document, _ = workflow.read("comment.yml")
    assert document["on"]["pull_request_target"] == {"types": ["synchronize"]}
    about = {"github.event_name": "pull_request_target", "github.event.number": "12", "github.sha": origin[2]}
    about |= {"github.token": stand_in_host.TOKEN, "github.event.repository.default_branch": "main"}
    about |= {"github.repository": stand_in_host.REPOSITORY}
    older = f"{COMMENT_MARKER}\n## Peakgate: pass\n\nCommit {'c' * 40}, [run]()\n"
    hub = stand_in_host.GitHub(head="d" * 40, comments=[stand_in_host.comment(0, older)])
    with stand_in_host.answering(hub) as settings:
        job = workflow.run("comment.yml", origin[0], tmp_path, about, **settings)
        assert not job.failed, said(job)
    assert "pass" not in hub.comments[0]["body"]
    assert "d" * 40 in hub.comments[0]["body"]


@stand_in_host.needs_jq
def test_one_comment_is_kept_and_a_check_annotates_the_kernel(
    origin: tuple[Path, str, str], tmp_path: Path, experiments: dict[str, str]
) -> None:
    folder, _, head = origin
    slow = json.loads(Path(experiments["slower"], "ab.json").read_text())
    files = stand_in_host.judged({"protect": {"exit_code": 0}, "bench": {"exit_code": 0}, "ab": slow}, "", "c" * 40)
    hub = stand_in_host.GitHub(artifacts={"gate-nvidia-h200": stand_in_host.artifact(files)})
    with stand_in_host.answering(hub) as settings:
        for turn in ("first", "second"):
            context = completed(12) | {"github.sha": head}
            job = workflow.run("comment.yml", folder, tmp_path / turn, context, **settings)
            assert not job.failed, said(job)
    (comment,) = hub.comments
    assert comment["issue"] == "12"
    assert "transpose.smem\\_pad-8192-32x8 | SLOWER" in comment["body"]
    assert [check["conclusion"] for check in hub.checks] == ["failure", "failure"]


@stand_in_host.needs_jq
def test_a_comment_starts_the_gate_of_the_commit_it_names(origin: tuple[Path, str, str], tmp_path: Path) -> None:
    wish = "c" * 40
    context = {
        "github.token": stand_in_host.TOKEN,
        "github.repository": stand_in_host.REPOSITORY,
        "github.event.repository.default_branch": "main",
        "github.event.issue.pull_request": True,
        "github.event.issue.number": "12",
        "github.event.comment.user.login": "ada",
        "github.event.comment.author_association": "MEMBER",
        "github.event.comment.body": f"/peakgate {wish}",
    }
    hub = stand_in_host.GitHub(permissions={"ada": "write"}, commits=[wish])
    with stand_in_host.answering(hub) as settings:
        job = workflow.run("asked.yml", origin[0], tmp_path, context, **settings)
        assert not job.failed, said(job)
    assert [each["inputs"]["head"] for each in hub.started] == [wish]
    _, asked = workflow.read("asked.yml")
    assert not workflow.wanted(asked["if"], context | {"github.event.comment.body": "thanks"})


def test_what_may_write_checks_out_nothing_of_the_change() -> None:
    for name, checkouts in (("comment.yml", ["${{ github.event.repository.default_branch }}"]), ("asked.yml", [])):
        document, job = workflow.read(name)
        assert document["permissions"] == {}
        assert [step["with"]["ref"] for step in job["steps"] if "uses" in step] == checkouts
        assert "${{" not in job["steps"][-1]["run"]
    measuring, _ = workflow.read("judge.yml")
    assert measuring["permissions"] == {"contents": "read"}
