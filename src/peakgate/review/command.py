"""``peakgate gate``: judge a change with a tool that it cannot edit; the one command that a workflow calls.

The change's tree is treated as data. The gate works in a new folder outside the repository with copies of both commits,
cache, temporary files and outputs. It finds the base itself, the commit where the change branches off the protected
branch, and uses the base's settings. ``protect``, ``bench`` and ``ab`` run as processes with a minimal environment;
``gate.json`` holds their exit codes, the overall one, and the digest of each verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from peakgate.base import config, git, records, sandbox, seccomp
from peakgate.base.config import PlainSettings, ProjectSettings
from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.files import file_digest, write_whole
from peakgate.base.formatting import short
from peakgate.base.packages import import_path
from peakgate.base.processes import BYTECODE, print_output, sigterm_interrupts
from peakgate.base.report import NOT_CHECKED, Annotation, Report, Row, Tone, not_checked
from peakgate.base.streams import say
from peakgate.base.verdict import ExitCode
from peakgate.render import findings, terminal
from peakgate.review import branch, trees
from peakgate.review.believed import DIGEST_TITLE
from peakgate.review.branch import Refs
from peakgate.review.comment import MEANINGS, placed
from peakgate.run.ab_process import AB_VARIABLE
from peakgate.run.lock import why_no_gpu
from peakgate.runfile.options import GATE_EXIT_CODES, verb_parser

GATE_FILE = "gate.json"
MILDEST_FIRST = tuple(MEANINGS)
STEP_LIMIT_S = 3 * 3600.0
MOST_REPEATED = 10
KEPT_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "GITHUB_STEP_SUMMARY", "CI"),
)
"""Inherited environment variables: search paths of programs and the choice of the GPU."""

OF_TESTS = " of benchmark tests"
NOTHING_KEPT = "verdicts and reports were deleted; --out NEW_FOLDER keeps them"
EMULATED = "without a GPU nothing is timed: base and head were not compared"


@dataclass(frozen=True, slots=True)
class GateStep:
    """One command of a gate: its exit code, the reason if it has no valid verdict, and its verdict file."""

    exit_code: int
    reason: str = ""
    verdict: Path | None = None


class LeftVerdict(msgspec.Struct):
    """The field that is read from a command's verdict."""

    exit_code: Any


def main(verb: str, arguments: Sequence[str]) -> int:
    """Judge HEAD and return one exit code."""
    options = _parser(verb).parse_args(arguments)
    os.environ.update(_absolute_folders())
    repository = git.top_of(options.repository.absolute()).resolve()
    out = None if options.out is None else trees.outside(options.out, repository, "--out")
    refs = branch.refs(repository, options.base, options.head, options.branch)
    if missing := why_no_gpu(options.device):
        document: dict[str, object] = {"base": refs.base, "head": refs.head, "branch": refs.tip}
        if out is not None:
            fields = document | {"steps": {}, "files": {}}
            undecided = not_checked(verb, missing, Path(config.PYPROJECT))
            findings.write(replace(undecided, fields=fields), out / GATE_FILE)
        raise CannotDecide(f"not judged: {missing}", Code.NO_GPU)
    inside = trees.inside_of(options.repository, repository)
    trees.refuse_deep(refs.head, repository)
    if options.device == "cpu":
        say(f"{EMULATED}. The gate cannot pass, and ends with 3 unless it finds something wrong\n")
    with sigterm_interrupts(), trees.new_home(repository) as home:
        with trees.both(refs, repository, home) as (base, head):
            steps, document = _judged(options, refs, home, (base / inside, head / inside))
        document["steps"] = {
            name: {"exit_code": int(step.exit_code), "reason": step.reason} for name, step in steps.items()
        }
        verdicts = [step.verdict for step in steps.values() if step.verdict is not None]
        document["files"] = {str(path.relative_to(home / "out")): file_digest(path) for path in verdicts}
        code = max((ExitCode(step.exit_code) for step in steps.values()), key=MILDEST_FIRST.index)
        rows = [
            Row(name, reason=f"{MEANINGS[step.exit_code]}{step.reason and ': '}{step.reason}")
            for name, step in steps.items()
        ]
        settings = inside / (config.OWN_FILE if (head / inside / config.OWN_FILE).exists() else config.PYPROJECT)
        annotations = _placed(steps, settings)
        found = Report(
            verb,
            code,
            rows=rows,
            fields=document,
            unit="step",
            annotations=annotations,
            sentences=_failing(annotations),
        )
        terminal.show(found)
        findings.write(found, home / "out" / GATE_FILE)
        # An annotation is the job's own, while another job can replace its artifact: comments believe this alone.
        findings.order(findings.command("notice", str(file_digest(home / "out" / GATE_FILE)), title=DIGEST_TITLE))
        if out is not None:
            shutil.copytree(home / "out", out, symlinks=True)
    say(_where_it_stays(f"verdict: {home / 'out' / GATE_FILE}", home, options) or NOTHING_KEPT)
    return code


