"""``peakgate init``: examples that run, and workflows that install what they name."""

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
from expecting import refuses
from refusals import refusal
from ruamel.yaml import YAML
from runs import plain_pytest

from peakgate import init
from peakgate.base import config
from peakgate.base.errors import Code
from peakgate.cli import main

COMMIT = "git+https://example.org/peakgate@" + "0123456789" * 4


@pytest.fixture(autouse=True)
def _repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git("init", "-q", "-b", "main")
    git("remote", "add", "origin", "git@github.com:us/kernels.git")


def git(*arguments):
    subprocess.run(["git", *arguments], check=True, capture_output=True)


def shrink(project):
    """Let the example's benchmark test be of few elements."""
    example = project / "benchmarks" / "bench_scale.py"
    example.write_text(example.read_text().replace("1 << 24", "1 << 10"))


def test_a_new_project_has_a_kernel_and_a_test_that_run(tmp_path, bench):
    assert main(["init"]) == 0
    shrink(tmp_path)
    done = bench(tmp_path, "--benchmark-json=run.json", "-k", "bench_scale")
    assert done.returncode == 0, done.stdout + done.stderr
    saved = json.loads((tmp_path / "run.json").read_text())
    assert saved["benchmarks"][0]["extra_info"]["case"] == "benchmarks-bench_scale.bench_scale-1024"
    assert saved["benchmarks"][0]["extra_info"]["relative_error"] == 0.0
    (case,) = json.loads((tmp_path / ".peakgate" / "out" / "bench.json").read_text())["cases"]
    text = (tmp_path / case["file"]).read_text().splitlines()
    assert (case["file"], text[case["line"] - 1][0]) == ("benchmarks/bench_scale.py", "@")
    assert (tmp_path / "kernels" / "scale" / "scale.cu").is_file()


@pytest.mark.parametrize("folders", ['["src"]', '"src"'])
def test_the_pythonpath_of_pytest_is_taken_over(tmp_path, folders):
    (tmp_path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\npythonpath = {folders}\n")
    assert main(["init"]) == 0
    written = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert written["tool"]["peakgate"]["pythonpath"] == ["src"]


def test_plain_pytest_collects_the_example_and_no_helper(tmp_path):
    assert main(["init"]) == 0
    shrink(tmp_path)
    (tmp_path / "test_other.py").write_text("def bench_helper(): raise OSError\n\n\ndef test_other(): pass\n")
    (tmp_path / "bench_tool.py").write_text("raise SystemExit('a script, no test')\n")
    done = plain_pytest(tmp_path)
    assert (done.returncode, "3 passed" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("option", [(), ("-o", "python_files=bench_*.py")])
def test_a_file_of_benchmark_tests_is_collected_once(tmp_path, option):
    assert main(["init"]) == 0
    done = plain_pytest(tmp_path, "--collect-only", *option, "benchmarks/bench_scale.py", "benchmarks")
    assert done.stdout.count("bench_scale[") == 1, done.stdout + done.stderr


def test_what_is_there_is_left_and_not_taken_for_ours(tmp_path, capsys):
    (tmp_path / "benchmarks").mkdir()
    assert main(["init"]) == 0
    assert config.current().benchmarks == (tmp_path / "gpu_benchmarks",)
    capsys.readouterr()
    assert main(["init"]) == 0
    assert "nothing to write" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "file"), [("github", ".github/workflows/peakgate.yml"), ("gitlab", "peakgate.gitlab-ci.yml")]
)
def test_a_workflow_installs_a_commit_and_is_never_overwritten(tmp_path, name, file):
    assert main(["init", "--ci", name, "--peakgate", COMMIT]) == 0
    subject = ".github/workflows/peakgate-judge.yml" if name == "github" else file
    text = (tmp_path / subject).read_text()
    assert f'PEAKGATE: "peakgate @ {COMMIT}"' in text
    assert not re.search(r"@[A-Z]+@", text + (tmp_path / file).read_text())
    for pins in ("reports", "cuda13", *(["nvrtc"] if name == "github" else [])):
        assert "--hash=sha256:" in (tmp_path / "requirements" / f"peakgate-{pins}.txt").read_text()
    assert "--require-hashes" in text
    assert "peakgate gate" in text
    assert "exit_codes" not in text
    assert "allow_failure" not in text
    assert "continue-on-error" not in text
    installs = re.findall(r"pip install(?:[^\n\\]|\\\n)*", text)
    assert len(installs) == (2 if name == "github" else 4)
    for install in installs:
        assert ("--require-hashes" in install) != ('--no-deps --no-build-isolation "$PEAKGATE"' in install)
    started = {*re.findall(r"(python3? -I |)-m (venv|peakgate)\b", text)}
    assert started <= {("python3 -I ", "venv"), ("python -I ", "peakgate")}
    (tmp_path / file).write_text("mine")
    assert main(["init", "--ci", name, "--peakgate", COMMIT]) == 0
    assert (tmp_path / file).read_text() == "mine"


