"""What a gate makes of the ends of its steps: a step is a process that prints, leaves a verdict, and exits."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from peakgate.core import config
from peakgate.core.config import ProjectSettings
from peakgate.core.errors import PeakgateError
from peakgate.reports.gate import command as gate
from peakgate.reports.gate.branch import Refs

STEP = """#!{python}
import json, sys
from pathlib import Path

verb, out = sys.argv[4], Path(sys.argv[sys.argv.index("--out") + 1])
plan = json.loads(Path({plan!r}).read_text())[verb]
with Path({plan!r}).with_suffix(".log").open("a") as log:
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
        (python := tmp_path / "python").write_text(STEP.format(python=sys.executable, plan=str(plan)))
        python.chmod(0o755)
        home = gate._laid_out(tmp_path / "home")
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
            {"PATH": os.defpath, config.SETTINGS_VARIABLE: str(home / "settings.toml")},
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
def test_an_end_that_the_verdict_does_not_confirm_is_no_pass_and_no_regression(
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


def test_steps_run_in_their_trees_isolated_and_by_the_bases_floors(steps: Steps) -> None:
    _, ran = steps({"protect": ended(0), "bench": ended(0), "ab": ended(0)}, strict_gate=True, explain=True)
    assert [folder for folder, _ in ran] == ["head", "head", "base"]
    assert all(arguments[:3] == ["-I", "-m", "peakgate"] for _, arguments in ran)
    protect, bench, ab = (arguments[3:] for _, arguments in ran)
    assert protect[:4] == ["protect", "--base", "b" * 40, "--acknowledged-from-base"]
    assert bench[bench.index("--baselines-from") + 1] == "b" * 40
    assert {"--strict-gate", "--device", "gpu:0"} <= {*bench} & {*ab}
    assert {"--base-dir", "--head-dir", "--judged-by-base", "--explain"} <= {*ab}
    assert "--explain" not in bench


@pytest.mark.parametrize("refused", [False, True])
def test_benchmark_tests_are_measured_without_kernels_or_refused(steps: Steps, refused: bool) -> None:
    settings = ProjectSettings(benchmarks=("benchmarks",))
    found, ran = steps({"protect": ended(0), "bench": ended(0), "ab": ended(0)}, settings, no_benchmark_tests=refused)
    of_tests = [] if refused else ["bench of benchmark tests", "ab of benchmark tests"]
    assert list(found) == ["protect", "bench", "ab", *of_tests]
    outputs = [arguments[arguments.index("--out") + 1].rpartition("/")[2] for _, arguments in ran]
    assert outputs == ["out"] * 3 + ["tests"] * len(of_tests)
    assert "--judged-by-base" not in ran[-1][1] or refused


def test_without_a_gpu_sides_are_not_compared(steps: Steps) -> None:
    found, ran = steps({"protect": ended(0), "bench": ended(0)}, device="cpu")
    assert (int(found["ab"].exit_code), found["ab"].verdict) == (3, None)
    assert len(ran) == 2


@pytest.mark.parametrize("place", ["repository", "repository/inside", ".", "there"])
def test_a_folder_within_reach_of_the_change_or_used_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "repository").mkdir()
    (tmp_path / "there").mkdir()
    with pytest.raises(PeakgateError) as refused:
        gate._outside(tmp_path / place, tmp_path / "repository", "--out")
    assert refused.value.exit_code == 2
    assert gate._outside(tmp_path / "new", tmp_path / "repository", "--out") == tmp_path / "new"


def test_links_out_of_a_tree_are_removed_and_others_stay(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    for name, target in {"out": str(tmp_path), "deep/far": "/etc", "in": "deep", "circle": "circle"}.items():
        (tree / name).symlink_to(target)
    assert gate._without_links_out(tree) == ["circle", "deep/far", "out"]
    assert sorted(path.name for path in tree.rglob("*")) == ["deep", "in"]


def test_settings_of_the_change_are_named_and_the_bases_are_written(tmp_path: Path) -> None:
    base = ProjectSettings(kernels="kernels", build="make")
    assert gate._differing(base, tmp_path)
    (tmp_path / "peakgate.toml").write_text('kernels = "others"\nbuild = "make"\n')
    assert gate._differing(base, tmp_path) == ["kernels"]
    (tmp_path / "peakgate.toml").write_text("kernels = 3\n")
    assert gate._differing(base, tmp_path) == ["unreadable"]
    (tmp_path / "peakgate.toml").write_text(gate._settings_text(base, build=None, benchmarks=["a b"]))
    assert config.settings_in(tmp_path) == ProjectSettings(kernels="kernels", benchmarks=("a b",))


def test_of_the_callers_environment_only_places_of_programs_and_the_gpu_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/evil")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = gate._environment(tmp_path)
    assert "PYTHONPATH" not in found
    assert (found["CUDA_VISIBLE_DEVICES"], found["PATH"]) == ("1", os.environ["PATH"])
    inside = {found[name] for name in ("PEAKGATE_CACHE", "CUPY_CACHE_DIR", "TMPDIR", config.SETTINGS_VARIABLE)}
    assert all(value.startswith(str(tmp_path)) for value in inside)
