"""`peakgate gate` on a fork's change in a repository of its own, without a GPU; and what a change tries against it."""

from __future__ import annotations

import argparse
import importlib._bootstrap_external as imports
import json
import marshal
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sarif
from ab_fake import git
from emulator_cache import with_runtime
from refusals import refusal

from peakgate.base import seccomp
from peakgate.base.errors import Code
from peakgate.base.files import file_digest
from peakgate.base.processes import BYTECODE, variables
from peakgate.cli import main
from peakgate.review import command, trees

ROOT = Path(__file__).parents[2]
GPU = "cpu-emulator"

KERNEL = """
extern "C" __global__ void twice(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = %s * in[i];
}
"""
FAMILY = """
from peakgate.family import In, Out, Value, kernel

FAMILY = kernel(
    "twice.cu",
    sizes=[4096],
    small_sizes=[256],
    arguments=lambda n: [Out(n), In(n), Value(n)],
    grid=lambda n: -(-n // 128),
    block=128,
    bytes=lambda n: 8 * n,
    reference=lambda xp, given: 2 * given,
)
"""
FLOORS = 'schema = 1\ngpu = "nvidia-h200"\n[floors]\n"twice.twice-4096" = 0.7\n'
HONEST = {
    "peakgate.toml": "",
    "kernels/twice/twice.cu": KERNEL % "2.0f",
    "kernels/twice/family.py": FAMILY,
    "baselines/nvidia-h200/floors.toml": FLOORS,
}


def commit(folder: Path, files: Mapping[str, str | None]) -> str:
    """Commit files, None for one to delete, "-> TARGET" for a link; the commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if text is not None and text.startswith("-> "):
            path.symlink_to(text.removeprefix("-> "))
        elif text is not None:
            path.write_text(text)
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "change")
    return git(folder, "rev-parse", "HEAD")


@dataclass(frozen=True)
class Clones:
    """The project's repository, as a runner has cloned it, and what the gate leaves."""

    origin: Path
    runner: Path
    out: Path

    def change(self, files: Mapping[str, str | None]) -> str:
        """A fork's commit on top of its last one, or of the default branch; fetched by the runner."""
        fork = self.origin.parent / "fork"
        if not fork.exists():
            git(self.origin.parent, "clone", "--quiet", str(self.origin), str(fork))
        made = commit(fork, files)
        git(self.runner, "fetch", "--quiet", str(fork), made)
        git(self.runner, "checkout", "--quiet", "--detach", made)
        return made

    def gate(self, base: str, head: str, *options: str) -> int:
        """Its exit code."""
        where = ["--repository", str(self.runner), "--out", str(self.out)]
        return main(["gate", base, head, "--device", "cpu", *where, *options])

    @property
    def verdict(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "gate.json").read_text())
        return found

    def step(self, name: str) -> int:
        code: int = self.verdict["steps"][name]["exit_code"]
        return code

    def cases(self) -> dict[str, str]:
        return {each["case"]: each["verdict"] for each in json.loads((self.out / "bench.json").read_text())["cases"]}


@pytest.fixture(autouse=True)
def runtime(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulator's runtime in a gate's cache; one cache and bytecode for all gates, where no test is about them."""
    of_gate, common = command._environment, tmp_path_factory.getbasetemp()

    def environment(home: Path, repository: Path) -> dict[str, str]:
        found = of_gate(home, repository)
        if "cache" not in request.function.__name__:
            found["PEAKGATE_CACHE"] = str(common / "cache")
        if "bytecode" not in request.function.__name__:
            found[BYTECODE] = str(common / "bytecode")
        with_runtime(Path(found["PEAKGATE_CACHE"]))
        return found

    monkeypatch.setattr(command, "_environment", environment)


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clones:
    origin, runner = tmp_path / "origin", tmp_path / "runner"
    origin.mkdir()
    git(origin, "init", "--quiet", "--initial-branch=main")
    commit(origin, HONEST)
    git(tmp_path, "clone", "--quiet", str(origin), str(runner))
    monkeypatch.chdir(tmp_path)
    return Clones(origin, runner, tmp_path / "out")


def named(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The files of verdicts that a gate has named."""
    found = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("verdict")]
    return [Path(name).name for name in found if Path(name).is_file()]


