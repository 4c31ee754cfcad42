"""What a campaign runs, and how its folders become the record; with an ``ab`` that only looks at its two sides."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports.ab.store import FOLDER, MANIFEST
from reports.planted import campaign, collect, own_timing
from reports.planted.about import Cell, Origin, read_about
from reports.planted.collect import NEEDED
from reports.planted.families import steps
from reports.planted.found import read_found
from reports.planted.processes import Experiment, read
from suite.case import Case, Role, Scalar
from suite.errors import PeakgateError
from suite.sampling import Samples, SamplingPlan

Captured = pytest.CaptureFixture[str]
PADDED = Path("kernels", "transpose", "smem_pad.cu")


def option(command: list[str], name: str) -> Path:
    return Path(command[command.index(name) + 1])


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each ``ab`` that was asked for had before it."""
    seen: list[dict[str, Any]] = []

    def run(command: list[str], *, env: dict[str, str], **_options: object) -> subprocess.CompletedProcess[str]:
        base, head = option(command, "--base-dir"), option(command, "--head-dir")
        texts = [(side / PADDED).read_text(encoding="utf-8") for side in (base, head)]
        marks = [(side / steps.MARK).exists() for side in (base, head)]
        families = env.get("PEAKGATE_FAMILIES")
        complete = all((side / "suite" / "fingerprints.py").is_file() for side in (base, head))
        seen.append({"command": command, "texts": texts, "marks": marks, "families": families, "complete": complete})
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def test_steps_marks_head_alone_and_measures_the_planted_copies(sides: list[dict[str, Any]], tmp_path: Path) -> None:
    assert campaign.main([str(tmp_path), "steps:2"]) == 0
    first, second = sides
    assert first["marks"] == second["marks"] == [False, True]
    assert first["complete"]
    assert (campaign.ROOT / first["families"] / "steps.py").is_file()
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


