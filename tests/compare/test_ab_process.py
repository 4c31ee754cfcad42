"""A side's processes, with this repository on the emulator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from peakgate.base.processes import last_words
from peakgate.compare.ab import process
from peakgate.compare.ab.process import FinishedRun, SideBroken, SideProcesses, side_environment

ROOT = Path(__file__).parents[2]


def finished_run(
    side: SideProcesses, log: Path, arguments: Sequence[str] = (), environment: Mapping[str, str] = MappingProxyType({})
) -> FinishedRun:
    run = side.ask(arguments, environment, log)
    run.begin()
    run.until_left()
    return run.finish()


def test_a_warm_process_is_the_suite_and_a_pair_of_an_ab_only_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "AHEAD", 1)
    file, log = tmp_path / "run.json", tmp_path / "run.txt"
    arguments = ["--device=cpu", "-k", "roof and memcpy", f"--benchmark-json={file}", f"--out={tmp_path}"]
    arguments += [f"--benchmark-storage=file://{tmp_path / 'saved'}", "--assert=plain"]
    with SideProcesses("head", ROOT, side_environment(ROOT), tmp_path / "head.log") as side:
        finished = finished_run(side, log, arguments, {"PEAKGATE_AB": "pair"})
    assert finished.exit_code == 0, log.read_text()
    assert "results not checked" in log.read_text()
    saved = json.loads(file.read_text())
    assert {benchmark["extra_info"]["probes"] for benchmark in saved["benchmarks"]} == {0}
    assert saved["machine_info"]["gpu"]["roofs"] == {}
    assert "cpu" not in saved["machine_info"]


@pytest.mark.parametrize("judged", [False, True])
def test_a_warm_process_has_imported_its_sides_families_unless_another_sides_judge_it(
    tmp_path: Path, *, judged: bool
) -> None:
    family = tmp_path / "kernels" / "any" / "family.py"
    family.parent.mkdir(parents=True)
    family.write_text("raise SystemExit(print('imported'))")
    (tmp_path / "peakgate.toml").write_text("")
    environment = side_environment(tmp_path, tmp_path if judged else None)
    command = [sys.executable, "-P", str(process.WARM), *process.PRELOAD]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert (b"imported" in done.stdout) is not judged


def test_a_process_that_dies_while_it_warms_up_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = tmp_path / "dying.py"
    dying.write_text("import sys\nsys.stdin.close()\nsys.exit('no memory left')\n")
    monkeypatch.setattr(process, "WARM", dying)
    with SideProcesses("base", tmp_path, side_environment(tmp_path), tmp_path / "base.log") as side:
        for waiting in side._waiting:
            waiting._process.wait()
        with pytest.raises(SideBroken, match="base: its process ended while it warmed up: no memory left"):
            finished_run(side, tmp_path / "run.txt")


def test_a_run_that_hangs_is_ended_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = tmp_path / "hanging.py"
    hanging.write_text("import signal\nsignal.pause()\n")
    monkeypatch.setattr(process, "WARM", hanging)
    monkeypatch.setattr(process, "LONGEST_RUN_S", 0.01)
    with (
        SideProcesses("head", tmp_path, side_environment(tmp_path), tmp_path / "head.log") as side,
        pytest.raises(SideBroken, match="a run did not end within"),
    ):
        finished_run(side, tmp_path / "run.txt")
    assert side._asked[0]._process.poll() is not None


def test_last_words_are_the_last_line_that_says_something() -> None:
    assert last_words("first\nERROR: second\n\n  \n") == "ERROR: second"
    assert last_words("\n") == "it printed nothing"