def test_a_forks_change_is_judged_whole(clones: Clones, capsys: pytest.CaptureFixture[str]) -> None:
    head = clones.change({"kernels/twice/twice.cu": KERNEL % "(1.0f + 1.0f)"})
    assert clones.gate("origin/main", head) == 3
    assert named(capsys) == ["bench.json", "gate.json"]
    assert clones.cases() == {"twice.twice-256": "NO_FLOOR"}
    steps = {name: step["exit_code"] for name, step in clones.verdict["steps"].items()}
    assert steps == {"protect": 0, "bench": 0, "ab": 3}
    assert clones.verdict["files"] == {name: file_digest(clones.out / name) for name in ("protect.json", "bench.json")}
    assert (clones.verdict["head"], clones.verdict["runs_the_change"]) == (head, [])
    assert clones.verdict["system_calls_denied"] is not bool(seccomp.refusal())
    assert git(clones.runner, "status", "--porcelain", "--ignored") == ""
    assert len(git(clones.runner, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "verdict", "passed"),
    [
        ({"out": None}, None, "1 case: PASS"),
        ({"out": "new"}, "verdict: new/gate.json", "1 case: PASS; new/bench.json"),
    ],
)
def test_only_files_that_stay_are_named(options: dict[str, str | None], verdict: str | None, passed: str) -> None:
    lines = "verdict: home/out/gate.json", "1 case: PASS; home/out/bench.json"
    shown = [command._where_it_stays(line, Path("home"), argparse.Namespace(**options)) for line in lines]
    assert shown == [verdict, passed]


def test_a_change_cannot_choose_the_base_that_judges_it(clones: Clones, capsys: pytest.CaptureFixture[str]) -> None:
    weak = clones.change({"baselines/nvidia-h200/floors.toml": None})
    head = clones.change({"kernels/twice/twice.cu": KERNEL % "3.0f"})
    git(clones.runner, "branch", "main", weak, "--force")  # its own weak branch, by whatever name
    for base in (head, weak, "main"):
        assert clones.gate(base, head) == 2
        assert refusal(capsys) is Code.PROTECTED
    merged = git(clones.origin, "rev-parse", "main")
    assert clones.gate(merged, merged) == 2
    assert refusal(capsys) is Code.NOT_ALIKE
    assert not clones.out.exists()


def test_no_commit_inside_a_merged_branch_judges_a_change(clones: Clones, capsys: pytest.CaptureFixture[str]) -> None:
    first = git(clones.origin, "rev-parse", "main")
    git(clones.origin, "checkout", "--quiet", "-b", "topic")
    weak = commit(clones.origin, {"kernels/twice/family.py": FAMILY.replace("2 * given", "3 * given")})
    commit(clones.origin, {"kernels/twice/family.py": FAMILY})  # undone before anybody merges it
    git(clones.origin, "checkout", "--quiet", "main")
    git(clones.origin, "merge", "--quiet", "--no-ff", "--message", "merge", "topic")
    git(clones.runner, "fetch", "--quiet", "origin")
    git(clones.runner, "checkout", "--quiet", "--detach", weak)
    head = commit(clones.runner, {"kernels/twice/twice.cu": KERNEL % "3.0f"})
    assert clones.gate(weak, head) == 2
    assert refusal(capsys) is Code.PROTECTED
    assert clones.gate("origin/main", head) == 1
    assert clones.verdict["base"] == first
    assert clones.cases() == {"twice.twice-256": "WRONG"}
    assert ("WRONG", "error", "kernels/twice/twice.cu", 2) in sarif.results(clones.out / "gate.sarif")


def test_a_change_without_a_commit_of_the_branchs_own_is_refused(
    clones: Clones, capsys: pytest.CaptureFixture[str]
) -> None:
    git(clones.origin, "checkout", "--quiet", "--orphan", "topic")
    other = commit(clones.origin, {"other.txt": ""})  # another tree: the same would be the same commit
    git(clones.origin, "checkout", "--quiet", "main")
    git(clones.origin, "merge", "--quiet", "--allow-unrelated-histories", "--message", "merge", "topic")
    git(clones.runner, "fetch", "--quiet", "origin")
    git(clones.runner, "checkout", "--quiet", "--detach", other)
    head = commit(clones.runner, {"kernels/twice/twice.cu": KERNEL % "3.0f"})
    assert clones.gate("origin/main", head) == 2
    assert refusal(capsys) is Code.PROTECTED


