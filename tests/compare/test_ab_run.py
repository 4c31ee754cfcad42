"""Whole experiments, with a suite that plays back times: what is measured, and what is flagged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ab_experiment import CHANGED, PAD, ab, ran, reported, row, start_quickly
from ab_fake import HARNESS, FakeSide
from synthetic_runs import LADDER, slower

from peakgate.base import progress
from peakgate.cli import main
from peakgate.compare.ab import pairs
from peakgate.compare.ab.means import Budget

SMEM = "transpose.smem-8192-32x8"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_quickly(tmp_path, monkeypatch)


def test_a_slower_kernel_is_found_confirmed_and_explained(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    head = FakeSide(CHANGED, slower(PAD, 1.3), extra={PAD: {"registers": 48, "fingerprint": "changed"}})
    assert ab(tmp_path, FakeSide(extra={PAD: {"fingerprint": "same"}}), head) == 1
    found = row(tmp_path, PAD)
    assert found["verdict"] == "SLOWER"
    assert "1.30x slower" in found["reason"]
    assert "32 to 48" in found["reason"]
    assert found["p_value"] < 0.01
    assert reported(tmp_path)["counts"] == {"SLOWER": 1, "SAME": len(LADDER) - 1}
    captured = capsys.readouterr()
    assert PAD in captured.out
    assert "\nWall time " in captured.out
    spent = reported(tmp_path)["wall_s"]
    assert [(name, spent[name]["processes"]) for name in ("proof", "screen", "confirm")] == [
        ("proof", 2),
        ("screen", 1),
        ("confirm", 1),
    ]
    assert "screen: measuring" in captured.err


def test_one_process_measures_the_pairs_of_both_sides_where_machine_code_alone_differs(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED)) == 0
    assert {(name, kind) for name, kind, *_ in ran(tmp_path)[:2]} == {("base", "proof"), ("head", "proof")}
    assert [each[:2] for each in ran(tmp_path)[2:]] == [["base", "repeat"]]
    written = sorted(path.name for path in (tmp_path / "out" / "ab").glob("screen-*.json"))
    assert written == [f"screen-01-{side}.json" for side in ("base", "head")]
    assert "over 4 pairs" in row(tmp_path, PAD)["reason"]


def test_a_process_of_very_many_cases_measures_fewer_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "PAIRS_OF_ALL_CASES", 12)
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED)) == 0
    assert [each[:2] for each in ran(tmp_path)[2:]] == [["base", "repeat"]] * 2


@pytest.mark.parametrize("leaves", [False, True])
def test_a_process_goes_on_after_each_look_and_where_it_cannot_another_does(tmp_path: Path, *, leaves: bool) -> None:
    sides = FakeSide(noise=0.02, leaves=leaves), FakeSide(dict.fromkeys(LADDER, "changed"))
    assert ab(tmp_path, *sides, "--pairs", "10") == 0
    assert "over 10 pairs" in row(tmp_path, PAD)["reason"]
    manifest = json.loads((tmp_path / "out" / "ab" / "manifest.json").read_text())
    pairs = [each["pairs"] for each in manifest["processes"] if (each["stage"], each["which"]) == ("screen", "head")]
    assert pairs == ([4, 2, 4] if leaves else [10])


def test_what_was_measured_before_a_look_at_the_budget_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "PAIRS_OF_ALL_CASES", 12)
    spend, asked = Budget.spend, list[float]()

    def spends(budget: Budget, seconds: float) -> None:
        asked.append(seconds)
        spend(budget, 0.0 if len(asked) == 1 else 1e9)

    monkeypatch.setattr(Budget, "spend", spends)
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED), "--budget", "600") == 3
    manifest = json.loads((tmp_path / "out" / "ab" / "manifest.json").read_text())
    assert [each["pairs"] for each in manifest["processes"] if each["stage"] == "screen"] == [2, 2]
    assert "budget" in manifest["stopped"]


def test_sides_have_processes_of_their_own_where_anything_else_differs(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, launches={PAD: "otherwise"})) == 0
    runs = ran(tmp_path)
    assert sorted(name for name, _, *_ in runs[:2]) == ["base", "head"]  # at once
    assert [name for name, _, *_ in runs[2:]] == ["base", "head", "head", "base"] * 2
    assert [kind for _, kind, *_ in runs] == ["proof"] * 2 + ["repeat"] * 8


def test_a_slower_kernel_is_found_where_sides_have_processes_of_their_own(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, slower(PAD, 1.3), launches={PAD: "otherwise"})) == 1
    assert row(tmp_path, PAD)["verdict"] == "SLOWER"


def test_unchanged_machine_code_is_not_measured_but_for_the_sentinels(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED), sentinels=3) == 0
    assert all(len(cases) == 4 and PAD in cases for _, _, *cases in ran(tmp_path))
    verdict = reported(tmp_path)
    unmeasured = [row for row in verdict["rows"] if "not measured" in row["reason"]]
    assert len(unmeasured) == 11
    assert {row["verdict"] for row in unmeasured} == {"SAME"}


def test_suspects_alone_are_confirmed_beside_the_sentinels(tmp_path: Path) -> None:
    changed = dict.fromkeys(LADDER, "changed")
    assert ab(tmp_path, FakeSide(), FakeSide(changed, slower(PAD, 0.8)), sentinels=0) == 0
    assert row(tmp_path, PAD)["verdict"] == "FASTER"
    confirming = [cases for _, _, *cases in ran(tmp_path)][3:]
    assert confirming
    assert all(PAD in cases and len(cases) < len(LADDER) for cases in confirming)


def test_what_few_pairs_settle_is_screened_no_further(tmp_path: Path) -> None:
    sides = FakeSide(noise=0.0001), FakeSide(dict.fromkeys(LADDER, "changed"), slower(PAD, 1.3), noise=0.0001)
    assert ab(tmp_path, *sides, "--pairs", "8") == 1
    verdict = reported(tmp_path)
    assert verdict["counts"] == {"SLOWER": 1, "SAME": len(LADDER) - 1}
    assert [verdict["wall_s"][stage]["processes"] for stage in ("screen", "confirm")] == [1, 1]


def test_sentinels_that_move_together_leave_the_run_undecided(tmp_path: Path) -> None:
    head = FakeSide(CHANGED, {case: time_us * 1.02 for case, time_us in LADDER.items()})
    assert ab(tmp_path, FakeSide(), head, "-k", "naive") == 3
    assert any(note.startswith("environment not steady") for note in reported(tmp_path)["notes"])
    sentinels = [row for row in reported(tmp_path)["rows"] if "as a sentinel" in row["reason"]]
    assert [row["verdict"] for row in sentinels] == ["INCONCLUSIVE"] * 5


def test_new_missing_wrong_and_unbuildable_cases_are_reported(tmp_path: Path) -> None:
    added, gone, broken, wrong = "transpose.new-4096", "transpose.gone-4096", SMEM, PAD
    base = FakeSide(dict.fromkeys([*LADDER, gone], "same"))
    codes: dict[str, str | None] = dict.fromkeys([*LADDER, added], "same")
    head = FakeSide(
        codes | {broken: None, wrong: "changed"},
        {**LADDER, added: 50.0},
        refused={broken: ("INCONCLUSIVE", "does not build: smem.cu:7"), wrong: ("WRONG", "output 0 [3] is 7, not 8")},
    )
    assert ab(tmp_path, base, head) == 1
    assert row(tmp_path, added)["verdict"] == "NEW"
    assert row(tmp_path, gone)["verdict"] == "MISSING"
    assert row(tmp_path, broken)["verdict"] == "MISSING"
    assert row(tmp_path, broken)["reason"].endswith(head.refused[broken][1])
    assert (row(tmp_path, wrong)["verdict"], row(tmp_path, wrong)["reason"]) == head.refused[wrong]
    assert all(wrong not in cases and broken not in cases for _, kind, *cases in ran(tmp_path) if kind == "repeat")


def test_what_builds_on_neither_side_is_undecided_and_proven_no_second_time(tmp_path: Path) -> None:
    codes: dict[str, str | None] = {**dict.fromkeys(LADDER, "same"), SMEM: None}
    refused = {SMEM: ("INCONCLUSIVE", "does not build: smem.cu:7")}
    assert ab(tmp_path, FakeSide(codes, refused=refused), FakeSide(codes, refused=refused), sentinels=0) == 3
    assert row(tmp_path, SMEM)["verdict"] == "INCONCLUSIVE"
    assert [cases for _, _, *cases in ran(tmp_path)] == [[SMEM]]


def test_a_family_that_only_head_describes_is_new_and_one_that_only_base_describes_is_missing(tmp_path: Path) -> None:
    """A side that does not describe a family has one case with no term in place of all of its."""
    rest = [case for case in LADDER if case != SMEM]
    undescribed = "transpose.family.py"
    without = FakeSide(
        {**dict.fromkeys(rest, "same"), undescribed: None},
        launches={undescribed: None},
        refused={undescribed: ("INCONCLUSIVE", "transpose/family.py:3: NameError: name 'x' is not defined")},
    )
    assert ab(tmp_path, without, FakeSide()) == 0
    assert row(tmp_path, SMEM)["verdict"] == "NEW"
    assert undescribed not in {row["case"] for row in reported(tmp_path)["rows"]}
    assert ab(tmp_path, FakeSide(), without) == 1
    assert row(tmp_path, SMEM)["verdict"] == "MISSING"
    assert row(tmp_path, undescribed)["verdict"] == "INCONCLUSIVE"
    assert "family.py:3" in row(tmp_path, undescribed)["reason"]


def test_where_nothing_changed_and_nothing_is_watched_nothing_is_measured(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(), sentinels=0) == 0
    assert not (tmp_path / "runs.log").exists()
    assert reported(tmp_path)["counts"] == {"SAME": len(LADDER)}


def test_a_case_that_the_gpu_refuses_on_both_sides_is_left_out_and_on_one_side_is_missing(tmp_path: Path) -> None:
    without_pad = {case: time_us for case, time_us in LADDER.items() if case != PAD}
    assert ab(tmp_path, FakeSide(times_us=without_pad), FakeSide(CHANGED, without_pad)) == 0
    assert PAD not in {row["case"] for row in reported(tmp_path)["rows"]}
    assert any("on either side" in note for note in reported(tmp_path)["notes"])
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, without_pad)) == 1
    assert row(tmp_path, PAD)["verdict"] == "MISSING"


@pytest.mark.parametrize("launch", ["as usual", "otherwise"])
def test_a_kernel_found_wrong_in_a_repeat_is_wrong(tmp_path: Path, launch: str) -> None:
    """A race shows when it likes."""
    refused = {PAD: ("WRONG", "an illegal memory access")}
    base = FakeSide().write(tmp_path / "base", "base", tmp_path / "runs.log")
    head = FakeSide(CHANGED, launches={PAD: launch}).write(tmp_path / "head", "head", tmp_path / "runs.log")
    flaky = (head / HARNESS / "__main__.py").read_text().replace("refused = {", "refused = {} if not repeat else {", 1)
    (head / HARNESS / "__main__.py").write_text(flaky)
    for known in (head / "script.json", tmp_path / "head.side"):
        known.write_text(json.dumps(json.loads(known.read_text()) | {"refused": refused}))
    options = [str(base), str(head), "--out", str(tmp_path / "out"), "--pairs", "2"]
    assert main(["ab", *options]) == 1
    assert (row(tmp_path, PAD)["verdict"], row(tmp_path, PAD)["reason"]) == refused[PAD]


def test_a_kernel_that_base_does_not_time_and_that_is_wrong_in_head_is_wrong(tmp_path: Path) -> None:
    refused = {"base": ("INCONCLUSIVE", "the clock stood still"), "head": ("WRONG", "output 0 [3] is 7, not 8")}
    folders = {}
    for name, code in (("base", "same"), ("head", "changed")):
        side = FakeSide({PAD: code}, {PAD: LADDER[PAD]}).write(tmp_path / name, name, tmp_path / "runs.log")
        in_pairs = (
            (side / HARNESS / "__main__.py").read_text().replace("refused = {", "refused = {} if not repeat else {", 1)
        )
        (side / HARNESS / "__main__.py").write_text(in_pairs)
        for known in (side / "script.json", tmp_path / f"{name}.side"):
            known.write_text(json.dumps(json.loads(known.read_text()) | {"refused": {PAD: refused[name]}}))
        folders[name] = str(side)
    options = [folders["base"], folders["head"], "--out", str(tmp_path / "out")]
    assert main(["ab", *options, "--pairs", "2"]) == 1
    assert (row(tmp_path, PAD)["verdict"], row(tmp_path, PAD)["reason"]) == refused["head"]
