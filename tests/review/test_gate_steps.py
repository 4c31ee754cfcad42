"""What a gate makes of the ends of its steps: a step is a process that prints, leaves a verdict, and exits."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sarif
from ab_fake import commit
from ab_fake import git as git_in

from peakgate.base import config, git, sandbox, seccomp
from peakgate.base.config import ProjectSettings
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.files import file_digest
from peakgate.base.report import NOT_CHECKED, Annotation, Tone
from peakgate.base.verdict import ExitCode
from peakgate.review import branch, trees
from peakgate.review import command as gate
from peakgate.review.branch import Refs
from peakgate.run.ab_process import AB_VARIABLE

STEP = """#!{python}
import json, os, sys
from pathlib import Path

verb, out = sys.argv[4], Path(sys.argv[sys.argv.index("--out") + 1])
plan = json.loads(Path({plan!r}).read_text())[verb]
with Path({plan!r}).with_suffix(".log").open("a") as log:
    assert os.getsid(0) == os.getpid()
    with Path({plan!r}).with_suffix(".bytecode").open("a") as folders:
        print(os.environ["PYTHONPYCACHEPREFIX"], file=folders)
    if verb == "ab":
        with Path({plan!r}).with_suffix(".asked").open("a") as asked:
            print(os.environ[{asked!r}], file=asked)
    log.write(json.dumps([Path.cwd().name, sys.argv[1:]]) + "\\n")
out.mkdir(parents=True, exist_ok=True)
if "says" in plan:
    (out / f"{{verb}}.json").write_text(json.dumps(plan["says"]))
sys.exit(plan["ends"])
"""
"""Stands in for Python: what each verb exits with and leaves is in a file."""


Steps = Callable[..., tuple[dict[str, gate.GateStep], list[tuple[str, list[str]]]]]


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Run a gate's steps with what each verb does; the ends, and the commands with the folders they ran in."""

    def run(
        verbs: dict[str, dict[str, object]], settings: ProjectSettings | None = None, **options: object
    ) -> tuple[dict[str, gate.GateStep], list[tuple[str, list[str]]]]:
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(verbs))
        (python := tmp_path / "python").write_text(
            STEP.format(python=sys.executable, plan=str(plan), asked=AB_VARIABLE)
        )
        python.chmod(0o755)
        home = trees.laid_out(tmp_path / "home")
        for name in ("base", "head"):
            (home / name).mkdir()
        chosen = {
            "device": "gpu:0",
            "tier": "gate",
            "strict_gate": False,
            "explain": False,
            "no_benchmark_tests": False,
        }
        judge = gate._Gate(
            argparse.Namespace(**{**chosen, **options}),
            Refs("b" * 40, "h" * 40, "t" * 40),
            home,
            home / "base",
            home / "head",
            {
                "PATH": os.defpath,
                "PYTHONPYCACHEPREFIX": str(home / "tmp" / "bytecode"),
                config.SETTINGS_VARIABLE: str(home / "settings.toml"),
            },
        )
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", str(python))
            found = {"protect": judge.protect(), **judge.measured(settings or ProjectSettings())}
        log = plan.with_suffix(".log").read_text().splitlines()
        return found, [(folder, arguments) for folder, arguments in map(json.loads, log)]

    return run


def ended(code: int) -> dict[str, object]:
    return {"ends": code, "says": {"exit_code": code}}


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_a_step_ends_as_its_verdict_says(steps: Steps, code: int) -> None:
    found, _ = steps({"protect": ended(0), "bench": ended(code), "ab": ended(0)})
    assert {name: int(step.exit_code) for name, step in found.items()} == {"protect": 0, "bench": code, "ab": 0}
    assert [step.verdict.name for step in found.values() if step.verdict] == ["protect.json", "bench.json", "ab.json"]
    assert {step.reason for step in found.values()} == {""}