def hosted_steps(folder):
    """The commands of the hosted job by name, without its installation."""
    assert main(["init", "--ci", "github", "--peakgate", COMMIT]) == 0
    text = (folder / ".github" / "workflows" / "peakgate-no-gpu.yml").read_text()
    (job,) = YAML(typ="safe").load(text)["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "name" in step and step["name"] != "Install"}


def test_the_hosted_job_passes_a_new_project_and_fails_a_defect(tmp_path):
    pytest.importorskip("cuda.bindings", reason="resources compiles with NVRTC")
    steps = hosted_steps(tmp_path)
    assert steps.keys() == {"Check", "Resources", "Results"}
    assert main(["inspect", "resources", "--update", "--architectures", "90"]) == 0

    def exit_codes():
        answers = [
            subprocess.run(["bash", "-ec", script], capture_output=True, check=False) for script in steps.values()
        ]
        return [each.returncode for each in answers]

    shrink(tmp_path)
    assert exit_codes() == [0, 0, 0]
    kernel = tmp_path / "kernels" / "scale" / "scale.cu"
    kernel.write_text(kernel.read_text().replace("i < n", "i <= n"))
    assert exit_codes() == [1, 0, 1]


def test_pushes_to_the_main_branch_are_measured_into_a_history(tmp_path):
    assert main(["init", "--ci", "github", "--peakgate", COMMIT]) == 0
    workflow = YAML(typ="safe").load((tmp_path / ".github" / "workflows" / "peakgate-history.yml").read_text())
    assert workflow["on"]["push"]["branches"] == ["main"]
    script = "\n".join(step["run"] for step in workflow["jobs"]["measure"]["steps"] if "run" in step)
    assert "--require-hashes" in script
    kept = script.index('cp -r .benchmarks/. "$HISTORY/"')
    assert script.index("peakgate bench") < kept < script.index("peakgate history")
    assert script.partition("peakgate history")[2].split()[:2] == ["--runs", '"$HISTORY"']


@pytest.mark.parametrize(("code", "needed", "ends"), [(3, 7, 0), (3, 0, 3), (1, 7, 1), (2, None, 2), (0, 0, 0)])
def test_a_history_of_too_few_sessions_does_not_fail_its_job(tmp_path, monkeypatch, code, needed, ends):
    assert main(["init", "--ci", "github", "--peakgate", COMMIT]) == 0
    workflow = YAML(typ="safe").load((tmp_path / ".github" / "workflows" / "peakgate-history.yml").read_text())
    (script,) = (step["run"] for step in workflow["jobs"]["measure"]["steps"] if step.get("name") == "History")
    if needed is not None:
        (out := tmp_path / ".peakgate" / "out").mkdir(parents=True)
        (out / "history.json").write_text(f'{{"sessions_needed": {needed}}}')
    (programs := tmp_path / "bin").mkdir()
    (programs / "python").symlink_to(sys.executable)
    (programs / "peakgate").write_text(f"#!/bin/sh\nexit {code}\n")
    (programs / "peakgate").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, check=False).returncode == ends


@pytest.mark.parametrize(
    "address",
    [
        "peakgate",
        "peakgate==0.2",
        "git+https://example.org/p@main",
        "git+file:///p@" + 40 * "a",
        "git+/srv/p@" + 40 * "a",
        "git+git@example.org:us/p.git@" + 40 * "a",
        'https://e.org/p.whl#sha256="',
        COMMIT + ";x",
    ],
)
def test_a_workflow_never_installs_a_bare_name_or_a_branch(tmp_path, capsys, address):
    assert main(["init", "--ci", "github", "--peakgate", address]) == 2
    assert f"[{Code.OPTION}]" in capsys.readouterr().err
    assert not (tmp_path / ".github").exists()


def test_where_the_origin_is_unknown_the_address_is_asked_for(capsys, monkeypatch):
    monkeypatch.setattr("peakgate.init.recorded_origin", dict)
    assert main(["init", "--ci", "gitlab"]) == 2
    assert f"[{Code.OPTION}]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "repository"),
    [
        ("https://github.com/us/kernels.git", "us/kernels"),
        ("git@github.com:us/kernels", "us/kernels"),
        ("ssh://git@git.example.org:2222/us/kernels.git", "us/kernels"),
    ],
)
def test_the_changes_workflow_calls_the_protected_judge(tmp_path, address, repository):
    git("remote", "set-url", "origin", address)
    assert main(["init", "--ci", "github", "--peakgate", COMMIT]) == 0
    text = (tmp_path / ".github" / "workflows" / "peakgate.yml").read_text()
    assert f"uses: {repository}/.github/workflows/peakgate-judge.yml@main " in text


@pytest.mark.parametrize("address", [None, "/srv/git/us/kernels.git", "file:///srv/git/us/kernels.git"])
def test_without_a_hosted_remote_no_workflow_is_written(tmp_path, capsys, address):
    git(*(["remote", "remove", "origin"] if address is None else ["remote", "set-url", "origin", address]))
    assert main(["init", "--ci", "github", "--peakgate", COMMIT]) == 2
    assert f"[{Code.OPTION}]" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


