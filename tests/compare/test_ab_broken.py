"""Experiments that end early: a side that breaks, a machine without a GPU, a budget, an interrupt."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from ab_experiment import CHANGED, PAD, ab, reported, row, start_quickly
from ab_fake import HARNESS, FakeSide
from refusals import refusal
from synthetic_runs import LADDER, slower

from peakgate.base.errors import Code
from peakgate.cli import main
from peakgate.compare.ab import command
from peakgate.spec.recorded import EMULATOR_SLUG

SMEM = "transpose.smem-8192-32x8"
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_quickly(tmp_path, monkeypatch)


def test_a_budget_that_is_used_up_leaves_the_undecided_inconclusive(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED), "--budget", "0.000001") == 3
    assert row(tmp_path, PAD)["verdict"] == "INCONCLUSIVE"
    assert "budget" in reported(tmp_path)["stopped"]
    stopped, reason = reported(tmp_path)["stopped"], row(tmp_path, PAD)["reason"]
    assert reason.startswith(stopped)
    assert re.findall(r"\d+", reason.removeprefix(stopped)) == ["0", "4"]  # of the pairs


@pytest.mark.parametrize(
    ("base", "code"), [(FakeSide(noise=0.004, fail_at=4), 3), (FakeSide(noise=0.004, interrupt_at=4), 130)]
)
def test_what_a_process_had_measured_by_its_last_look_is_kept(tmp_path: Path, base: FakeSide, code: int) -> None:
    assert ab(tmp_path, base, FakeSide(dict.fromkeys(LADDER, "changed")), "--pairs", "10") == code
    assert re.findall(r"\d+ of \d+", row(tmp_path, PAD)["reason"]) == ["4 of 10"]
    files = {path.name for path in (tmp_path / "out" / "ab").glob("screen-*.json")}
    assert files == {f"screen-01-{side}.json" for side in ("base", "head")}


def test_without_a_run_of_base_no_fact_of_the_machine_differs(tmp_path: Path) -> None:
    ab(tmp_path, FakeSide({}), FakeSide(CHANGED))
    assert reported(tmp_path)["differences"] == []


def test_a_head_whose_run_fails_to_start_exits_1_with_one_line(tmp_path: Path, capsys: Captured) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, fail_at=1)) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("head: ")
    assert "no GPU left" in error
    assert reported(tmp_path)["exit_code"] == 1


def test_a_base_whose_run_fails_to_start_exits_2_with_one_line(tmp_path: Path, capsys: Captured) -> None:
    assert ab(tmp_path, FakeSide(fail_at=1), FakeSide(CHANGED)) == 2
    assert refusal(capsys) is Code.SIDE


def test_a_side_that_ran_in_the_emulator_is_judged_by_nothing(tmp_path: Path, capsys: Captured) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(CHANGED, slug=EMULATOR_SLUG)) == 2
    assert refusal(capsys) is Code.EMULATED


def test_a_side_whose_kernels_cannot_be_listed_says_why(tmp_path: Path, capsys: Captured) -> None:
    assert ab(tmp_path, FakeSide(), FakeSide(fingerprints_fail="kernels/transpose: broken")) == 1
    assert "kernels/transpose: broken" in capsys.readouterr().err


def test_a_machine_without_a_gpu_is_distinguished_from_a_broken_side(tmp_path: Path, capsys: Captured) -> None:
    said = "no usable GPU, see nvidia-smi; by itself this command builds for --capability 9.0 say"
    assert ab(tmp_path, FakeSide(fingerprints_fail=said), FakeSide(fingerprints_fail=said)) == 3
    assert refusal(capsys) is Code.NO_GPU


def test_a_machine_without_a_gpu_is_reported_before_anything_is_built(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "device_uuid", lambda _device: None)
    base = FakeSide().write(tmp_path / "base", "base", tmp_path / "runs.log")
    with (base / "peakgate.toml").open("a") as settings:
        settings.write('\nbuild = "touch built"\n')
    assert main(["ab", str(base), str(base), "--out", str(tmp_path / "out")]) == 3
    assert refusal(capsys) is Code.NO_GPU
    assert not (base / "built").exists()


def test_a_side_that_breaks_on_the_way_leaves_the_rest_undecided(tmp_path: Path) -> None:
    head = FakeSide(CHANGED, launches={PAD: "otherwise"}, fail_at=6)
    assert ab(tmp_path, FakeSide(), head) == 3
    assert "no GPU left" in row(tmp_path, PAD)["reason"]


def test_a_process_of_both_sides_that_breaks_on_the_way_leaves_the_rest_undecided(tmp_path: Path) -> None:
    assert ab(tmp_path, FakeSide(fail_at=4), FakeSide(CHANGED, slower(PAD, 1.3))) == 3
    assert "no GPU left" in row(tmp_path, PAD)["reason"]


def test_an_interrupt_leaves_a_readable_partial_report_and_exits_130(tmp_path: Path) -> None:
    log = tmp_path / "runs.log"
    base = FakeSide().write(tmp_path / "base", "base", log)
    head = FakeSide(CHANGED, launches={PAD: "otherwise"}, interrupt_at=5).write(tmp_path / "head", "head", log)
    options = [str(base), str(head), "--out", str(tmp_path / "out"), "--pairs", "4"]
    measuring = (
        "import sys; from peakgate.cli import main; from peakgate.compare.ab import command, process; "
        "command.device_uuid = lambda device: 'GPU-0'; "
        f"process.HARNESS = {HARNESS!r}; process.PRELOAD = (); sys.exit(main(['ab', *sys.argv[1:]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", measuring, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert reported(tmp_path)["stopped"] == "interrupted"
    assert reported(tmp_path)["exit_code"] == 130


@pytest.mark.parametrize(("refused", "code"), [({}, 130), ({SMEM: ("WRONG", "output 0 is off")}, 1)])
def test_what_an_interrupted_experiment_decided_is_its_verdict(
    tmp_path: Path, refused: Mapping[str, tuple[str, str]], code: int
) -> None:
    head = FakeSide(CHANGED | {SMEM: "changed"}, launches={PAD: "otherwise"}, refused=refused, interrupt_at=5)
    assert ab(tmp_path, FakeSide(), head) == 130
    assert reported(tmp_path)["exit_code"] == 130
    assert main(["ab", "--from", str(tmp_path / "out"), "--out", str(tmp_path / "out")]) == code
    assert reported(tmp_path)["exit_code"] == code