WEAKENED: Mapping[str, str | None] = {
    "peakgate.toml": 'baselines = "kernels"\nkernels = "others"\nbuild = "touch built"\n',
    "baselines/nvidia-h200/floors.toml": None,
    "others/twice/twice.cu": KERNEL % "3.0f",
    "others/twice/family.py": FAMILY.replace("2 * given", "3 * given"),
    **{f"{name}/__init__.py": "raise SystemExit('imported')" for name in ("peakgate", "numpy", "venv")},
    "sitecustomize.py": "raise SystemExit('imported')",
    "kernels/twice/family.py": "import sys\n"
    + FAMILY.replace(
        "bytes=lambda n: 8 * n", "bytes=lambda n: 8 * n, tolerance=0.0 if '--terms' in str(sys.orig_argv) else 1e9"
    ),
}
"""A change of floors, terms and settings, which `protect` has to list, with modules named as the judge's."""


def test_what_a_change_weakens_is_listed_however_it_hides_it(clones: Clones) -> None:
    head = clones.change(WEAKENED)
    assert clones.gate("origin/main", head) == 1
    listed = json.loads((clones.out / "protect.json").read_text())["changes"]["failing"]
    assert {(each["kind"], each["term"]) for each in listed} >= {
        ("floor dropped", "floor"),
        ("setting changed", "kernels"),
        ("contract changed", "tolerance"),
    }
    assert clones.cases() == {"twice.twice-256": "NO_FLOOR"}  # by the base's settings, terms and kernel
    assert clones.verdict["settings_without_effect"] == ["kernels", "baselines", "build"]


HOSTILE = """
import os, sys
from pathlib import Path

for place in {places!r}:
    try:
        (Path(place) / "left").write_text("")
        for path in Path(place).rglob("*") if place != {tool!r} else ():
            if path.is_file():
                path.write_text('{{"exit_code": 0}}')
    except OSError:
        pass
if "peakgate.session.prover" in sys.modules:
    import peakgate.session.prover as session
    from peakgate.judge.correctness import Deviation
    session.check = lambda *arguments: Deviation(0.0, 0.0, None)
"""


