"""Whole experiments, with a suite that plays back times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reports import __main__ as command
from reports.__main__ import main
from reports.ab import process
from reports.tests.ab_fake import FakeSide, commit, git
from reports.tests.synthetic import LADDER, slower

PAD = "transpose.smem_pad-8192-32x8"
SMEM = "transpose.smem-8192-32x8"
CHANGED = dict.fromkeys(LADDER, "same") | {PAD: "changed"}
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to import before a fork, and no saved runs to find."""
    monkeypatch.setattr(process, "PRELOAD", ())
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")


def ab(tmp_path: Path, base: FakeSide, head: FakeSide, *options: str) -> int:
    """Run ``ab`` on two folders with few pairs."""
    log = tmp_path / "runs.log"
    folders = [side.write(tmp_path / name, name, log) for name, side in (("base", base), ("head", head))]
    return main(
        [
            *("ab", "--base-dir", str(folders[0]), "--head-dir", str(folders[1]), "--out", str(tmp_path / "out")),
            *("--pairs", "4", "--confirm-pairs", "4", *options),
        ]
    )


def ran(tmp_path: Path) -> list[list[str]]:
    """Side, kind and cases of each process, as they ran."""
    return [line.split() for line in (tmp_path / "runs.log").read_text().splitlines()]


def told(tmp_path: Path) -> dict[str, Any]:
    verdict = json.loads((tmp_path / "out" / "ab.json").read_text())
    assert isinstance(verdict, dict)
    return verdict


def row(tmp_path: Path, case: str) -> dict[str, Any]:
    return next(row for row in told(tmp_path)["rows"] if row["case"] == case)


def test_a_slower_kernel_is_found_confirmed_and_explained(tmp_path: Path, capsys: Captured) -> None:
    head = FakeSide(CHANGED, slower(PAD, 1.3), extra={PAD: {"registers": 48, "fingerprint": "changed"}})
    assert ab(tmp_path, FakeSide(extra={PAD: {"fingerprint": "same"}}), head) == 1
    found = row(tmp_path, PAD)
    assert found["verdict"] == "SLOWER"
    assert "1.30x slower" in found["reason"]
    assert "registers 32 to 48" in found["reason"]
    assert found["p_value"] < 0.01
    assert told(tmp_path)["counts"] == {"SLOWER": 1, "SAME": len(LADDER) - 1}
    captured = capsys.readouterr()
    assert PAD in captured.out
    assert "screen 2 of 4, head, 6 cases, about" in captured.err


def test_processes_run_in_turns_that_alternate_and_only_the_first_of_a_side_proves(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED)) == 0
    runs = ran(tmp_path)
    assert [name for name, _, *_ in runs] == ["base", "head", *("base", "head", "head", "base") * 2]
    assert [kind for _, kind, *_ in runs] == ["proof"] * 2 + ["repeat"] * 8


def test_unchanged_machine_code_is_not_measured_but_for_the_sentinels(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED), "--sentinels", "3") == 0
    assert all(len(cases) == 4 and PAD in cases for _, _, *cases in ran(tmp_path))
    verdict = told(tmp_path)
    assert "11 cases have the same machine code on both sides and were not measured" in verdict["notes"]
    unmeasured = [row for row in verdict["rows"] if "not measured" in row["reason"]]
    assert len(unmeasured) == 11
    assert {row["verdict"] for row in unmeasured} == {"SAME"}


def test_suspects_alone_are_confirmed_beside_the_sentinels(tmp_path: Path) -> None:
    changed = dict.fromkeys(LADDER, "changed")
    assert ab(tmp_path, FakeSide(), FakeSide(changed, slower(PAD, 0.8)), "--sentinels", "0") == 0
    assert row(tmp_path, PAD)["verdict"] == "FASTER"
    confirming = [cases for _, _, *cases in ran(tmp_path)][10:]
    assert confirming
    assert all(PAD in cases and len(cases) < len(LADDER) for cases in confirming)


def test_sentinels_that_move_together_are_told_apart_from_the_commit(tmp_path: Path) -> None:
    head = FakeSide(CHANGED, {case: time_us * 1.02 for case, time_us in LADDER.items()})
    assert ab(tmp_path, FakeSide(), head) == 1
    assert any(note.startswith("environment not steady") for note in told(tmp_path)["notes"])
    sentinels = [row for row in told(tmp_path)["rows"] if "as a sentinel" in row["reason"]]
    assert [row["verdict"] for row in sentinels] == ["SAME"] * 5