@pytest.mark.parametrize(
    ("ends", "says", "code"),
    [
        (0, {"exit_code": 1}, 2),
        (1, {"exit_code": 0}, 2),
        (0, {"exit_code": "0"}, 2),
        (0, {}, 2),
        (0, [], 2),
        (3, {}, 3),
        (70, {"exit_code": 70}, 2),
        (7, {"exit_code": 7}, 2),
    ],
)
def test_an_end_that_the_verdict_does_not_confirm_is_bad_input(
    steps: Steps, ends: int, says: object, code: int
) -> None:
    found, _ = steps({"protect": ended(0), "bench": {"ends": ends, "says": says}, "ab": ended(0)})
    assert int(found["bench"].exit_code) == code
    assert found["bench"].reason


@pytest.mark.parametrize(("ends", "code"), [(0, 2), (1, 2), (2, 2), (3, 3), (70, 2)])
def test_a_step_without_a_verdict_passes_nothing(steps: Steps, ends: int, code: int) -> None:
    found, _ = steps({"protect": {"ends": ends}, "bench": ended(0), "ab": ended(0)})
    assert (int(found["protect"].exit_code), found["protect"].verdict) == (code, None)


def test_an_interrupted_step_ends_the_gate(steps: Steps) -> None:
    with pytest.raises(KeyboardInterrupt):
        steps({"protect": ended(130)})


def judged_by_base(folder: Path) -> list[bool]:
    """Of each ``ab`` that ran whether head was to be judged by base's contracts."""
    asked = (folder / "plan.asked").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["judged_by_base"] for line in asked]