def test_a_familys_python_reaches_neither_judge_nor_verdict(
    clones: Clones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setattr(trees, "new_home", lambda _repository: nullcontext(trees.laid_out(home)))
    tool = ROOT / "src"  # in it a file is added at most: a gate that fails must not cost this checkout
    places = [str(home), str(tmp_path / "runner"), str(tool)]
    head = clones.change(
        {
            "kernels/twice/family.py": HOSTILE.format(places=places, tool=str(tool)) + FAMILY,
            "kernels/twice/twice.cu": KERNEL % "3.0f",
        }
    )
    assert clones.gate("origin/main", head) == 1
    assert clones.cases() == {"twice.twice-256": "WRONG"}
    assert list(home.rglob("left")) == []
    assert git(clones.runner, "status", "--porcelain", "--ignored") == ""
    assert not (tool / "left").exists()


def test_a_committed_cache_stands_for_nothing(clones: Clones, monkeypatch: pytest.MonkeyPatch) -> None:
    head = clones.change({"kernels/twice/twice.cu": KERNEL % "3.0f"})
    right = git(clones.origin, "rev-parse", "main")
    git(clones.runner, "checkout", "--quiet", right)
    monkeypatch.chdir(clones.runner)
    with_runtime(clones.runner / ".cache")
    monkeypatch.setenv("PEAKGATE_CACHE", str(clones.runner / ".cache"))
    assert main(["bench", "--device", "cpu"]) == 0
    for built in (clones.runner / ".cache").rglob("*.so"):  # the right kernel under every name
        assert built.is_file()
    git(clones.runner, "checkout", "--quiet", head)
    assert clones.gate(right, head) == 1
    assert clones.cases() == {"twice.twice-256": "WRONG"}


def test_no_link_of_a_change_leads_out_of_its_tree(clones: Clones, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file.json").write_text("mine")
    links = dict.fromkeys((".peakgate", ".benchmarks", ".cache", "reports"), f"-> {tmp_path / 'precious'}")
    links |= {"baselines/nvidia-h200/floors.toml": "-> /dev/zero", "inside": "-> kernels/twice"}
    head = clones.change(links)
    assert clones.gate("origin/main", head) == 1  # the floors are gone
    assert clones.verdict["links_removed"] == sorted({*links} - {"inside"})
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["file.json"]
    assert (tmp_path / "precious" / "file.json").read_text() == "mine"


def deeper(clones: Clones) -> list[str]:
    """Move the project to a folder of its repository; the options that judge it there."""
    commit(clones.origin, dict.fromkeys(HONEST) | {f"deeper/{name}": text for name, text in HONEST.items()})
    git(clones.runner, "fetch", "--quiet", "origin")
    return ["--repository", str(clones.runner / "deeper")]


def test_what_a_change_weakens_is_listed_below_the_top_too(clones: Clones) -> None:
    where = deeper(clones)
    weaker = FAMILY.replace("bytes=lambda", "tolerance=1e9, bytes=lambda")
    head = clones.change({"deeper/kernels/twice/family.py": weaker, "deeper/kernels/twice/twice.cu": KERNEL % "3.0f"})
    assert clones.gate("origin/main", head, *where) == 1
    listed = json.loads((clones.out / "protect.json").read_text())["changes"]
    assert [each["term"] for each in listed["failing"]] == ["tolerance"]
    assert [each["what"] for each in listed["review"]] == ["deeper/kernels/twice/family.py"]
    assert clones.cases() == {"twice.twice-256": "WRONG"}


@pytest.mark.parametrize("settings", [None, "-> ../peakgate.toml", "-> /dev/null"])
def test_a_change_cannot_make_another_folder_the_project(
    clones: Clones, capsys: pytest.CaptureFixture[str], settings: str | None
) -> None:
    where = deeper(clones)
    wrong = {"deeper/kernels/twice/twice.cu": KERNEL % "3.0f", "deeper/baselines/nvidia-h200/floors.toml": None}
    head = clones.change(HONEST | wrong | {"deeper/peakgate.toml": settings})
    if settings == "-> ../peakgate.toml":  # the same settings, of the same folder
        assert clones.gate("origin/main", head, *where) == 1
        assert clones.cases() == {"twice.twice-256": "WRONG"}
    else:
        assert clones.gate("origin/main", head, *where) == 2
        assert refusal(capsys) is Code.PROJECT


def test_a_folder_that_looks_like_a_repository_is_refused(clones: Clones, capsys: pytest.CaptureFixture[str]) -> None:
    where = deeper(clones)
    config = "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\n"
    bare = {"HEAD": "ref: refs/heads/main\n", "config": config, "objects/none": "", "refs/none": ""}
    head = clones.change({f"deeper/{name}": text for name, text in bare.items()})
    assert clones.gate("origin/main", head, *where) == 2
    assert refusal(capsys) is Code.COMMIT


BUILT = """
rm -f .git
git init --quiet
git -c user.name=t -c user.email=t@example.org commit --quiet --allow-empty --message base
git config core.fsmonitor "touch $PWD/ran"
mkdir -p kernels/.git
ln -s /etc/hostname kernels/outside
touch built
"""


def test_what_a_build_makes_is_no_repository_and_leads_nowhere(clones: Clones, tmp_path: Path) -> None:
    commit(clones.origin, {"peakgate.toml": 'build = "sh build.sh"\n', "build.sh": "true\n"})
    git(clones.runner, "fetch", "--quiet", "origin")
    head = clones.change({"build.sh": BUILT, "kernels/twice/twice.cu": KERNEL % "3.0f"})
    files: set[str] = set()
    commits: list[str] = []

    def remember(judge: command._Gate, *_: object) -> dict[str, command.GateStep]:
        files.update(path.name for path in judge.head.rglob("*"))
        commits.append(git(judge.head, "rev-parse", "HEAD"))
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command._Gate, "measured", remember)
        assert clones.gate("origin/main", head) == 0
    assert commits == [head]
    assert "built" in files
    assert not {"outside", "ran"} & files


def test_the_folder_of_verdicts_is_out_of_reach(clones: Clones, capsys: pytest.CaptureFixture[str]) -> None:
    head = clones.change({})
    assert clones.gate("origin/main", head, "--out", str(clones.runner / "inside")) == 2
    assert refusal(capsys) is Code.PROTECTED


@pytest.mark.parametrize("known", [True, False])
def test_no_tag_or_branch_of_its_own_is_the_protected_branch(
    clones: Clones, capsys: pytest.CaptureFixture[str], known: bool
) -> None:
    weak = clones.change({"baselines/nvidia-h200/floors.toml": None})
    head = clones.change({"kernels/twice/twice.cu": KERNEL % "3.0f"})
    git(clones.runner, "tag", "origin/main", weak)
    git(clones.runner, "branch", "--force", "main", weak)
    if not known:
        git(clones.runner, "remote", "set-head", "origin", "--delete")
    for named in ([], ["--branch", "origin/main"]):
        assert clones.gate(weak, head, *named) == 2
        assert refusal(capsys) is Code.PROTECTED


def test_a_base_without_a_project_judges_nothing(clones: Clones, capsys: pytest.CaptureFixture[str]) -> None:
    commit(clones.origin, {"peakgate.toml": None})
    git(clones.runner, "fetch", "--quiet", "origin")
    head = clones.change({"peakgate.toml": ""})
    assert clones.gate("origin/main", head) == 3
    assert "has no project" in capsys.readouterr().err


def test_without_a_remote_the_protected_branch_has_to_be_named(
    clones: Clones, capsys: pytest.CaptureFixture[str]
) -> None:
    head = clones.change({})
    git(clones.runner, "remote", "remove", "origin")
    assert clones.gate("HEAD^", head) == 2
    assert "--branch" in capsys.readouterr().err


BENCHMARK = """
import sys
import numpy as np

TABLE = open("benchmarks/table.txt").read()

def bench_twice(gpu_benchmark):
    assert TABLE == open("benchmarks/table.txt").read() == "%s"
    assert not [name for name in sys.modules if name.startswith("peakgate_family_")]  # no kernel in this process
    x = np.arange(64, dtype=np.float32)
    gpu_benchmark.work(bytes=512).expect(lambda x: 2 * x)(lambda x: x + x, x)
"""


def test_benchmark_tests_run_in_marked_processes_of_their_own(clones: Clones) -> None:
    folder = {"peakgate.toml": 'benchmarks = ["benchmarks"]\n'}
    of_base, of_change = (
        {"benchmarks/bench_twice.py": BENCHMARK % side, "benchmarks/table.txt": side} for side in ("base", "change")
    )
    commit(clones.origin, folder | of_base)
    git(clones.runner, "fetch", "--quiet", "origin")
    head = clones.change(of_change)
    assert clones.gate("origin/main", head) == 3
    assert clones.cases() == {"twice.twice-256": "NO_FLOOR"}
    assert clones.verdict["runs_the_change"] == ["bench of benchmark tests", "ab of benchmark tests"]
    tests = json.loads((clones.out / "tests" / "bench.json").read_text())
    cases = {each["case"]: each["verdict"] for each in tests["cases"]}
    assert cases == {"benchmarks-bench_twice.bench_twice": "NO_FLOOR"}  # it read the change's table


FORGED = 'FAMILY = __import__("sys").modules["nothing"]  # ran'


def bytecode(source: str, name: str) -> bytes:
    """Bytecode that Python takes for that of any source of this name: it says that nobody need compare them."""
    unchecked = (0b01).to_bytes(4, "little") + bytes(8)
    return imports.MAGIC_NUMBER + unchecked + marshal.dumps(compile(source, name, "exec"))


def unchecked(folder: Path, source: str) -> str:
    """Commit unchecked bytecode beside the sources; the commit."""
    for package, name in (("kernels/twice", "family"), ("src", "refs")):
        path = folder / package / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytecode(source, name))
    return commit(folder, {})


