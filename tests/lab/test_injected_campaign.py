"""What a campaign runs, with an ``ab`` that only looks at its two sides."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.injected import campaign
from lab.injected.campaign import PROJECT, steps
from peakgate.case import Case, Scalar, Scale
from peakgate.run.ab_process import AB_VARIABLE
from peakgate.spec import catalogue

Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]
PADDED = Path("kernels", "transpose", "10_smem_pad.cu")
ROW = {"case": "transpose.smem_pad-8192-32x8", "verdict": "SLOWER", "change_percent": 5.0}


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each ``ab`` that was started saw."""
    seen: list[dict[str, Any]] = []

    def run(command: list[str], *, env: dict[str, str], **_options: object) -> subprocess.CompletedProcess[str]:
        base, head, out = map(Path, (*command[4:6], option(command, "--out")))
        texts = [(side / PADDED).read_text("utf-8") if (side / PADDED).exists() else "" for side in (base, head)]
        marks = [(side / steps.MARK).exists() for side in (base, head)]
        families = [path.parent.name for path in base.glob("kernels/*/family.py")]
        seen.append(
            {"command": command, "texts": texts, "marks": marks, "families": families, "asked": env[AB_VARIABLE]}
        )
        out.mkdir(parents=True)
        (out / "ab.json").write_text(json.dumps({"exit_code": 1, "rows": [ROW]}))
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def test_steps_marks_head_only_and_measures_the_copies_only(sides: list[dict[str, Any]], tmp_path: Path) -> None:
    assert campaign.main([str(tmp_path), "steps:2"]) == 0
    assert [side["marks"] for side in sides] == [[False, True]] * 2
    assert sides[0]["families"] == ["steps"]
    timings = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("steps-*/timing.json"))]
    assert [(timing["experiment"], timing["exit_code"]) for timing in timings] == [("steps", 1)] * 2


def test_pairs_measures_the_same_copies_many_times(sides: list[dict[str, Any]], tmp_path: Path) -> None:
    assert campaign.main([str(tmp_path), "pairs"]) == 0
    command = sides[0]["command"]
    assert sides[0]["marks"] == [False, True]
    assert option(command, "--pairs") == "60,2"
    assert json.loads(sides[0]["asked"]) == {"all_pairs": True}


def test_mutants_change_heads_kernels_alone(sides: list[dict[str, Any]], tmp_path: Path) -> None:
    assert campaign.main([str(tmp_path), "mutants"]) == 0
    base, head = sides[0]["texts"]
    assert base == (ROOT / PADDED).read_text(encoding="utf-8") != head
    assert "--measure-unchanged" in sides[0]["command"]
    judged = json.loads((tmp_path / "mutants-1" / "mutants.json").read_text())
    assert [each["cases"] for each in judged["mutants"] if each["name"] == "smem_pad-no-padding"] == [[ROW]]


def test_a_run_never_writes_into_the_folder_of_another(sides: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "same-2").mkdir()
    assert campaign.main([str(tmp_path), "same:2"]) == 0
    assert {path.parent.name for path in tmp_path.glob("*/timing.json")} == {"same-1", "same-3"}


@pytest.mark.parametrize("code", [2, 130, -9])
def test_an_ab_that_did_not_get_to_its_end_ends_the_campaign(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured, code: int
) -> None:
    started = []

    def run(command: list[str], *, env: dict[str, str], **_options: object) -> subprocess.CompletedProcess[str]:
        started.append(command)
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(subprocess, "run", run)
    assert campaign.main([str(tmp_path), "same:2"]) == 2
    assert f"same: ab exited {code} before its end" in capsys.readouterr().err
    assert len(started) == 1
    assert not list(tmp_path.glob("*/timing.json"))


def test_ctrl_c_ends_a_campaign_with_130(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(_command: list[str], **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", run)
    assert campaign.main([str(tmp_path), "same"]) == 130


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["same", "stepps:2"], "'stepps:2': expected one of same, same-pairs, steps"),
        (["same:x"], "'same:x': expected"),
    ],
)
def test_a_mistake_is_named_before_anything_runs(
    sides: list[dict[str, Any]], tmp_path: Path, capsys: Captured, wanted: list[str], message: str
) -> None:
    assert campaign.main([str(tmp_path), *wanted]) == 2
    assert message in capsys.readouterr().err
    assert sides == []


def test_a_marked_project_has_the_copies_delayed_by_their_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = catalogue.family_at(PROJECT / "kernels" / "steps" / "family.py")

    def listed() -> dict[str, Case]:
        return {case.id: case for case in catalogue.cases(Scale.BENCH, listed=[family])}

    def links(case: Case) -> float:
        chain = case.arguments[3]
        assert isinstance(chain, Scalar)
        return chain.value

    monkeypatch.chdir(tmp_path)
    plain = listed()
    (tmp_path / steps.MARK).touch()
    marked = listed()
    assert plain.keys() == marked.keys()
    assert not any(links(case) for case in plain.values())
    assert {case for case in marked if not links(marked[case])} == {case for case in marked if "-0pm-" in case}
    delay_ns = links(marked["steps.delayed_copy-150us-20pm-0"]) * 29 / 1.98  # cycles per link at 1980 MHz
    assert delay_ns == pytest.approx(0.02 * 150_000, rel=0.01)
    assert {case.launch for case in plain.values()} == {case.launch for case in marked.values()}
    assert catalogue.cases(Scale.SMALL, listed=[family]) == []