def test_steps_run_isolated_in_their_trees_by_the_bases_floors(
    steps: Steps, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    passing = {"protect": ended(0), "bench": ended(0), "ab": ended(0)}
    _, ran = steps(passing, strict_gate=True, explain=True)
    assert capsys.readouterr().out.split() == ["peakgate", "protect", "peakgate", "bench", "peakgate", "ab"]
    assert [folder for folder, _ in ran] == ["head", "head", "base"]
    assert all(arguments[:3] == ["-Ps", "-m", "peakgate"] for _, arguments in ran)
    protect, bench, ab = (arguments[3:] for _, arguments in ran)
    assert protect[:4] == ["protect", "--base", "b" * 40, "--acknowledged-from-base"]
    assert bench[bench.index("--baselines-from") + 1] == "b" * 40
    assert {"--strict-gate", "--device", "gpu:0"} <= {*bench} & {*ab}
    assert ab[:3] == ["ab", *(str(tmp_path / "home" / side) for side in ("base", "head"))]
    assert "--explain" in ab
    assert judged_by_base(tmp_path) == [True]
    assert "--explain" not in bench


def test_nothing_is_strict_explained_or_refused_unless_asked_for(
    steps: Steps, capsys: pytest.CaptureFixture[str]
) -> None:
    _, ran = steps({"protect": ended(0), "bench": ended(0), "ab": ended(0)}, no_benchmark_tests=True)
    assert not {"--strict-gate", "--explain"} & {argument for _, arguments in ran for argument in arguments}
    assert "refused" not in capsys.readouterr().out


@pytest.mark.parametrize("refused", [False, True])
def test_benchmark_tests_are_measured_without_kernels_or_refused(
    steps: Steps, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: bool
) -> None:
    settings = ProjectSettings(benchmarks=("benchmarks",))
    found, ran = steps({"protect": ended(0), "bench": ended(0), "ab": ended(0)}, settings, no_benchmark_tests=refused)
    of_tests = [] if refused else ["bench of benchmark tests", "ab of benchmark tests"]
    assert list(found) == ["protect", "bench", "ab", *of_tests]
    outputs = [arguments[arguments.index("--out") + 1].rpartition("/")[2] for _, arguments in ran]
    assert outputs == ["out"] * 3 + ["tests"] * len(of_tests)
    of_kernels, *apart = (tmp_path / "plan.bytecode").read_text().splitlines()
    assert apart[:2] == [of_kernels] * 2
    assert len({of_kernels, *apart}) == 1 + len(of_tests)
    assert ("refused" in capsys.readouterr().out) == refused
    if not refused:
        (tmp_path / "peakgate.toml").write_text((tmp_path / "home" / "settings.toml").read_text())
        assert config.settings_in(tmp_path) == ProjectSettings(
            kernels=str(tmp_path / "home" / "no-kernels"), benchmarks=("benchmarks",)
        )
        assert list((tmp_path / "home" / "no-kernels").iterdir()) == []
    assert judged_by_base(tmp_path) == [True, *([] if refused else [False])]


def test_without_a_gpu_sides_are_not_compared(steps: Steps) -> None:
    found, ran = steps({"protect": ended(0), "bench": ended(0)}, device="cpu")
    assert (int(found["ab"].exit_code), found["ab"].verdict) == (3, None)
    assert len(ran) == 2


OK, WORSE, OPEN = (gate.GateStep(ExitCode(code)) for code in (0, 1, 3))
REFS = Refs("b" * 40, "h" * 40, "t" * 40)


@pytest.mark.parametrize(
    ("missing", "step"), [(None, (0, False)), ("head/ok", (1, True)), ("base/ok", (2, True)), ("both", (2, True))]
)
def test_a_change_that_does_not_build_is_a_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str | None, step: tuple[int, bool]
) -> None:
    home = trees.laid_out(tmp_path / "new" / "home")
    assert home.stat().st_mode & 0o777 == 0o700
    (origin := tmp_path / "origin").mkdir()
    commit(origin, "the change")
    git_in(origin, "worktree", "add", "--quiet", "--detach", str(home / "head"))
    for name in ("base", "head"):
        (home / name / "inside").mkdir(parents=True)
        if missing not in {f"{name}/ok", "both"}:
            (home / name / "inside" / "ok").write_text("")

    def start(
        command: list[str], tree: Path, scratch: Path, *, inside: Path, writable: bool, **more: Any
    ) -> subprocess.Popen[bytes]:
        assert (tree, inside, writable, scratch.is_dir()) == (home / "head", home / "head" / "inside", True, True)
        return subprocess.Popen(command, cwd=inside, start_new_session=True, **more)

    monkeypatch.setattr(sandbox, "start", start)
    environment = {"PATH": os.defpath}
    judge = gate._Gate(
        argparse.Namespace(), REFS, home, home / "base" / "inside", home / "head" / "inside", environment
    )
    own_session = '[ "$(cut -d" " -f6 /proc/$$/stat)" = $$ ]'
    found = judge.build(f"mkdir .git; ln -s / out; test -f ok && {own_session}", 60.0)
    assert (int(found.exit_code), bool(found.reason)) == step
    assert {path.name for path in (home / "head" / "inside").iterdir()} <= {"ok"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The judge's folder with trees of a base and of a change; nothing of the gate runs."""
    home = trees.laid_out(tmp_path / "home")
    for name in ("base", "head"):
        (home / name / "inside").mkdir(parents=True)
        (home / name / "inside" / "peakgate.toml").write_text(f'kernels = "{name}"\nbenchmarks = ["tests"]\n')
    monkeypatch.setattr(sandbox, "isolation", lambda: (SimpleNamespace(value="a box"), "as it is"))
    monkeypatch.setattr(seccomp, "refusal", lambda: "no filter")
    monkeypatch.setattr(gate._Gate, "protect", lambda self: OK if self.refs is REFS else None)
    return home


@pytest.mark.parametrize("build", [None, OK, WORSE])
def test_a_project_is_measured_only_if_its_build_passes(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], build: gate.GateStep | None
) -> None:
    of_tests = "bench of benchmark tests"
    base, head = home / "base" / "inside", home / "head" / "inside"
    if build:
        (base / "peakgate.toml").write_text('kernels = "base"\nbenchmarks = ["tests"]\nbuild = "make"\n')
    (head / "out").symlink_to("/etc")
    monkeypatch.setattr(gate._Gate, "build", lambda self, text, timeout_s: build if text == "make" else None)
    monkeypatch.setattr(gate._Gate, "measured", lambda self, settings: {"bench": OPEN, of_tests: OK})
    steps, document = gate._judged(argparse.Namespace(repository=home), REFS, home, (base, head))
    measured = {} if build is WORSE else {"bench": OPEN, of_tests: OK}
    assert steps == {"protect": OK} | ({"build": build} if build else {}) | measured
    ignored = ["kernels", "build"] if build else ["kernels"]
    assert document == {
        "base": "b" * 40,
        "head": "h" * 40,
        "branch": "t" * 40,
        "sandbox": "a box",
        "settings_without_effect": ignored,
        "links_removed": ["inside/out"],
        "system_calls_denied": False,
        "runs_the_change": [of_tests] if measured else [],
    }
    (home / "peakgate.toml").write_text((home / "settings.toml").read_text())
    assert config.settings_in(home) == ProjectSettings(kernels="base")
    printed = capsys.readouterr().out
    for fact in (
        "b" * 12,
        "h" * 12,
        "a box: as it is",
        "no filter",
        *(f"setting {name} " for name in ignored),
        "inside/out",
    ):
        assert fact in printed


