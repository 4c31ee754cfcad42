"""Run files of every form that was ever written, and a project of version 0.2, are read as docs/reference says."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from peakgate.base.config import current
from peakgate.base.report import SCHEMA
from peakgate.base.verdict import ExitCode
from peakgate.cli import main
from peakgate.judge.floors import load_floors
from peakgate.runfile.saved import load_run
from peakgate.spec.case import CASE_SCHEMA

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parents[1] / "data"
RUNS = sorted((DATA / "runs").glob("*.json"))
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
CASES = {"access.one_per_thread-f32", "transpose.ordered-8192-256x1", "transpose.smem_pad-8192-32x8"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.unpack_archive(DATA / "v0.2.zip", tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_run_of_an_earlier_version_is_read_with_its_figures(path: Path) -> None:
    saved = {each["extra_info"]["case"]: each["extra_info"] for each in json.loads(path.read_text())["benchmarks"]}
    run = load_run(path)
    assert run.cases.keys() == saved.keys() == CASES
    for name, case in run.cases.items():
        assert case.time_us == pytest.approx(saved[name]["time_us"], rel=1e-5)
        assert case.peak_fraction == saved[name]["peak_fraction"]
        assert str(case.verdict) == saved[name]["verdict"]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_run_of_an_earlier_version_compares_with_itself_and_with_the_newest(
    path: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(path), str(path)]) == ExitCode.OK
    assert main(["compare", str(path), str(RUNS[-1])]) in (ExitCode.OK, ExitCode.REGRESSION)
    rows = json.loads((project / ".peakgate" / "out" / "compare.json").read_text())["rows"]
    assert {row["case"] for row in rows} == CASES
    assert "Traceback" not in capsys.readouterr().err


def test_families_and_settings_of_0_2_are_proven_without_a_change(project: Path) -> None:
    found = current()
    assert (found.include, found.options) == ((project / "kernels" / "common",), ("--use_fast_math",))
    assert (found.build, found.build_timeout_s) == ("true", 600)
    chosen = "scale or copy_float4_x4 or read_float4"
    assert main(["bench", "--device", "cpu", "-k", chosen]) == ExitCode.OK
    verdicts = json.loads((project / ".peakgate" / "out" / "bench.json").read_text())
    assert {each["case"].partition("-")[0]: each["verdict"] for each in verdicts["cases"]} == {
        "scale.scale": "NO_FLOOR",
        "roof.copy_float4_x4": "NO_FLOOR",
        "roof.read_float4": "NO_FLOOR",
    }
    (saved,) = (project / ".benchmarks").rglob("*.json")
    written = json.loads(saved.read_text())
    assert written["peakgate_schema"] == CASE_SCHEMA
    assert re.match(r"\d+\.\d+\.\d+", written["peakgate"]["version"])
    assert load_run(saved).cases.keys() == {each["case"] for each in verdicts["cases"]}


def test_floors_of_0_2_are_read(project: Path) -> None:
    floors = load_floors(project / "baselines" / "nvidia-h200" / "floors.toml", gpu="nvidia-h200")
    assert floors.present
    assert floors.by_case["access.one_per_thread-f32"] == 0.539


def test_the_page_names_the_schemas_and_every_exit_code() -> None:
    text = PAGE.read_text()
    assert f"`peakgate_schema` {CASE_SCHEMA}" in text
    assert f"`schema` {SCHEMA}" in text
    for code in ExitCode:
        assert f"| {int(code)} |" in text
