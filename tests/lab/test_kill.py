"""A few of the kills of `nox -s kill`, and the records of whole series and of disks."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from lab.faults import kill

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "lab" / "faults"


def test_what_two_kills_leave_is_resumed_to_the_same_cases(tmp_path):
    done = kill.Record(3)
    cases = [f"scale.scale-{size}" for size in kill.SIZES]
    project = kill.Project(tmp_path, ROOT / ".cache")
    trials = kill.Trials(project, tmp_path, Random(3), 2.0, cases, done)
    assert trials.chain("chain", 2, True) <= 2
    assert done.found["runs resumed to their end"] + done.found["runs that went on by themselves"] == 1


def test_a_file_whose_writer_is_killed_is_the_old_or_the_new_one(tmp_path):
    done = kill.Record(1)
    for number in range(3):
        kill.large_file(tmp_path / str(number), Random(number), done)
    assert done.kills["while a large file is replaced"] == 3


def test_half_a_file_and_a_lock_that_is_held_are_noticed(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").write_text("{")
    with pytest.raises(kill.Broken, match=r"run.json is half written \(1 bytes\)"):
        kill.left(tmp_path, Counter())


def test_a_series_is_recorded_with_its_kills_and_nothing_broken():
    record = json.loads((RECORDS / "kill.json").read_text(encoding="utf-8"))
    kills = record["kills"]
    assert record["broken"] == []
    assert sum(count for kind, count in kills.items() if "random" in kind) >= 200
    assert sum(count for kind, count in kills.items() if kind.endswith("while a file is written")) >= 50
    assert kills["while a large file is replaced"] >= 50


def test_full_and_read_only_disks_broke_no_file():
    record = json.loads((RECORDS / "disks.json").read_text(encoding="utf-8"))
    assert record["broken"] == []
    errors = Counter(run["error"] for run in record["runs"] if run["exit"] == 2)
    assert set(errors) >= {"No space left on device", "Read-only file system", "File too large"}
    assert {run["exit"] for run in record["runs"]} == {0, 2}
    assert not any(run["error"] for run in record["runs"] if run["exit"] == 0)