@pytest.mark.parametrize("broken", ["no base", "no head", "no settings", "a link", "a file"])
def test_a_missing_or_moved_project_is_not_judged(home: Path, broken: str) -> None:
    base, head = home / "base" / "inside", home / "head" / "inside"
    if broken in ("no base", "no settings"):
        ((base if broken == "no base" else head) / "peakgate.toml").unlink()
    else:
        head.rename(home / "head" / "elsewhere")
    if broken == "a link":
        head.symlink_to(home / "head" / "elsewhere")
    if broken == "a file":
        head.touch()
    with pytest.raises(PeakgateError) as refused:
        gate._judged(argparse.Namespace(repository=home), REFS, home, (base, head))
    assert (refused.value.code, refused.value.exit_code) == (Code.PROJECT, 3 if broken == "no base" else 2)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("ends", "code"), [((OK, OK), 0), ((OK, OPEN), 3), ((OPEN, WORSE), 1), ((WORSE, OK), 1)])
def test_a_gate_ends_as_its_worst_step_and_leaves_every_verdict(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ends: tuple[gate.GateStep, gate.GateStep],
    code: int,
    *,
    named: bool,
) -> None:
    (inside := tmp_path / "repository" / "inside").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(inside.parent)], check=True)
    asked: list[tuple[object, ...]] = []

    def worktree(ref: str, folder: Path, repository: Path) -> contextlib.nullcontext[Path]:
        asked.append((ref, folder.name, repository))
        return contextlib.nullcontext(folder)

    def judged(options: argparse.Namespace, refs: Refs, home: Path, projects: tuple[Path, Path]) -> object:
        assert projects == (home / "base" / "inside", home / "head" / "inside")
        assert (refs, options.base, options.head) == (REFS, "main", "change")
        assert options.no_benchmark_tests is not named
        (verdict := home / "out" / "bench.json").write_text("{}")
        (home / "out" / "dangling").symlink_to("nowhere")
        return {"protect": ends[0], "bench": replace(ends[1], verdict=verdict, reason="why")}, {"base": "b"}

    def refs(*given: Any) -> Any:
        asked.append(given)
        return REFS

    monkeypatch.setattr(trees, "worktree", worktree)
    monkeypatch.setattr(trees, "refuse_deep", lambda _head, _repository: None)
    monkeypatch.setattr(gate, "_judged", judged)
    monkeypatch.setattr(branch, "refs", refs)
    monkeypatch.setattr(gate, "why_no_gpu", lambda _device: "")
    home, out = tmp_path / "own", tmp_path / "out"
    monkeypatch.setattr(trees, "new_home", lambda _repository: contextlib.nullcontext(trees.laid_out(home)))
    more = ["--out", str(out)] if named else ["--no-benchmark-tests"]
    assert gate.main("gate", ["main", "change", "--repository", str(inside), "--branch", "origin/main", *more]) == code
    top = inside.parent.resolve()
    assert asked == [
        (top, "main", "change", "origin/main"),
        (REFS.base, "base", top),
        (REFS.head, "head", top),
    ]
    assert "why" in capsys.readouterr().out
    assert out.exists() is named
    if named:
        found = json.loads((out / "gate.json").read_text())
        assert found == json.loads((home / "out" / "gate.json").read_text())
        assert (found["exit_code"], found["base"], (out / "dangling").is_symlink()) == (code, "b", True)
        assert found["steps"]["bench"] == {"exit_code": int(ends[1].exit_code), "reason": "why"}
        assert found["files"] == {"bench.json": file_digest(out / "bench.json")}
        level = "error" if ends[1].exit_code == 1 else "warning"
        assert sarif.results(out / "gate.sarif") == [("not-checked", level, "inside/pyproject.toml", 1)]


