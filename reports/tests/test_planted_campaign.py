"""What a campaign runs, with an ``ab`` that only looks at its two sides."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from peakgate.reports.planted import campaign
from peakgate.reports.planted.copies import steps

Captured = pytest.CaptureFixture[str]
PADDED = Path("kernels", "transpose", "smem_pad.cu")


def option(command: list[str], name: str) -> Path:
    return Path(command[command.index(name) + 1])


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each ``ab`` that was asked for had before it."""
    seen: list[dict[str, Any]] = []

    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        base, head = option(command, "--base-dir"), option(command, "--head-dir")
        texts = [(side / PADDED).read_text("utf-8") if (side / PADDED).exists() else "" for side in (base, head)]
        marks = [(side / steps.MARK).exists() for side in (base, head)]
        families = [path.parent.name for path in base.glob("kernels/*/family.py")]
        seen.append({"command": command, "texts": texts, "marks": marks, "families": families})
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def test_steps_marks_head_alone_and_measures_the_planted_copies(sides: list[dict[str, Any]], tmp_path: Path) -> None:
    assert campaign.main([str(tmp_path), "steps:2"]) == 0
    first, second = sides
    assert first["marks"] == second["marks"] == [False, True]
    assert first["families"] == ["steps"]
    assert first["command"][first["command"].index("-k") + 1] == "steps."
    assert [json.loads(path.read_text())["exit_code"] for path in sorted(tmp_path.glob("steps-*/timing.json"))] == [
        1,
        1,
    ]


def test_pairs_measures_the_same_copies_many_times_and_hardly_confirms(
    sides: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert campaign.main([str(tmp_path), "pairs"]) == 0
    command = sides[0]["command"]
    assert sides[0]["marks"] == [False, True]
    assert [command[command.index(name) + 1] for name in ("-k", "--pairs", "--confirm-pairs")] == ["steps.", "100", "2"]


def test_mutants_changes_heads_kernels_alone_and_leaves_what_was_planted(
    sides: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert campaign.main([str(tmp_path), "mutants"]) == 0
    base, head = sides[0]["texts"]
    assert base == (campaign.ROOT / PADDED).read_text(encoding="utf-8") != head
    assert "--measure-unchanged" in sides[0]["command"]
    assert "smem_pad-no-padding" in json.loads((tmp_path / "mutants-1" / "planted.json").read_text())["mutants"]


def test_one_mutant_leaves_unchanged_machine_code_to_be_skipped(sides: list[dict[str, Any]], tmp_path: Path) -> None:
    assert campaign.main([str(tmp_path), "one"]) == 0
    assert sides[0]["texts"][0] != sides[0]["texts"][1]
    assert "--measure-unchanged" not in sides[0]["command"]


def test_a_run_never_goes_into_the_folder_of_another(sides: list[dict[str, Any]], tmp_path: Path) -> None:
    assert campaign.main([str(tmp_path), "same:3"]) == 0
    kept = (tmp_path / "same-3" / "timing.json").stat()
    (tmp_path / "same-1").rename(tmp_path / "aside")
    assert campaign.main([str(tmp_path), "same:2"]) == 0
    assert {path.name for path in tmp_path.glob("same-*")} == {f"same-{number}" for number in (1, 2, 3, 4)}
    assert (tmp_path / "same-3" / "timing.json").stat() == kept
    assert len(sides) == 5


@pytest.mark.parametrize("code", [2, 130, -9])
def test_an_ab_that_did_not_get_to_its_end_ends_the_campaign(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured, code: int
) -> None:
    asked = []

    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(subprocess, "run", run)
    assert campaign.main([str(tmp_path), "same:2"]) == 2
    assert "same: was not measured to its end" in capsys.readouterr().err
    assert len(asked) == 1
    assert not list(tmp_path.glob("*/timing.json"))


def test_ctrl_c_ends_a_campaign_with_130(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(_command: list[str], **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", run)
    assert campaign.main([str(tmp_path), "same"]) == 130


def test_an_experiment_that_does_not_exist_is_named_before_anything_runs(
    sides: list[dict[str, Any]], tmp_path: Path, capsys: Captured
) -> None:
    assert campaign.main([str(tmp_path), "same", "stepps:2"]) == 2
    assert "'stepps:2': expected one of own, same, steps" in capsys.readouterr().err
    assert sides == []