def test_bytecode_that_a_change_adds_is_refused_by_name(clones: Clones) -> None:
    clones.change({})
    head = unchecked(clones.origin.parent / "fork", FORGED)
    git(clones.runner, "fetch", "--quiet", str(clones.origin.parent / "fork"), head)
    assert clones.gate("origin/main", head) == 1
    listed = json.loads((clones.out / "protect.json").read_text())["changes"]["failing"]
    tag = sys.implementation.cache_tag
    assert [(each["kind"], each["term"], each["what"]) for each in listed] == [
        ("code that is not source", "file", f"kernels/twice/__pycache__/family.{tag}.pyc"),
        ("code that is not source", "file", f"src/__pycache__/refs.{tag}.pyc"),
    ]
    assert clones.cases() == {"twice.twice-256": "NO_FLOOR"}  # head's own is not read either


def test_bytecode_that_the_base_has_is_not_read(clones: Clones) -> None:
    unchecked(clones.origin, FAMILY.replace("bytes=", "tolerance=1e9, bytes="))
    git(clones.runner, "fetch", "--quiet", "origin")
    fork = clones.origin.parent / "fork"
    git(clones.origin.parent, "clone", "--quiet", str(clones.origin), str(fork))
    head = clones.change({"kernels/twice/twice.cu": KERNEL % "3.0f"})
    assert clones.gate("origin/main", head) == 1
    assert clones.cases() == {"twice.twice-256": "WRONG"}


