"""How the folders of campaigns become the committed record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peakgate.reports.ab.store import FOLDER, MANIFEST
from peakgate.reports.planted import collect
from peakgate.reports.planted.about import Cell, Origin, read_about
from peakgate.reports.planted.collect import NEEDED
from peakgate.reports.planted.found import read_found
from peakgate.reports.planted.processes import Experiment, read

Captured = pytest.CaptureFixture[str]


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


def test_a_pair_that_left_no_run_file_lends_its_number_to_no_other(out: Path, tmp_path: Path) -> None:
    manifest = out / "same-1" / FOLDER / MANIFEST
    processes = json.loads(manifest.read_text())["processes"]
    lost = [each | {"file": None} if each["pair"] == 0 else each for each in processes]
    manifest.write_text(json.dumps({"processes": lost}))
    assert collected(tmp_path / "record", out, "abc") == 0
    same = read(tmp_path / "record", Experiment.SAME).summary
    assert same[["pair", "side"]].apply(tuple, axis=1).is_unique
    assert sorted(same["pair"].unique()) == [1, 2, 3]


def test_pairs_alone_do_not_take_the_place_of_whole_runs(out: Path, tmp_path: Path, capsys: Captured) -> None:
    record = tmp_path / "record"
    assert collected(record, out, "abc") == 0
    before = {path.name: path.read_bytes() for path in record.iterdir()}
    measured(tmp_path / "again" / "pairs-1", "pairs", "steps.delayed_copy-5us-10pm-0", "SLOWER")
    assert collected(record, tmp_path / "again", "def") == 2
    assert "pairs-* and no steps-*, which stand in one record" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in record.iterdir()} == before


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
        ("same-*/timing.json", "no same-* in it with pairs"),
        ("*[pr]s-1/**/*.json", "no steps-* in it"),
        ("steps-1/**/*.json", "pairs-* and no steps-*"),
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