def _placed(steps: Mapping[str, GateStep], settings: Path) -> list[Annotation]:
    """What the steps found at lines of the change, and the steps without a verdict; the rest at the ``settings``."""
    verdicts: dict[Path, dict[str, Any]] = {}
    found = []
    for name, step in steps.items():
        if step.verdict is not None:
            files = verdicts.setdefault(step.verdict.parent, {})
            files[step.verdict.stem] = records.read(step.verdict, Any, "see its output")
        if step.reason:
            tone = Tone.BAD if step.exit_code == ExitCode.REGRESSION else Tone.OPEN
            found.append(Annotation(NOT_CHECKED, f"{name}: {step.reason}", settings, tone=tone))
    every = [*found, *(each for files in verdicts.values() for each in placed(files))]
    return [each if each.path.name else replace(each, path=settings) for each in every]


def _failing(annotations: Sequence[Annotation]) -> list[str]:
    """The findings that fail, at the end of a log that is long; the steps' own reasons stand beside their names."""
    said = [
        f"{each.rule}: {each.message}" for each in annotations if each.tone is Tone.BAD and each.rule != NOT_CHECKED
    ]
    more = len(said) - MOST_REPEATED
    return [*said[:MOST_REPEATED], *([f"and {more} more; the steps above have them"] if more > 0 else [])]


def _absolute_folders() -> dict[str, str]:
    """PATH and LD_LIBRARY_PATH without relative entries; an empty entry would mean the working directory."""
    found = {}
    for name in ("PATH", "LD_LIBRARY_PATH"):
        if name in os.environ:
            folders = [entry for entry in os.environ[name].split(os.pathsep) if Path(entry).is_absolute()]
            found[name] = os.pathsep.join(folders) or (os.defpath if name == "PATH" else "")
    return found


def _where_it_stays(line: str, home: Path, options: argparse.Namespace) -> str | None:
    """A line of output with the final path of an output file, or without it if the file is deleted."""
    left = str(home / "out")
    if left not in line:
        return line
    if options.out:
        return line.replace(left, str(options.out))
    kept = line.partition(left)[0]
    return None if kept.endswith(": ") else kept.rstrip(" ;")


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = verb_parser(
        verb,
        "Judge a change: list its edits to what it is judged by (protect), compare its kernels with the base's floors "
        "(bench), and measure base and HEAD interleaved (ab). The base is the newest commit of HEAD that was once the "
        "tip of the protected branch. The judge works in a new folder, which nothing of the change can edit.",
        f"{GATE_EXIT_CODES}, 130 interrupted",
    )
    parser.add_argument("base", metavar="BASE", help="the protected branch, or a commit on it")
    parser.add_argument("head", metavar="HEAD", help="the commit to judge")
    parser.add_argument(
        "--repository",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="the project's folder in a clone that has both commits (default: the working directory)",
    )
    parser.add_argument(
        "--branch", metavar="REF", help="the protected branch (default: the default branch of the remote origin)"
    )
    parser.add_argument("--device", default="gpu:0", help="gpu or gpu:N; cpu proves and times nothing (default: gpu:0)")
    parser.add_argument("--tier", default="gate", choices=("gate", "full"), help="which cases (default: gate)")
    parser.add_argument("--strict-gate", action="store_true", help="exit 3 where a case has no floor")
    parser.add_argument("--explain", action="store_true", help="explain why each slower case is slower")
    parser.add_argument(
        "--no-benchmark-tests",
        action="store_true",
        help="run no benchmark tests, whose Python runs in the process that measures them",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="a new folder for verdicts and reports (default: they are not kept)"
    )
    return parser