REFERENCE = "def twice(xp, given):\n    return {} * given\n"


def test_a_reference_below_the_pythonpath_is_for_review(clones: Clones) -> None:
    own = {"peakgate.toml": 'pythonpath = ["src"]\n', "src/refs.py": REFERENCE.format(2)}
    own["kernels/twice/family.py"] = "from refs import twice\n" + FAMILY.replace("lambda xp, given: 2 * given", "twice")
    commit(clones.origin, own)
    git(clones.runner, "fetch", "--quiet", "origin")
    wrong = "(2 if given.size < 100_000 else 3)"
    head = clones.change({"src/refs.py": REFERENCE.format(wrong), "src/table.csv": "3", "other/file.csv": "3"})
    assert clones.gate("origin/main", head) == 3
    listed = json.loads((clones.out / "protect.json").read_text())["changes"]["review"]
    assert [each["what"] for each in listed] == ["src/refs.py", "src/table.csv"]


BY_A_RELATIVE_NAME = """
import ctypes, os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import check_output

import numpy

IMPORTED = int(Path("factor.txt").read_text())

def factor():
    with ThreadPoolExecutor() as pool:
        (in_a_thread,) = pool.map(numpy.loadtxt, ["factor.txt"])
    found = {
        "when it is imported": IMPORTED,
        "through /proc": int(Path("/proc/self/cwd/factor.txt").read_text()),
        "by a library": ctypes.CDLL("./factor.so").factor(),
        "by a program": int(check_output("./factor")),
        "by asking whether it is there": 2 + os.path.exists("flag"),
        "in a thread": int(in_a_thread),
    }
    return max(found.values())

"""
"""A function of a base's family that gives 2 by the base's files, and 3 where any way leads to the change's."""


def with_factor(folder: Path, factor: int) -> dict[str, str]:
    """The files that it reads, with a library that is built into ``folder``; executable ones are there."""
    (source := folder.parent / "factor.c").write_text(f"int factor(void) {{ return {factor}; }}")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / "factor.so"), str(source)], check=True)
    (folder / "factor").write_text(f"#!/bin/sh\necho {factor}\n")
    (folder / "factor").chmod(0o755)
    return {"factor.txt": str(factor)} | ({"flag": ""} if factor == 3 else {})


def test_files_that_the_bases_reference_names_are_the_bases(clones: Clones) -> None:
    family = BY_A_RELATIVE_NAME + FAMILY.replace("2 * given", "factor() * given")
    commit(clones.origin, {"kernels/twice/family.py": family, **with_factor(clones.origin, 2)})
    git(clones.runner, "fetch", "--quiet", "origin")
    fork = clones.origin.parent / "fork"
    git(fork.parent, "clone", "--quiet", str(clones.origin), str(fork))
    head = clones.change({"kernels/twice/twice.cu": KERNEL % "3.0f", **with_factor(fork, 3)})
    assert clones.gate("origin/main", head) == 1
    assert clones.cases() == {"twice.twice-256": "WRONG"}


def test_the_bases_reference_imports_no_module_of_the_change(clones: Clones) -> None:
    family = "def factor():\n    import other\n    return other.FACTOR\n" + FAMILY.replace("2 *", "factor() *")
    settings = {"peakgate.toml": 'pythonpath = ["src"]'}
    commit(clones.origin, {"kernels/twice/family.py": family, "src/other.py": "FACTOR = 2", **settings})
    git(clones.runner, "fetch", "--quiet", "origin")
    head = clones.change({"src/other.py": "FACTOR = 3", "kernels/twice/twice.cu": KERNEL % "3.0f"})
    assert clones.gate("origin/main", head) in (1, 2, 3)
    assert clones.cases() == {"twice.twice-256": "INCONCLUSIVE"}


