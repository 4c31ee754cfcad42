"""What ``ab`` is given: commits, folders, numbers; and what ``ab --from`` makes of a saved experiment."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from ab_experiment import CHANGED, PAD, ab, ran, reported, start_quickly
from ab_fake import FakeSide, commit, git
from refusals import refusal
from synthetic_runs import slower

from peakgate.base.errors import Code
from peakgate.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_quickly(tmp_path, monkeypatch)


def test_two_commits_are_measured_in_worktrees_that_are_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, log = tmp_path / "repository", tmp_path / "runs.log"
    first = commit(FakeSide().write(repository, "first", log), "first")
    second = commit(FakeSide(CHANGED, slower(PAD, 1.3)).write(repository, "second", log), "second")
    monkeypatch.chdir(repository)
    options = ["--out", str(tmp_path / "out"), "--pairs", "2,4", "--device", "gpu:0,1"]
    assert main(["ab", first[:8], second, *options]) == 1
    assert {name for name, *_ in ran(tmp_path)} == {"first", "second"}
    assert git(repository, "worktree", "list").count("\n") == 0
    assert git(repository, "status", "--porcelain") == ""


def test_the_working_tree_is_head_unless_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, log = tmp_path / "repository", tmp_path / "runs.log"
    commit(FakeSide().write(repository, "committed", log), "first")
    FakeSide(CHANGED).write(repository, "edited", log)
    monkeypatch.chdir(repository)
    assert main(["ab", "HEAD", "--out", str(tmp_path / "out"), "--pairs", "2"]) == 0
    assert {name for name, *_ in ran(tmp_path)[:2]} == {"committed", "edited"}


@pytest.mark.parametrize(
    ("capability", "code"), [(["--capability", "9.0"], Code.INSTALLATION), ([], Code.NO_GPU)], ids=["NVRTC", "GPU"]
)
def test_what_a_plan_lacks_is_named_before_a_side_is_built(
    capability: list[str], code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    repository = tmp_path / "repository"
    commit(FakeSide().write(repository, "only", tmp_path / "runs.log"), "only")
    (repository / "kernels").mkdir(exist_ok=True)
    monkeypatch.chdir(repository)
    monkeypatch.setattr("peakgate.compare.ab.command.device_uuid", lambda _: None)
    monkeypatch.setattr("peakgate.compare.ab.command.folders", lambda *_: pytest.fail("built"))
    monkeypatch.delattr("peakgate.compile.nvrtc", raising=False)  # where another test has imported it
    monkeypatch.setitem(sys.modules, "peakgate.compile.nvrtc", None)
    assert main(["ab", "HEAD", "--plan", *capability]) == (2 if code is Code.INSTALLATION else 3)
    assert refusal(capsys) is code


def test_a_commit_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    repository = tmp_path / "repository"
    commit(FakeSide().write(repository, "only", tmp_path / "runs.log"), "only")
    monkeypatch.chdir(repository)
    for gpu in ("GPU-0", None):
        monkeypatch.setattr("peakgate.compare.ab.command.device_uuid", lambda _, gpu=gpu: gpu)
        assert main(["ab", "nosuchbranch"]) == 2
        assert refusal(capsys) is Code.COMMIT


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], Code.OPTION),
        (["a", "b", "c"], Code.OPTION),
        (["a", "--device", "cpu"], Code.OPTION),
        (["a", "--device", "gpu:0,"], Code.OPTION),
        (["a", "--plan", "--capability", "x"], Code.OPTION),
        (["a", "--plan", "--capability", "5.2"], Code.OPTION),
        (["./nowhere", "./nowhere"], Code.PROJECT),
    ],
)
def test_sides_that_make_no_sense_exit_2(arguments: list[str], code: Code, capsys: Captured) -> None:
    assert main(["ab", *arguments]) == 2
    assert refusal(capsys) is code


@pytest.mark.parametrize("option", [["--pairs", "1"], ["--budget", "0"], ["--budget", "nan"], ["--pairs", "2,1"]])
def test_numbers_that_make_no_sense_exit_2(option: list[str], capsys: Captured) -> None:
    assert main(["ab", "HEAD", *option]) == 2
    assert refusal(capsys) is Code.OPTION


def test_what_cannot_be_explained_says_why_and_saved_pairs_are_decided_again_without_measuring(
    tmp_path: Path, capsys: Captured
) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, slower(PAD, 1.3)), "--explain") == 1
    first, runs = reported(tmp_path), ran(tmp_path)
    (explained,) = first["explained"]["cases"]
    assert (explained["case"], explained["findings"]) == (PAD, [])
    assert explained["problem"].startswith("base: ")
    assert re.search(f"Why slower\n.*\n  {PAD}  base: ", capsys.readouterr().out)
    assert main(["ab", "--from", str(tmp_path / "out"), "--out", str(tmp_path / "out")]) == 1
    again = reported(tmp_path)
    assert again["rows"] == first["rows"]
    assert again["exit_code"] == first["exit_code"]
    assert ran(tmp_path) == runs
    assert PAD in capsys.readouterr().out


def test_an_earlier_experiment_in_the_same_folder_does_not_mix(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, slower(PAD, 1.3))) == 1
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED)) == 0
    names = sorted(path.name for path in (tmp_path / "out" / "ab").glob("*.json"))
    assert not [name for name in names if name.startswith("confirm")]


def test_a_folder_without_pairs_cannot_be_decided(tmp_path: Path, capsys: Captured) -> None:
    assert main(["ab", "--from", str(tmp_path)]) == 2
    assert refusal(capsys) is Code.WHICH_RUN


SIDE = {"label": "a", "commit": None}
SETTINGS = {"tier": "gate", "device": "gpu", "pairs": 10, "confirm_pairs": 20}
NO_TABLE = {"schema": 1, "base": SIDE, "head": SIDE, "settings": SETTINGS, "plan": [], "processes": [], "notes": []}


@pytest.mark.parametrize("text", ['{"schema": 1, "base": ', "[]", json.dumps(NO_TABLE)])
def test_what_is_no_whole_manifest_is_named(tmp_path: Path, capsys: Captured, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    assert main(["ab", "--from", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_side_named_beside_an_earlier_experiment_is_refused(tmp_path: Path, capsys: Captured) -> None:
    assert main(["ab", "--from", str(tmp_path), "HEAD"]) == 2
    assert refusal(capsys) is Code.OPTION