def test_new_missing_wrong_and_unbuildable_cases_are_told(tmp_path: Path) -> None:
    added, gone, broken, wrong = "transpose.new-4096", "transpose.gone-4096", SMEM, PAD
    base = FakeSide(dict.fromkeys([*LADDER, gone], "same"))
    codes: dict[str, str | None] = dict.fromkeys([*LADDER, added], "same")
    head = FakeSide(
        codes | {broken: None, wrong: "changed"},
        {**LADDER, added: 50.0},
        refused={broken: ("WRONG", "transpose/smem.cu:7: expected a ;"), wrong: ("WRONG", "output 0 [3] is 7, not 8")},
    )
    assert ab(tmp_path, base, head) == 1
    assert row(tmp_path, added)["verdict"] == "NEW"
    assert row(tmp_path, gone)["verdict"] == "MISSING"
    assert (row(tmp_path, broken)["verdict"], row(tmp_path, broken)["reason"]) == (
        "WRONG",
        "transpose/smem.cu:7: expected a ;",
    )
    assert row(tmp_path, wrong)["reason"] == "output 0 [3] is 7, not 8"
    assert all(wrong not in cases and broken not in cases for _, kind, *cases in ran(tmp_path) if kind == "repeat")


def test_a_changed_family_file_has_its_unchanged_kernels_measured(tmp_path: Path) -> None:
    """The same machine code launched in another shape is another case."""
    base, head = (FakeSide().write(tmp_path / name, name, tmp_path / "runs.log") for name in ("base", "head"))
    (head / "suite" / "families" / "transpose.py").write_text("FAMILY = 'another grid'\n")
    options = ["--base-dir", str(base), "--head-dir", str(head), "--out", str(tmp_path / "out"), "--pairs", "2"]
    assert main(["ab", *options]) == 0
    assert all(len(cases) == len(LADDER) for _, _, *cases in ran(tmp_path)[:6])


def test_a_base_too_old_to_tell_its_machine_code_is_measured_in_full(tmp_path: Path) -> None:
    base = FakeSide(tells_fingerprints=False)
    head = FakeSide(CHANGED, {**slower(PAD, 1.2), "transpose.new-4096": 50.0})
    assert ab(tmp_path, base, head) == 1
    assert row(tmp_path, PAD)["verdict"] == "SLOWER"
    assert row(tmp_path, "transpose.new-4096")["verdict"] == "NEW"
    assert any("too old" in note for note in told(tmp_path)["notes"])


def test_a_budget_that_is_used_up_leaves_the_undecided_inconclusive(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED), "--budget", "0.000001") == 3
    assert row(tmp_path, PAD)["verdict"] == "INCONCLUSIVE"
    assert row(tmp_path, PAD)["reason"] == "the budget of 1e-06 s is used up after 0 of 4 pairs"
    assert told(tmp_path)["stopped"] == "the budget of 1e-06 s is used up"


def test_a_head_whose_suite_fails_to_start_exits_1_with_one_line(tmp_path: Path, capsys: Captured) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, fail_at=1)) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("head: its suite exits 1: ERROR: no GPU left for head (all of it: ")
    assert told(tmp_path)["exit_code"] == 1


def test_a_base_whose_suite_fails_to_start_exits_2_with_one_line(tmp_path: Path, capsys: Captured) -> None:
    assert ab(tmp_path, FakeSide(fail_at=1), FakeSide(CHANGED)) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("base: its suite exits 1: ERROR: no GPU left for base")


def test_a_side_whose_kernels_cannot_be_listed_says_why(tmp_path: Path, capsys: Captured) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(fingerprints_fail="kernels/transpose: cannot be listed")) == 1
    assert "exits 1: kernels/transpose: cannot be listed" in capsys.readouterr().err


def test_a_machine_without_a_gpu_is_told_apart_from_a_broken_side(tmp_path: Path, capsys: Captured) -> None:
    said = "no GPU answers, see nvidia-smi; by itself this command builds for --capability 9.0 say"
    assert ab(tmp_path, FakeSide(fingerprints_fail=said), FakeSide(fingerprints_fail=said)) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("ab measures on a GPU and none answers on this machine: see `nvidia-smi`")


def test_a_side_that_breaks_on_the_way_leaves_the_rest_undecided(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, fail_at=6)) == 3
    assert "ERROR: no GPU left for head" in row(tmp_path, PAD)["reason"]


def test_where_nothing_changed_and_nothing_is_watched_nothing_is_measured(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(), "--sentinels", "0") == 0
    assert not (tmp_path / "runs.log").exists()
    assert told(tmp_path)["counts"] == {"SAME": len(LADDER)}


def test_a_case_that_the_gpu_refuses_on_both_sides_is_left_out_and_on_one_side_is_missing(tmp_path: Path) -> None:
    without_pad = {case: time_us for case, time_us in LADDER.items() if case != PAD}
    assert ab(tmp_path, FakeSide(times_us=without_pad), FakeSide(CHANGED, without_pad)) == 0
    assert PAD not in {row["case"] for row in told(tmp_path)["rows"]}
    assert any("this GPU cannot run them on either side" in note for note in told(tmp_path)["notes"])
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, without_pad)) == 1
    assert row(tmp_path, PAD)["verdict"] == "MISSING"


