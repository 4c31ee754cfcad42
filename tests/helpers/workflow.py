"""A job of .github/workflows, run here step by step: every `run:` in bash, as GitHub runs it, in a scratch checkout.

What a runner gives is simulated: checkout is a clone, as shallow as the step asks for; an uploaded artifact is the
files that are there; `python3 -m venv`, pip and nox are stand-ins that install nothing, and gh is ``stand_in_host.py``.
nox runs what the session does, with this interpreter; see ``stand_in_for_nox.py`` for what takes the place of a GPU.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stand_in_host
from ab_fake import git
from emulator_cache import with_runtime
from ruamel.yaml import YAML

from peakgate.base.files import CACHE_VARIABLE

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
NOX = Path(__file__).with_name("stand_in_for_nox.py")
LEFT_OUT = (
    "lab/",
    "tests/",
    *(f"kernels/{path.name}/" for path in (ROOT / "kernels").iterdir() if path.name != "roof"),
)
KEPT_DAY = "20261120T1731"
TOKEN = re.compile(r"'[^']*'|[A-Za-z_][\w.-]*(?:\[\d+\][\w.-]*)*|\|\||&&|!(?!=)")
TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
WORDS = {"||": " or ", "&&": " and ", "!": " not ", "true": "True", "false": "False"}
FUNCTIONS: dict[str, Any] = {
    "format": str.format,
    "fromJSON": json.loads,
    "always": lambda: True,
    "startsWith": str.startswith,
    "contains": lambda items, item: item in items,
}

PYTHON = """#!/bin/bash
[ "$1 $2" != "-I -m" ] || shift
if [ "$1 $2" = "-m venv" ]; then
  mkdir -p "$3/bin" && cp "{tools}/pip" "{tools}/nox" "{tools}/python" "$3/bin/"
else
  exec "{python}" "$@"
fi
"""
PIP = """#!/bin/bash
[[ "$*" = "install --quiet --require-hashes -r "*requirements/nox.txt ||
   "$*" = "install --quiet --require-hashes -r requirements/peakgate-reports.txt" ||
   "$*" = "install --quiet --no-deps --no-build-isolation peakgate @ git+"* ]] || \\
  {{ echo "pip $*: not what a workflow installs" >&2; exit 1; }}
"""
NOX_SCRIPT = """#!/bin/bash
exec "{python}" "{nox}" "$@"
"""


@dataclass(frozen=True)
class Step:
    """One step that was reached: what it is called, how it ended and what it said. ``None``: its condition is false."""

    name: str
    exit_code: int | None
    output: str


@dataclass
class Job:
    """A job that ran: its steps, the files uploaded, and what GitHub would show."""

    steps: list[Step] = field(default_factory=list)
    artifacts: set[str] = field(default_factory=set)
    failed: bool = False
    summary: str = ""
    workspace: Path = Path()

    def __getitem__(self, name: str) -> Step:
        return next(step for step in self.steps if step.name == name)


def read(workflow: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The workflow, one of this repository's or the path of another, and its only job."""
    document = YAML(typ="safe").load(WORKFLOWS / workflow)
    (job,) = document["jobs"].values()
    return document, job


def evaluate(expression: str, context: Mapping[str, Any]) -> Any:
    """What GitHub makes of an expression; a name that ``context`` lacks is empty, as there."""

    def translated(token: re.Match[str]) -> str:
        text = token[0]
        if text in WORDS:
            return WORDS[text]
        return text if text.startswith("'") or text in FUNCTIONS else f"look_up({text!r})"

    python = TOKEN.sub(translated, expression.strip())
    return eval(python, {"__builtins__": {}, "look_up": lambda name: context.get(name, ""), **FUNCTIONS})


def filled(text: object, context: Mapping[str, Any]) -> str:
    """A text of the workflow with its expressions replaced."""
    return TEMPLATE.sub(lambda template: str(evaluate(template[1], context)), str(text))


def wanted(condition: object, context: Mapping[str, Any]) -> bool:
    """Whether a job or step with this `if:` runs while nothing has failed."""
    return bool(evaluate(TEMPLATE.sub(lambda template: template[1], str(condition)), context))


def _left_out(name: str) -> bool:
    """Whether the jobs do without this file of the tree: they get one small family and one day's kept runs."""
    if name.startswith("baselines/nvidia-h200/runs/"):
        return not Path(name).name.startswith(KEPT_DAY)
    return name.startswith(LEFT_OUT) or name.endswith(".svg")