def _judged(
    options: argparse.Namespace, refs: Refs, home: Path, projects: tuple[Path, Path]
) -> tuple[dict[str, GateStep], dict[str, object]]:
    """The result of every step, and the other fields of gate.json."""
    base, head = projects
    settings = config.settings_in(base)
    if settings is None:
        raise CannotDecide(
            f"the base {refs.base[:12]} has no project in this folder; an owner must merge the first one", Code.PROJECT
        )
    removed = trees.without_links_out(home / "head")
    if head.resolve() != head or not trees.is_project(head):
        raise PeakgateError(
            "the change has no project in the base's folder of it; move the project in a separate change", Code.PROJECT
        )
    ignored = _differing(settings, head)
    way, why = sandbox.isolation()
    say(f"judged by {refs.base[:12]}, where {refs.head[:12]} branches off the protected branch\n")
    say(f"the change's Python runs in {way.value}{f': {why}' if why else ''}\n")
    if unfiltered := seccomp.refusal():
        say(f"no system calls are denied to it: {unfiltered}\n")
    say("".join(f"without effect: setting {name} of the change\n" for name in ignored))
    say("".join(f"removed: {name}, a link that leads out of the repository\n" for name in removed))
    gate = _Gate(options, refs, home, base, head, _environment(home, git.tree_of(options.repository)))
    gate.judge_by(_settings_text(settings, benchmarks=(), build=None))
    steps = {"protect": gate.protect()}
    if settings.build is not None:
        steps["build"] = gate.build(settings.build, settings.build_timeout_s)
    if steps.get("build", GateStep(ExitCode.OK)).exit_code == ExitCode.OK:
        steps |= gate.measured(settings)
    document: dict[str, object] = {
        "base": refs.base,
        "head": refs.head,
        "branch": refs.tip,
        "sandbox": way.value,
        "system_calls_denied": not unfiltered,
        "settings_without_effect": ignored,
        "links_removed": removed,
        "runs_the_change": [name for name in steps if name.endswith(OF_TESTS)],
    }
    return steps, document


def _differing(settings: ProjectSettings, head: Path) -> list[str]:
    """The settings in which the change differs from the base, and which have no effect."""
    try:
        own = config.settings_in(head) or ProjectSettings()
    except PeakgateError:
        return ["unreadable"]
    before, after = msgspec.structs.asdict(settings), msgspec.structs.asdict(own)
    folders_first = sorted(before, key=PlainSettings.__struct_fields__.__contains__)
    return [name for name in folders_first if before[name] != after[name]]


def _settings_text(settings: ProjectSettings, **changed: object) -> str:
    """The text of a settings file, with some settings changed."""
    known = msgspec.structs.asdict(settings) | changed
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in known.items() if value is not None)


def _environment(home: Path, repository: Path) -> dict[str, str]:
    """The environment of the gate's processes, which inherits only KEPT_VARIABLES.

    PYTHONPATH lists the folders that this process imports from, except those in or around the ``repository``.
    """
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    if path := import_path(repository, home):
        kept["PYTHONPATH"] = os.pathsep.join(path)
    return (
        kept
        | git.environment()
        | {
            "PEAKGATE_CACHE": str(home / "cache"),
            "CUPY_CACHE_DIR": str(home / "cache" / "cupy"),
            "TMPDIR": str(home / "tmp"),
            config.SETTINGS_VARIABLE: str(home / "settings.toml"),
            "PYTHONSAFEPATH": "1",
            "PYTHONNOUSERSITE": "1",
            BYTECODE: str(home / "tmp" / "bytecode"),
            "UV_NO_CONFIG": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "NO_COLOR": "1",
        }
    )