def test_workflows_name_the_default_branch_of_the_remote(tmp_path):
    git("symbolic-ref", "HEAD", "refs/heads/topic")
    assert main(["init", "--ci", "github", "--peakgate", COMMIT]) == 0
    history = tmp_path / ".github" / "workflows" / "peakgate-history.yml"
    assert "branches: [topic]" in history.read_text()
    git("add", "--all")
    git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "x")
    git("update-ref", "refs/remotes/origin/trunk", "HEAD")
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    history.unlink()
    assert main(["init", "--ci", "github", "--peakgate", COMMIT]) == 0
    assert "branches: [trunk]" in history.read_text()


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_a_second_address_is_taken_and_edits_are_kept(tmp_path, name):
    newer = COMMIT.replace("0123", "3210")
    assert main(["init", "--ci", name, "--peakgate", COMMIT]) == 0
    files = [path for path in tmp_path.rglob("*.yml") if COMMIT in path.read_text()]
    for path in files:
        path.write_text(f"# mine\n{path.read_text()}")
    assert main(["init", "--ci", name, "--peakgate", newer]) == 0
    assert files
    for path in files:
        text = path.read_text()
        assert (COMMIT in text, newer in text, text.startswith("# mine")) == (False, True, True)


ADD = """__global__ void add(float* sum, const float* x, const float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { sum[i] = x[i] + y[%s]; }
}
void run(float* sum, float* x, float* y, int n) { add<<<(n + 255) / 256, 256>>>(sum, x, y, n); }
"""


def test_a_family_is_no_source_of_a_kernel(tmp_path, capsys):
    assert main(["init", "--from", "kernels/a/family.py"]) == 2
    assert refusal(capsys) is Code.OPTION


@pytest.mark.parametrize(("index", "code"), [("i", 0), ("i - 1", 1)])
def test_a_foreign_kernel_gets_a_family_and_its_first_verdict(tmp_path, capsys, index, code):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "vector_add.cu").write_text(ADD % index)
    assert main(["init", "--from", "src/vector_add.cu"]) == code
    family = (tmp_path / "kernels" / "vector_add" / "family.py").read_text()
    assert '"../../src/vector_add.cu",' in family
    assert len(family.splitlines()) <= 15
    said = capsys.readouterr().out
    assert "RAN" in said
    assert re.search(r"^to do 1: .*family\.py:\d+: reference: ", said, re.MULTILINE)
    assert not (tmp_path / "kernels" / "scale").exists()
    assert config.current().file == tmp_path / "pyproject.toml"
    assert config.current().benchmarks == (), "no folder is named that is not there"
    with refuses(Code.TAKEN):
        init.main("init", ["--from", "src/vector_add.cu"])


def test_a_defect_that_may_follow_from_a_guess_is_not_the_kernels(tmp_path, capsys):
    (tmp_path / "own.cu").write_text((ADD % "i - 1").replace("int n)", "int n, int mode)", 1))
    assert main(["init", "--from", "own.cu"]) == 3
    said = capsys.readouterr().out
    assert re.search(r"not checked: .*out of bounds.*decide first: .*the value of mode: 0 \(family\.py:\d+\)", said)
    assert "waivers" not in said


@pytest.mark.parametrize(
    ("file", "text", "code"),
    [
        ("gone.cu", None, Code.SOURCE),
        ("host.cu", "int main() { return 0; }\n", Code.SOURCE),
        ("pointers.cu", "__global__ void k(float** p) {}\n", Code.SOURCE),
        ("../outside.cu", ADD % "i", Code.PROJECT),
    ],
)
def test_what_no_family_can_describe_writes_nothing(tmp_path, file, text, code):
    if text is not None:
        (tmp_path / file).write_text(text)
    with refuses(code):
        init.main("init", ["--from", file])
    assert not (tmp_path / "pyproject.toml").exists()
    assert not (tmp_path / "kernels").exists()


def test_a_missing_header_gets_an_empty_stand_in(tmp_path, capsys):
    (tmp_path / "add.cu").write_text('#include "lost/log.h"\n' + ADD % "i")
    assert main(["init", "--from", "add.cu"]) == 0
    written = tmp_path / "kernels" / "add" / "stand_ins" / "lost" / "log.h"
    assert written.read_text().startswith("//")
    assert "kernels/add/stand_ins: lost/log.h: missing" in capsys.readouterr().out


def test_a_family_goes_beside_a_file_of_the_kernels_folder(tmp_path):
    (tmp_path / "kernels" / "mine").mkdir(parents=True)
    (tmp_path / "kernels" / "mine" / "add.cu").write_text(ADD % "i")
    assert main(["init", "--from", "kernels/mine/add.cu"]) == 0
    assert '"add.cu",' in (tmp_path / "kernels" / "mine" / "family.py").read_text()


def test_a_family_and_a_workflow_are_two_calls(tmp_path):
    assert main(["init", "--from", "add.cu", "--ci", "github", "--peakgate", COMMIT]) == 2