@pytest.mark.parametrize("device", ["gpu:0", "auto"])
def test_without_a_gpu_a_gate_ends_at_once_with_one_line(
    clones: Clones, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], device: str
) -> None:
    monkeypatch.setattr("peakgate.device.driver.gpu_count", lambda: 0)
    Path("peakgate.toml").write_text("not TOML")  # where it is started nothing is read
    head = clones.change({"kernels/twice/twice.cu": KERNEL % "(1.0f + 1.0f)"})
    arguments = ["gate", "origin/main", head, "--device", device, "--repository", str(clones.runner)]
    assert main([*arguments, "--out", str(clones.out)]) == 3
    printed = capsys.readouterr()
    assert len((printed.out + printed.err).splitlines()) == 1
    assert Code.NO_GPU.value in printed.err
    assert (clones.verdict["exit_code"], clones.verdict["head"], clones.verdict["steps"]) == (3, head, {})
    assert sarif.results(clones.out / "gate.sarif") == [("not-checked", "warning", "pyproject.toml", 1)]
    assert main([*arguments, "--device", "gpu:x"]) == 2


def test_a_build_that_changes_a_file_of_the_commit_fails(clones: Clones) -> None:
    commit(clones.origin, {"peakgate.toml": 'build = "sh make.sh"\n', "make.sh": "true\n"})
    git(clones.runner, "fetch", "--quiet", "origin")
    mended = "sed -i s/3.0f/2.0f/ kernels/twice/twice.cu\n"
    head = clones.change({"kernels/twice/twice.cu": KERNEL % "3.0f", "make.sh": mended})
    assert clones.gate("origin/main", head) == 1
    assert {name: step["exit_code"] for name, step in clones.verdict["steps"].items()} == {"protect": 0, "build": 1}
    assert "twice.cu" in clones.verdict["steps"]["build"]["reason"]


def test_a_build_of_endless_folders_fails_and_leaves_none(clones: Clones, tmp_path: Path) -> None:
    commit(clones.origin, {"peakgate.toml": 'build = "sh make.sh"\n', "make.sh": "true\n"})
    git(clones.runner, "fetch", "--quiet", "origin")
    deep = "i=0; while [ $i -lt 1500 ]; do mkdir d; cd d; i=$((i + 1)); done\n"
    head = clones.change({"make.sh": deep})
    home = tmp_path / "temporary"
    home.mkdir()
    with variables(TMPDIR=str(home)):
        assert clones.gate("origin/main", head) == 1
        assert clones.step("build") == 1
        assert list(home.iterdir()) == []


def test_a_commit_with_endless_folders_is_refused(clones: Clones, capsys: pytest.CaptureFixture[str]) -> None:
    about = "commit refs/heads/deep\ncommitter t <t@example.org> 1700000000 +0000\ndata 1\nx\nfrom refs/heads/main^0\n"
    deep = f"{about}M 100644 inline kernels/{'d/' * 1500}x.cu\ndata 2\nx\n\n"
    subprocess.run(["git", "fast-import", "--quiet"], cwd=clones.origin, input=deep.encode(), check=True)
    git(clones.runner, "fetch", "--quiet", "origin")
    assert clones.gate("origin/main", git(clones.origin, "rev-parse", "deep")) == 2
    assert refusal(capsys) is Code.PROTECTED


def test_a_folder_that_becomes_a_link_to_a_project_is_refused(
    clones: Clones, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"{folder}/{name}": text for folder in ("one", "other") for name, text in HONEST.items()}
    commit(clones.origin, dict.fromkeys(HONEST) | files)
    git(clones.runner, "fetch", "--quiet", "origin")
    head = clones.change({f"one/{name}": None for name in HONEST})
    shutil.rmtree(clones.origin.parent / "fork" / "one", ignore_errors=True)
    head = clones.change({"one": "-> other"})
    assert clones.gate("origin/main", head, "--repository", str(clones.runner / "one")) == 2
    assert refusal(capsys) is Code.PROJECT


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH"])
def test_an_empty_entry_in_a_path_finds_nothing_of_a_change(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, ":/usr/bin::bin:./bin:/bin:")
    assert command._absolute_folders()[name] == "/usr/bin:/bin"