@dataclass(frozen=True, slots=True)
class _Gate:
    """The commands of one gate, and where each runs; ``of`` is the part that it measures, as its lines name it."""

    options: argparse.Namespace
    refs: Refs
    home: Path
    base: Path
    head: Path
    environment: Mapping[str, str]
    of: str = ""

    def judge_by(self, settings: str) -> None:
        """Set the settings of all later steps, which override those of the trees."""
        write_whole(Path(self.environment[config.SETTINGS_VARIABLE]), settings)

    def protect(self) -> GateStep:
        """Run the step ``protect``."""
        given = ["--base", self.refs.base, "--acknowledged-from-base"]
        return self.run("protect", self.head, self.home / "out", *given)

    def build(self, text: str, timeout_s: float) -> GateStep:
        """Run the project's own build: base's with the rights of the gate, head's in the sandbox."""
        command = ["sh", "-c", text]
        base = subprocess.Popen(command, cwd=self.base, env=self.environment, start_new_session=True, **_PIPED)
        if print_output(base, timeout_s):
            return GateStep(ExitCode.BAD_INPUT, "the base does not build")
        (scratch := self.home / "tmp" / "build").mkdir()
        repositories = trees.repositories(tree := self.home / "head")
        committed = trees.committed(path.parent for path in repositories)
        head = sandbox.start(command, tree, scratch, inside=self.head, writable=True, **_PIPED)
        failed = print_output(head, timeout_s)
        if why := trees.cleaned(tree, repositories):
            return GateStep(ExitCode.REGRESSION, why)
        if failed:
            return GateStep(ExitCode.REGRESSION, "the change does not build")
        if changed := trees.changed(committed):
            name = short(str(changed.relative_to(tree)))
            return GateStep(ExitCode.REGRESSION, f"its build changes the committed file {name}")
        return GateStep(ExitCode.OK)

    def measured(self, settings: ProjectSettings) -> dict[str, GateStep]:
        """Compare head with floors, and base with head: kernels first, then benchmark tests in separate processes.

        A benchmark test's Python runs in the measuring process, so that process must not measure kernels.
        """
        out, runs = self.home / "out", str(self.home / "runs")
        floors = ["--baselines-from", self.refs.base]
        strict = ["--strict-gate"] if self.options.strict_gate else []
        found = {
            "bench": self.run("bench", self.head, out, *self._chosen, *strict, *floors, "--benchmark-storage", runs),
            "ab": self.ab(out, judged_by_base=True),
        }
        if settings.benchmarks and self.options.no_benchmark_tests:
            say("refused: the benchmark tests of the project, which cannot prove a pass")
        elif settings.benchmarks:
            (none := self.home / "no-kernels").mkdir()
            self.judge_by(_settings_text(settings, kernels=str(none), build=None))
            given = [*self._chosen, *strict, *floors, "--benchmark-storage", runs]
            found[f"bench{OF_TESTS}"] = self._apart.run("bench", self.head, out / "tests", *given)
            found[f"ab{OF_TESTS}"] = self._apart.ab(out / "tests", judged_by_base=False)
        return found

    @property
    def _apart(self) -> _Gate:
        """A copy with a bytecode folder of its own, since a change's Python may write to the one it uses."""
        bytecode = tempfile.mkdtemp(prefix="bytecode.", dir=self.home / "tmp")
        return replace(self, environment={**self.environment, BYTECODE: bytecode}, of=OF_TESTS)

    @property
    def _chosen(self) -> list[str]:
        return ["--device", self.options.device, "--tier", self.options.tier]

    def ab(self, out: Path, *, judged_by_base: bool) -> GateStep:
        """Step ``ab``; with ``judged_by_base`` by base's contracts of cases, and without importing head's families."""
        if self.options.device == "cpu":
            return GateStep(ExitCode.UNDECIDED, EMULATED)
        more = [f"--{name}" for name in ("strict-gate", "explain") if getattr(self.options, name.replace("-", "_"))]
        asking = {**self.environment, AB_VARIABLE: json.dumps({"judged_by_base": judged_by_base})}
        sides = str(self.base), str(self.head)
        return replace(self, environment=asking).run("ab", self.base, out, *sides, *self._chosen, *more)

    def run(self, verb: str, folder: Path, out: Path, *given: str) -> GateStep:
        """Run a verb in a folder; its verdict file must confirm its exit code."""
        say(f"peakgate {verb}{self.of}\n")
        command = [sys.executable, "-Ps", "-m", "peakgate", verb, *given, "--out", str(out)]
        process = subprocess.Popen(command, cwd=folder, env=self.environment, start_new_session=True, **_PIPED)
        code = print_output(process, STEP_LIMIT_S, shown=lambda line: _where_it_stays(line, self.home, self.options))
        if code == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        verdict = out / f"{verb}.json"
        try:
            confirmed = records.read(verdict, LeftVerdict, "see its output").exit_code
        except PeakgateError:
            undecided = ExitCode.UNDECIDED if code == ExitCode.UNDECIDED else ExitCode.BAD_INPUT
            return GateStep(undecided, f"it exited with {code} without a verdict; see its output")
        if confirmed != code or code not in MILDEST_FIRST:
            return GateStep(ExitCode.BAD_INPUT, f"it exited with {code}, but its verdict says {confirmed!r}", verdict)
        return GateStep(code, verdict=verdict)


_PIPED: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