class Copy:
    """A copy that takes 100 us at 2 GHz, and begins 50 cycles after its launch and 40 more a link.

    The first launch is late, and so are some blocks and samples of each.
    """

    def __init__(self, case: Case, mhz: float | None) -> None:
        self.mhz = mhz
        chain = case.arguments[3]
        assert isinstance(chain, Scalar)
        self.cycles = 50 + 40 * int(chain.value)
        self.outputs = [np.zeros(each.shape, each.dtype) for each in case.buffers if each.role is Role.OUT][1:]
        self.late = 1000

    def run(self) -> None:
        (told,) = self.outputs
        told[:] = self.cycles + self.late
        told[: steps.BLOCKS // 3] += 500
        self.late = 0

    def sample(self, plan: SamplingPlan) -> Samples:
        times_us = [100.0] * (plan.max_samples - 4) + [900.0] * 4
        return Samples(tuple(times_us), (self.mhz,) * plan.max_samples, 0, "made up")


class Copies:
    """A device that does nothing but copy."""

    def __init__(self, mhz: float | None = 2000.0) -> None:
        self.mhz = mhz

    def warm_up(self) -> None:
        pass

    def prepare(self, case: Case) -> Copy:
        return Copy(case, self.mhz)


def test_own_timing_tells_the_shift_of_every_cell_and_what_is_late_does_not_show(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(own_timing, "open_device", lambda _choice: (Copies(), None))
    assert own_timing.main([str(tmp_path / "own.json")]) == 0
    found = json.loads((tmp_path / "own.json").read_text())
    assert len(found) == len(steps.QUADS_BY_DURATION) * len(steps.PER_MILLE)
    assert found["150us-0pm"] == 0
    assert found["150us-20pm"] == pytest.approx(math.log1p(0.02 * steps.links(150, 20) / 100))


def test_own_timing_without_a_clock_is_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    monkeypatch.setattr(own_timing, "open_device", lambda _choice: (Copies(mhz=None), None))
    assert own_timing.main([str(tmp_path / "own.json")]) == 2
    assert capsys.readouterr().err.startswith("5 us: no SM clock was told with the samples")
    assert not list(tmp_path.iterdir())


def test_own_timing_without_a_gpu_is_one_line_and_exit_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    def none_there(_choice: str) -> None:
        raise PeakgateError("no GPU answers")

    monkeypatch.setattr(own_timing, "open_device", none_there)
    assert own_timing.main([str(tmp_path / "own.json")]) == 2
    assert capsys.readouterr().err == "no GPU answers\n"
    assert not list(tmp_path.iterdir())


def run_file(case: str, time_us: float, driver: str = "1.2") -> dict[str, Any]:
    stats = dict.fromkeys(("median", "mean", "min", "q1", "q3"), 1e-6 * time_us) | {"stddev": 0.0, "rounds": 2}
    return {
        "machine_info": {"gpu": {"name": "NVIDIA H200", "driver": driver}},
        "datetime": "2026-11-20T10:00:00+00:00",
        "benchmarks": [{"extra_info": {"case": case}, "stats": stats | {"data": [1e-6 * time_us] * 2}}],
    }


def measured(folder: Path, name: str, case: str, verdict: str, driver: str = "1.2") -> None:
    """An ``ab`` of one case and two screening pairs, as a campaign leaves it."""
    runs = folder / FOLDER
    runs.mkdir(parents=True)
    processes = []
    for pair in range(2):
        for which in ("base", "head"):
            file = f"screen-{pair}-{which}.json"
            (runs / file).write_text(json.dumps(run_file(case, 10.0 + pair, driver)))
            processes.append({"stage": "screen", "pair": pair, "which": which, "file": file})
    processes.append({"stage": "confirm", "pair": 0, "which": "base", "file": None})
    (runs / MANIFEST).write_text(json.dumps({"processes": processes}))
    row = {"case": case, "verdict": verdict, "change_percent": 2.0}
    (folder / "ab.json").write_text(json.dumps({"exit_code": 1, "rows": [row]}))
    (folder / "timing.json").write_text(json.dumps({"experiment": name, "exit_code": 1, "seconds": 12.5}))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    there = tmp_path / "campaign"
    for number in (1, 2):
        measured(there / f"same-{number}", "same", "t.copy-1", "SAME")
    measured(there / "pairs-1", "pairs", "steps.delayed_copy-5us-10pm-0", "SLOWER")
    measured(there / "steps-1", "steps", "steps.delayed_copy-5us-10pm-0", "SLOWER")
    measured(there / "mutants-1", "mutants", "t.pad-1", "SLOWER")
    planted = {"mutants": {"no-padding": {"reason": "x", "cases": ["t.pad-1"]}}, "untouched": []}
    (there / "mutants-1" / "planted.json").write_text(json.dumps(planted))
    (there / "own.json").write_text(json.dumps({"5us-10pm": 0.011}))
    return there


def test_folders_become_a_record_with_pairs_numbered_through(out: Path, tmp_path: Path, capsys: Captured) -> None:
    record = tmp_path / "record"
    assert collect.main([str(out), "--commit", "abc", "--record", str(record)]) == 0
    assert "planted.json" in capsys.readouterr().out
    same = read(record, Experiment.SAME).summary
    assert sorted(same["pair"].unique()) == [0, 1, 2, 3]
    assert set(same["case"]) == {"t.copy-1"}
    copies = read(record, Experiment.STEPS).summary
    assert sorted(copies["pair"].unique()) == [0, 1, 2, 3], "pairs to draw from join those of whole runs"
    about = read_about(record)
    assert (about.gpu, about.driver, about.planted) == ("NVIDIA H200", "1.2", {Cell(5, 10): 0.011})
    assert about.origins == dict.fromkeys(NEEDED, Origin("abc", "2026-11-20T10:00:00+00:00"))
    assert {gate.experiment for gate in about.gates} == set(NEEDED), "pairs to draw from are no gate"
    steps_gate = next(gate for gate in about.gates if gate.experiment is Experiment.STEPS)
    assert (steps_gate.screening_pairs, steps_gate.confirming_pairs, steps_gate.seconds) == (2, 1, 12.5)
    assert steps_gate.slower == ("steps.delayed_copy-5us-10pm-0",)
    assert read_found(record).mutants[0].caught == 1


def collected(record: Path, out: Path, commit: str) -> int:
    return collect.main([str(out), "--commit", commit, "--record", str(record)])


def test_what_was_measured_again_takes_its_place_and_the_rest_of_the_record_stays(out: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    assert collected(record, out, "abc") == 0
    kept = {path.name: path.read_bytes() for path in record.iterdir() if not path.name.startswith(("steps", "planted"))}
    assert len(kept) == 3
    again = tmp_path / "again"
    measured(again / "steps-1", "steps", "steps.delayed_copy-15us-10pm-0", "SAME")
    assert collected(record, again, "def") == 0
    assert {path: (record / path).read_bytes() for path in kept} == kept
    assert set(read(record, Experiment.STEPS).summary["case"]) == {"steps.delayed_copy-15us-10pm-0"}
    about = read_about(record)
    assert {each: origin.commit for each, origin in about.origins.items()} == {
        Experiment.SAME: "abc",
        Experiment.MUTANTS: "abc",
        Experiment.STEPS: "def",
    }
    assert [gate.experiment for gate in about.gates] == ["mutants", "same", "same", "steps"]
    assert not about.planted, "what the old copies' clock said is nothing that the new ones have"


def test_what_the_clock_said_stays_with_the_copies_it_was_said_of(out: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    assert collected(record, out, "abc") == 0
    measured(tmp_path / "again" / "same-1", "same", "t.copy-1", "SAME")
    assert collected(record, tmp_path / "again", "def") == 0
    assert read_about(record).planted == {Cell(5, 10): 0.011}


def test_pairs_that_were_stopped_midway_count_as_far_as_they_came(out: Path, tmp_path: Path) -> None:
    for lost in ("ab.json", "timing.json"):
        (out / "pairs-1" / lost).unlink()
    (out / "pairs-1" / FOLDER / "screen-1-head.json").unlink()
    manifest = out / "pairs-1" / FOLDER / MANIFEST
    manifest.write_text(json.dumps({"processes": json.loads(manifest.read_text())["processes"][:3]}))
    assert collected(tmp_path / "record", out, "abc") == 0
    copies = read(tmp_path / "record", Experiment.STEPS).summary
    assert copies.groupby("side")["pair"].unique().map(list).to_dict() == {"base": [0, 1, 2, 3], "head": [0, 1, 2]}


def test_a_record_is_of_one_driver(out: Path, tmp_path: Path, capsys: Captured) -> None:
    record = tmp_path / "record"
    assert collected(record, out, "abc") == 0
    before = {path.name: path.read_bytes() for path in record.iterdir()}
    measured(tmp_path / "again" / "same-1", "same", "t.copy-1", "SAME", driver="1.3")
    assert collected(record, tmp_path / "again", "def") == 2
    assert (
        "NVIDIA H200 with driver 1.2 and NVIDIA H200 with driver 1.3; give another --record" in capsys.readouterr().err
    )
    assert {path.name: path.read_bytes() for path in record.iterdir()} == before


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("**/*.json", "no */timing.json in it"),
        ("*/timing.json", "no same-* in it with pairs"),
        ("*[pr]s-1/**/*.json", "no steps-* in it"),
        ("mutants-1/timing.json", "no mutants-* in it"),
        ("same-1/ab.json", "ab.json"),
        ("steps-1/ab/screen-0-head.json", "screen-0-head.json: cannot be read"),
    ],
)
def test_a_campaign_that_lacks_a_part_is_one_line_and_nothing_is_written(
    out: Path, tmp_path: Path, capsys: Captured, lost: str, told: str
) -> None:
    for path in out.glob(lost):
        path.unlink()
    assert collect.main([str(out), "--commit", "abc", "--record", str(tmp_path / "record")]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert not (tmp_path / "record").exists()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("same-1/timing.json", '{"experiment": "sane", "seconds": 1}'),
        ("same-1/timing.json", "[]"),
        ("same-1/ab/manifest.json", '{"processes": [{"stage": "screen"}]}'),
        ("same-1/ab.json", '{"exit_code": 0}'),
        ("mutants-1/planted.json", '{"mutants": {"no-padding": {}}}'),
        ("own.json", '{"5us": 0.01}'),
    ],
)
def test_a_file_of_another_form_is_named_and_nothing_is_written(
    out: Path, tmp_path: Path, capsys: Captured, file: str, text: str
) -> None:
    (out / file).write_text(text)
    assert collect.main([str(out), "--commit", "abc", "--record", str(tmp_path / "record")]) == 2
    error = capsys.readouterr().err
    assert "not what a campaign leaves" in error
    assert file.split("/", maxsplit=1)[0] in error
    assert error.count("\n") == 1
    assert not (tmp_path / "record").exists()