def repository(folder: Path) -> tuple[Path, str, str]:
    """The tree of this project as a repository of two commits on `main`, with one family, and the two of them."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file() and not _left_out(name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    for quick in ("core.compression", "pack.window"):  # every job fetches it
        git(folder, "config", quick, "0")
    commits = []
    for message in ("before", "after"):
        (folder / "kernels" / "note").write_text(message)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", message)
        commits.append(git(folder, "rev-parse", "HEAD"))
    return folder, commits[0], commits[1]


def run(workflow: str, origin: Path, scratch: Path, context: Mapping[str, Any], **settings: str) -> Job:
    """Run the workflow's job in a checkout of ``origin``; ``settings`` are what the stand-ins go by."""
    document, job = read(workflow)
    result = Job(workspace=scratch / "workspace")
    temporary = scratch / "temp"
    temporary.mkdir(parents=True)
    result.workspace.mkdir()
    context = {**context, "github.workspace": str(result.workspace), "runner.temp": str(temporary)}
    if "matrix" in job.get("strategy", {}):
        runners = TEMPLATE.sub(lambda template: template[1], job["strategy"]["matrix"]["runner"])
        context = {**context, "matrix.runner": evaluate(runners, context)[0]}
    if not wanted(job.get("if", "true"), context):
        return result
    environment = _environment(scratch) | settings
    defined = {**document.get("env", {}), **job.get("env", {})}
    environment |= {name: filled(value, context) for name, value in defined.items()}
    context = {**context, **{f"env.{name}": environment[name] for name in defined}}
    for step in job["steps"]:
        condition = str(step.get("if", "true"))
        name = str(step.get("name") or step.get("uses", step.get("run"))).split("@")[0].splitlines()[0]
        if (result.failed and "always()" not in condition) or not wanted(condition, context):
            result.steps.append(Step(name, None, ""))
            continue
        inputs = {key: filled(value, context) for key, value in step.get("with", {}).items()}
        if name == "actions/checkout":
            ran = _checkout(origin, result.workspace / inputs.get("path", ""), inputs, str(context["github.sha"]))
        elif name == "actions/upload-artifact" or "upload-artifact" in str(step.get("uses", "")):
            result.artifacts |= _artifacts(result.workspace, inputs["path"].split())
            ran = 0, ""
        elif "run" in step:
            own = {key: filled(value, context) for key, value in step.get("env", {}).items()}
            folder = Path(filled(step.get("working-directory", result.workspace), context))
            ran = _bash(filled(step["run"], context), folder, environment | own)
            given = dict(
                line.split("=", 1) for line in Path(environment["GITHUB_ENV"]).read_text().splitlines() if "=" in line
            )
            if given.get(CACHE_VARIABLE) not in (None, environment[CACHE_VARIABLE]):
                with_runtime(Path(given[CACHE_VARIABLE]))
            environment |= given
        else:
            raise NotImplementedError(f"{workflow}: {step}")
        result.steps.append(Step(name, *ran))
        result.failed |= ran[0] != 0 and not step.get("continue-on-error", False)
    result.summary = Path(environment["GITHUB_STEP_SUMMARY"]).read_text()
    return result


def last_step(workflow: str, scratch: Path, context: Mapping[str, Any], **settings: str) -> Step:
    """The last step of the workflow's job alone, in this tree."""
    _, job = read(workflow)
    step = job["steps"][-1]
    own = {key: filled(value, context) for key, value in step["env"].items()}
    return Step(step["name"], *_bash(filled(step["run"], context), ROOT, _environment(scratch) | settings | own))


def _environment(scratch: Path) -> dict[str, str]:
    """What every step finds: the stand-ins first on PATH, GitHub's files, and none of our own settings."""
    tools = scratch / "tools"
    tools.mkdir(parents=True)
    scripts = {"python3": PYTHON, "python": PYTHON, "pip": PIP, "nox": NOX_SCRIPT}
    for name, script in scripts.items():
        (tools / name).write_text(script.format(tools=tools, python=sys.executable, nox=NOX))
        (tools / name).chmod(0o755)
    stand_in_host.install("gh", tools)
    files = {name: scratch / name.lower() for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_ENV")}
    for path in files.values():
        path.write_text("")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GH_", "GITHUB_", "PEAKGATE_"))}
    search = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    cache = os.environ.get("PEAKGATE_CACHE", str(ROOT / ".cache"))
    ours = {
        "PATH": search,
        "RUNNER_TEMP": str(scratch / "temp"),
        "PEAKGATE_CACHE": cache,
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "NO_COLOR": "1",
    }
    return kept | ours | {name: str(path) for name, path in files.items()}


def _checkout(origin: Path, workspace: Path, inputs: Mapping[str, str], sha: str) -> tuple[int, str]:
    """A checkout of what the step names, as deep as it asks for: one commit by default."""
    depth = int(inputs.get("fetch-depth", "1"))
    workspace.mkdir(exist_ok=True)
    git(workspace, "init", "--quiet")
    shallow = [f"--depth={depth}"] if depth else []
    git(workspace, "remote", "add", "origin", origin.as_uri())
    git(workspace, "fetch", "--quiet", *shallow, "origin", inputs.get("ref") or sha)
    git(workspace, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    if not depth:
        git(workspace, "fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*")
    return 0, ""


def _artifacts(workspace: Path, paths: list[str]) -> set[str]:
    found = ((workspace / path, file) for path in paths for file in (workspace / path).rglob("*"))
    # GitHub names the files of a single folder by their place in it, others by theirs in the workspace.
    return {str(file.relative_to(folder if len(paths) == 1 else workspace)) for folder, file in found if file.is_file()}


def _bash(script: str, workspace: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """How GitHub runs a step whose shell is not named."""
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=workspace,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout
