"""The pairs of lab/dodges are whole, and the runner catches cheats in the emulator and passes their twins."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from lab.dodges import dodges
from lab.pages import read_json

ROOT = dodges.PROJECT.parents[2]
PAIRS = [*dodges.kernels(), *dodges.callables()]


def test_every_cheat_has_a_name_of_its_own_and_says_what_it_does() -> None:
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
    assert [pair.name for pair in PAIRS if not pair.does] == []


def test_enough_cheats_are_kept_and_enough_were_published() -> None:
    assert len(PAIRS) >= 40
    assert sum(pair.published is not None for pair in PAIRS) >= 15


def test_every_cheat_has_a_twin() -> None:
    lone = [path.parent.name for path in dodges.PROJECT.glob("kernels/*/cheat.cu") if not _family(path.parent)]
    assert lone == []
    for path in dodges.PROJECT.glob("benchmarks/bench_*.py"):
        tests = {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        cheats = {name for name in tests if name.endswith("_cheat")}
        assert {name.removesuffix("_cheat") + "_honest" for name in cheats} <= tests


def _family(folder) -> bool:
    return re.search(r"\bpair\(|honest", (folder / "family.py").read_text(encoding="utf-8")) is not None


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("sees_poison.cheat-16777216", ("sees_poison", "cheat")),
        ("skips_slice_of_k.honest-768x768x768", ("skips_slice_of_k", "honest")),
        ("benchmarks-bench_dodges.test_patches_the_timer_honest", ("patches_the_timer", "honest")),
        ("sgemm.naive-256", None),
    ],
)
def test_a_case_belongs_to_one_side_of_a_pair(case, found) -> None:
    assert dodges.part(case) == found


@pytest.mark.parametrize(
    ("verdict", "reason", "times_us", "judged", "expected"),
    [
        ("WRONG", "", (None, 30.0), True, "caught"),
        ("INCONCLUSIVE", "works on other streams", (None, 30.0), True, "caught"),
        ("NO_FLOOR", "", (30.0, 30.1), True, "without effect"),
        ("NO_FLOOR", "", (20.0, 30.0), True, "passes"),
        ("NO_FLOOR", "", (20.0, 30.0), False, "not timed"),
        ("NO_FLOOR", "waits for the host, whose time is in it: recorded, not judged", (5.0, 30.0), True, "not judged"),
        ("SKIPPED", "", (None, None), True, "not run"),
    ],
)
def test_a_cheat_passes_only_where_it_beats_its_twin_on_a_gpu(verdict, reason, times_us, judged, expected) -> None:
    cheat = {"verdict": verdict, "reason": reason, "time_us": times_us[0]}
    assert dodges.outcome(cheat, {"time_us": times_us[1]}, judged=judged) == expected


@pytest.mark.parametrize(("verdict", "expected"), [("NO_FLOOR", "passes"), ("WRONG", "caught")])
def test_a_mistake_that_nobody_finds_passes_though_it_gains_nothing(verdict, expected) -> None:
    cheat = {"verdict": verdict, "reason": "", "time_us": 30.0}
    assert dodges.outcome(cheat, {"time_us": 30.0}, judged=False, mistake=True) == expected


def test_every_mistake_of_a_kernel_has_a_witness() -> None:
    mistakes = {pair.name for pair in PAIRS if pair.mistake and pair.kind == "kernel"}
    families = {path.parent.name: path.read_text() for path in dodges.PROJECT.glob("kernels/*/family.py")}
    assert mistakes == {name for name, text in families.items() if "witness=" in text}


@pytest.mark.usefixtures("compiler")
def test_by_its_witness_a_mistake_is_caught_and_its_twin_right(tmp_path) -> None:
    out = tmp_path / "record.json"
    command = [sys.executable, "-m", "lab.dodges.dodges", str(out), "--device=cpu", "--witness", "--only=boundary"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr  # the others were not run
    rows = [row for row in read_json(out)["rows"] if row["outcome"] != "not run"]
    assert [(row["name"], row["outcome"], row["twin_passes"]) for row in rows] == [("boundary", "caught", True)]


@pytest.mark.usefixtures("compiler")
def test_the_runner_catches_cheats_and_passes_their_twins(tmp_path) -> None:
    out = tmp_path / "record.json"
    command = [sys.executable, "-m", "lab.dodges.dodges", str(out), "--device=cpu", "--only=sees_poison or zeroes"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr  # the others were not run
    rows = [row for row in read_json(out)["rows"] if row["outcome"] != "not run"]
    assert [(row["name"], row["outcome"], row["twin_passes"]) for row in rows] == [
        ("sees_poison", "caught", True),
        ("zeroes_inputs", "caught", True),
    ]


def test_a_record_is_completed_by_one_of_its_commit_and_device() -> None:
    ran, missing = {"name": "one", "outcome": "caught"}, {"name": "one", "outcome": "not run"}
    other = {"name": "two", "outcome": "passes"}
    record = {"commit": "1234567", "device": "NVIDIA H200", "driver": "580", "rows": [missing, other]}
    earlier = record | {"rows": [ran, other | {"outcome": "caught"}]}
    assert dodges.completed(record, earlier)["rows"] == [ran, other]
    assert dodges.completed(record, earlier | {"commit": "7654321"}) == record