def test_a_kernel_found_wrong_in_a_repeat_is_wrong(tmp_path: Path) -> None:
    """A race shows when it likes."""
    refused = {PAD: ("WRONG", "an illegal memory access")}
    base = FakeSide().write(tmp_path / "base", "base", tmp_path / "runs.log")
    head = FakeSide(CHANGED).write(tmp_path / "head", "head", tmp_path / "runs.log")
    flaky = (head / "suite" / "__main__.py").read_text().replace("refused = {", "refused = {} if not repeat else {", 1)
    (head / "suite" / "__main__.py").write_text(flaky)
    script = json.loads((head / "script.json").read_text()) | {"refused": refused}
    (head / "script.json").write_text(json.dumps(script))
    options = ["--base-dir", str(base), "--head-dir", str(head), "--out", str(tmp_path / "out"), "--pairs", "2"]
    assert main(["ab", *options]) == 1
    assert row(tmp_path, PAD)["reason"] == "an illegal memory access"


def test_saved_pairs_are_decided_again_without_measuring(tmp_path: Path, capsys: Captured) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, slower(PAD, 1.3))) == 1
    first, runs = told(tmp_path), ran(tmp_path)
    capsys.readouterr()
    assert main(["decide", str(tmp_path / "out"), "--out", str(tmp_path / "out")]) == 1
    again = told(tmp_path)
    assert again["rows"] == first["rows"]
    assert again["exit_code"] == first["exit_code"]
    assert ran(tmp_path) == runs
    assert PAD in capsys.readouterr().out


def test_a_folder_without_pairs_cannot_be_decided(tmp_path: Path, capsys: Captured) -> None:
    assert main(["decide", str(tmp_path)]) == 2
    assert "no manifest.json in it; name the output folder of `python -m reports ab`" in capsys.readouterr().err


SIDE = {"label": "a", "commit": None}
SETTINGS = {"tier": "gate", "device": "gpu", "pairs": 10, "confirm_pairs": 20}
NO_TABLE = {"schema": 1, "base": SIDE, "head": SIDE, "settings": SETTINGS, "plan": [], "processes": [], "notes": []}


@pytest.mark.parametrize("text", ['{"schema": 1, "base": ', "[]", json.dumps(NO_TABLE)])
def test_what_is_no_whole_manifest_is_named(tmp_path: Path, capsys: Captured, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    assert main(["decide", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_earlier_experiment_in_the_same_folder_does_not_mix(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, slower(PAD, 1.3))) == 1
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED)) == 0
    names = sorted(path.name for path in (tmp_path / "out" / "ab").glob("*.json"))
    assert not [name for name in names if name.startswith("confirm")]


def test_two_commits_are_measured_in_worktrees_that_are_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, log = tmp_path / "repository", tmp_path / "runs.log"
    first = commit(FakeSide().write(repository, "first", log), "first")
    second = commit(FakeSide(CHANGED, slower(PAD, 1.3)).write(repository, "second", log), "second")
    monkeypatch.chdir(repository)
    options = ["--out", str(tmp_path / "out"), "--pairs", "2", "--confirm-pairs", "4"]
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
    assert [name for name, *_ in ran(tmp_path)][:2] == ["committed", "edited"]


def test_a_commit_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    repository = tmp_path / "repository"
    commit(FakeSide().write(repository, "only", tmp_path / "runs.log"), "only")
    monkeypatch.chdir(repository)
    assert main(["ab", "nosuchbranch"]) == 2
    assert capsys.readouterr().err.startswith("nosuchbranch: no such commit in this repository")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "ab needs a BASE"),
        (["a", "b", "c"], "'c' is one too many"),
        (["a", "--device", "cpu"], "--device cpu: ab measures on a GPU; expected gpu or gpu:N"),
        (["--base-dir", "nowhere", "--head-dir", "nowhere"], "nowhere: no folder with a suite/ in it"),
    ],
)
def test_sides_that_make_no_sense_exit_2(arguments: list[str], said: str, capsys: Captured) -> None:
    assert main(["ab", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--pairs", "1"], ["--budget", "0"], ["--budget", "nan"], ["--sentinels", "-1"]])
def test_numbers_that_make_no_sense_exit_2(option: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["ab", "HEAD", *option])
    assert caught.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_an_interrupt_leaves_a_readable_partial_report_and_exits_130(tmp_path: Path) -> None:
    log = tmp_path / "runs.log"
    base = FakeSide().write(tmp_path / "base", "base", log)
    head = FakeSide(CHANGED, interrupt_at=5).write(tmp_path / "head", "head", log)
    options = ["--base-dir", str(base), "--head-dir", str(head), "--out", str(tmp_path / "out"), "--pairs", "4"]
    root = str(Path(command.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "reports", "ab", *options],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert row(tmp_path, PAD)["reason"] == "interrupted after 1 of 4 pairs"
    assert told(tmp_path)["exit_code"] == 130
    assert main(["decide", str(tmp_path / "out"), "--out", str(tmp_path / "again")]) == 3