def test_the_findings_that_fail_are_repeated_at_the_end() -> None:
    wrong = [Annotation("WRONG", f"a.a-{size}: off", Path("a.cu")) for size in range(gate.MOST_REPEATED + 2)]
    undecided = Annotation("INCONCLUSIVE", "b.b-1: noise", Path("b.cu"), tone=Tone.OPEN)
    of_a_step = Annotation(NOT_CHECKED, "build: the change does not build", Path("pyproject.toml"))
    assert gate._failing([of_a_step, *wrong[:1], undecided]) == ["WRONG: a.a-0: off"]
    *said, more = gate._failing(wrong)
    assert (len(said), more.split()[:3]) == (gate.MOST_REPEATED, ["and", "2", "more;"])


def test_the_judge_works_in_no_folder_that_the_change_reaches() -> None:
    with pytest.raises(PeakgateError) as refused, trees.new_home(Path(tempfile.gettempdir()).resolve()):
        pass
    assert refused.value.code is Code.PROTECTED


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("repository", Code.PROTECTED),
        ("repository/inside", Code.PROTECTED),
        (".", Code.PROTECTED),
        ("there", Code.TAKEN),
        ("dangling", Code.TAKEN),
    ],
)
def test_a_folder_within_reach_of_the_change_or_used_is_refused(tmp_path: Path, place: str, code: Code) -> None:
    for name in ("repository", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(PeakgateError) as refused:
        trees.outside(tmp_path / place, tmp_path / "repository", "--out")
    assert (refused.value.exit_code, refused.value.code) == (2, code)
    assert trees.outside(tmp_path / "new", tmp_path / "repository", "--out") == tmp_path / "new"


def test_links_out_of_a_tree_are_removed_and_others_stay(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    for name, target in {"out": str(tmp_path), "deep/far": "/etc", "in": "deep", "circle": "circle"}.items():
        (tree / name).symlink_to(target)
    assert trees.without_links_out(tree) == ["circle", "deep/far", "out"]
    assert sorted(path.name for path in tree.rglob("*")) == ["deep", "in"]


def test_git_finds_no_repository_that_a_build_made(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    for name in (".git", "sub/module/.git"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(f"gitdir: {name}")
    (tree / "committed" / ".git").mkdir(parents=True)
    found = trees.repositories(tree)
    assert {path.relative_to(tree).as_posix() for path in found} == {".git", "sub/module/.git"}
    shutil.rmtree(tree / "sub")
    (tree / ".git").unlink()
    for name in (".git", "kernels/.git", "kernels/.git/inner/.git"):
        (tree / name).mkdir(parents=True)
        (tree / name / "config").touch()
    (tree / "file").mkdir()
    (tree / "file" / ".git").write_text("gitdir: elsewhere")
    outside.mkdir()
    (outside / "config").touch()
    (tree / "link").mkdir()
    (tree / "link" / ".git").symlink_to(outside)
    assert trees.cleaned(tree, found) is None
    assert {path: path.read_text() for path in tree.rglob(".git")} == {
        tree / name: f"gitdir: {name}" for name in (".git", "sub/module/.git")
    }
    assert (outside / "config").exists()


@pytest.fixture
def built(tmp_path: Path) -> tuple[Path, Callable[[str], str | None]]:
    """A tree with a submodule, whose settings hide what differs, and what a shell's commands change in it."""
    for name in ("library", "origin"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "committed").write_text("$Id$\n")
        (tmp_path / name / "script").write_text("true\n")
        commit(tmp_path / name, "files")
    origin, tree = tmp_path / "origin", tmp_path / "head"
    allowed = ("-c", "protocol.file.allow=always", "submodule", "--quiet")
    git_in(origin, *allowed, "add", str(tmp_path / "library"), "third")
    git_in(origin, "config", "-f", ".gitmodules", "submodule.third.ignore", "all")
    (origin / "link").symlink_to("committed")
    git_in(origin, "worktree", "add", "--quiet", "--detach", str(tree), commit(origin, "a submodule"))
    git_in(tree, *allowed, "update", "--init")

    def change(commands: str) -> str | None:
        before = trees.repositories(tree)
        committed = trees.committed(path.parent for path in before)
        subprocess.run(["sh", "-c", commands], cwd=tree, check=True)
        assert trees.cleaned(tree, before) is None
        found = trees.changed(committed)
        return None if found is None else found.relative_to(tree).as_posix()

    return tree, change


@pytest.mark.parametrize(
    ("commands", "changed"),
    [
        ("true", None),
        ("echo x > new; echo x > third/new; mkdir third/more; echo x > third/more/new", None),
        ("touch committed third/committed; cp script s; mv s script", None),
        ("echo x > committed", "committed"),
        ("echo x > third/committed", "third/committed"),
        ("rm third/committed", "third/committed"),
        ("chmod +x third/script", "third/script"),
        ("rm -r third; echo x > third", "third"),
        ("rm -r third", "third/committed"),
        ("ln -sf script link", "link"),
        ("rm link; cp committed link", "link"),
        ("echo '* ident' > .gitattributes; echo '$Id: other $' > committed", "committed"),
        ("echo '* ident' > third/.gitattributes; echo '$Id: other $' > third/committed", "third/committed"),
        ("rm -r third/.git; git init --quiet third; chmod 311 third", None),
        ("chmod 0 third", None),
    ],
)
def test_a_build_may_add_files_but_not_change_committed_ones(
    built: tuple[Path, Callable[[str], str | None]], commands: str, changed: str | None
) -> None:
    tree, change = built
    assert change(commands) == changed
    if changed is None:
        assert (tree / "third" / ".git").is_file()
        assert git_in(tree / "third", "rev-parse", "HEAD") == git_in(tree.parent / "library", "rev-parse", "HEAD")


def test_what_cannot_be_taken_out_of_a_built_tree_is_named(
    built: tuple[Path, Callable[[str], str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, _ = built
    before = trees.repositories(tree)
    (tree / "kernels" / ".git").mkdir(parents=True)
    monkeypatch.setattr(trees, "remove_tree", lambda path: None)
    assert "cannot be removed" in (trees.cleaned(tree, before) or "")


def test_a_folder_whose_settings_cannot_be_read_is_a_project(tmp_path: Path) -> None:
    assert not trees.is_project(tmp_path)
    (tmp_path / "peakgate.toml").write_text("kernels = 3\n")
    assert trees.is_project(tmp_path)


def test_a_changes_settings_are_named_and_the_bases_written(tmp_path: Path) -> None:
    base = ProjectSettings(kernels="kernels", build="make")
    assert gate._differing(base, tmp_path)
    (tmp_path / "peakgate.toml").write_text('kernels = "others"\nbuild = "make"\n')
    assert gate._differing(base, tmp_path) == ["kernels"]
    (tmp_path / "peakgate.toml").write_text("kernels = 3\n")
    assert gate._differing(base, tmp_path) == ["unreadable"]
    (tmp_path / "peakgate.toml").write_text(gate._settings_text(base, build=None, benchmarks=["a b"]))
    assert config.settings_in(tmp_path) == ProjectSettings(kernels="kernels", benchmarks=("a b",))


def test_only_places_are_kept_of_the_callers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, packages = tmp_path / "clone", tmp_path / "packages"
    for folder in (repository / "src", packages):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(repository / "src")
    of_change = [str(repository), str(repository / "src"), str(tmp_path), str(tmp_path / "link"), "src", ""]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*of_change, str(packages), str(tmp_path / "gone")]))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setattr("site.ENABLE_USER_SITE", False)
    found = gate._environment(tmp_path / "home", repository)
    assert found["PYTHONPATH"] == str(packages)
    assert (found["CUDA_VISIBLE_DEVICES"], found["PATH"]) == ("1", os.environ["PATH"])
    assert git.environment().items() <= found.items()
    names = ("PEAKGATE_CACHE", "CUPY_CACHE_DIR", "TMPDIR", config.SETTINGS_VARIABLE, "PYTHONPYCACHEPREFIX")
    assert all(found[name].startswith(str(tmp_path / "home")) for name in names)
    monkeypatch.setenv("PYTHONPATH", str(repository))
    assert "PYTHONPATH" not in gate._environment(tmp_path / "home", repository)
