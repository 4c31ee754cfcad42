"""How the folders of a campaign become a record."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ab_records import ab_record
from synthetic_runs import document

from lab.injected import collect
from lab.injected.record import Cell, Experiment, read_facts, read_times
from peakgate.compare.ab.means import AB_FOLDER
from peakgate.compare.ab.plan import Plan
from peakgate.compare.ab.record import Process
from peakgate.compare.ab.schedule import Phase, Side
from peakgate.runfile import saved as runfile

Captured = pytest.CaptureFixture[str]
COPY = "steps.delayed_copy-5us-10pm-0"


@pytest.fixture(autouse=True)
def _after_every_synthetic_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthetic runs are dated November 2026, whatever this machine's clock says."""
    monkeypatch.setattr(runfile, "now", lambda: datetime(2027, 1, 1, tzinfo=UTC))


def measured(folder: Path, name: str, case: str, *, driver: str = "1.2", lost: int | None = None) -> None:
    """A finished ``ab`` of one case and two pairs, as a campaign leaves it; pair ``lost`` left no run file."""
    record = ab_record(folder / AB_FOLDER, Plan((case, "t.distrusted")), (2, 2))
    (folder / AB_FOLDER).mkdir(parents=True)
    for pair in range(2):
        for which in Side:
            file = f"screen-{pair}-{which}.json"
            extra = {"t.distrusted": {"verdict": "INCONCLUSIVE"}}
            run = document({case: 10.0 + pair, "t.distrusted": 1.0}, day=2 + pair, driver=driver, extra=extra)
            (folder / AB_FOLDER / file).write_text(json.dumps(run))
            record.processes.append(Process(Phase.SCREEN, pair, which, None if pair == lost else file, 0, 1.0, {}))
    record.processes.append(Process(Phase.CONFIRM, 0, Side.BASE, None, 0, 1.0, {}))
    record.save()
    row = {"case": case, "verdict": "SLOWER", "change_percent": 2.0}
    (folder / "ab.json").write_text(json.dumps({"exit_code": 1, "rows": [row]}))
    (folder / "timing.json").write_text(json.dumps({"experiment": name, "exit_code": 1, "seconds": 12.5}))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    there = tmp_path / "campaign"
    measured(there / "same-1", "same", "t.copy-1")
    measured(there / "same-2", "same", "t.copy-1")
    measured(there / "same-pairs-1", "same-pairs", "t.copy-1", lost=0)
    measured(there / "same-pairs-2", "same-pairs", "t.copy-1")
    measured(there / "pairs-1", "pairs", COPY)
    measured(there / "steps-1", "steps", COPY)
    measured(there / "mutants-1", "mutants", "t.pad-1")
    (there / "mutants-1" / "mutants.json").write_text('{"schema": 1, "mutants": []}')
    truth = [{"duration_us": 5, "permille": 10, "log_shift": 0.011}]
    (there / "ground_truth.json").write_text(json.dumps(truth))
    return there


def collected(out: Path, record: Path) -> int:
    return collect.main([str(out), "--commit", "abc", "--record", str(record)])


def test_folders_become_a_record_with_pairs_numbered_through(out: Path, tmp_path: Path, capsys: Captured) -> None:
    record = tmp_path / "record"
    assert collected(out, record) == 0
    assert "injected.json" in capsys.readouterr().out
    same = read_times(record, Experiment.SAME)
    assert sorted(same["pair"].unique()) == [1, 2, 3]  # a pair that left no run file keeps its number
    assert set(same["case"]) == {"t.copy-1"}  # a case that its process distrusts is left out
    assert same["time_us"].unique().tolist() == [11.0, 10.0]
    copies = read_times(record, Experiment.STEPS)
    assert sorted(copies["pair"].unique()) == [0, 1]  # a whole run's later pairs lack what earlier ones settled
    gates, truth = read_facts(record)
    assert truth == {Cell(5, 10): 0.011}
    assert [gate.experiment for gate in gates] == ["mutants", "same", "same", "steps"]  # pairs are no gate
    steps = gates[-1]
    assert (steps.screening_pairs, steps.confirming_pairs, steps.seconds) == (2, 1, 12.5)
    assert steps.verdicts == {COPY: "SLOWER"}
    facts = json.loads((record / "injected.json").read_text())
    assert (facts["gpu"], facts["driver"]) == ("NVIDIA H200", "1.2")
    assert facts["origins"]["steps"] == {"commit": "abc", "taken": "2026-11-02T12:00:00+00:00"}


def test_whole_runs_alone_become_a_record_without_times(out: Path, tmp_path: Path) -> None:
    for folder in [*out.glob("same-pairs-*"), *out.glob("pairs-*")]:
        shutil.rmtree(folder)
    assert collected(out, tmp_path / "record") == 0
    assert {path.name for path in (tmp_path / "record").iterdir()} == {"injected.json", "mutants.json"}


def test_the_same_campaign_makes_the_same_bytes(out: Path, tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        assert collected(out, tmp_path / name) == 0
        texts.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("same-[12]/timing.json", "no same-* in it with pairs"),
        ("same-pairs-*/timing.json", "no same-pairs-* in it with pairs"),
        ("steps-1/timing.json", "no steps-* in it"),
        ("pairs-1/timing.json", "no pairs-* in it"),
        ("mutants-1/timing.json", "no mutants-* in it"),
        ("mutants-1/mutants.json", "mutants.json: FileNotFoundError"),
        ("same-1/ab.json", "ab.json: FileNotFoundError"),
        ("steps-1/ab/manifest.json", "no manifest.json in it"),
    ],
)
def test_a_campaign_that_lacks_a_part_is_one_line(
    out: Path, tmp_path: Path, capsys: Captured, lost: str, message: str
) -> None:
    for path in out.glob(lost):
        path.unlink()
    refused(out, tmp_path / "record", message, capsys)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("same-1/timing.json", '{"experiment": "sane", "seconds": 1}'),
        ("same-1/timing.json", "[]"),
        ("same-1/ab/manifest.json", '{"schema": 1, "processes": [{"stage": "screen"}]}'),
        ("same-1/ab.json", '{"exit_code": 0}'),
        ("mutants-1/mutants.json", "1"),
        ("ground_truth.json", "{"),
    ],
)
def test_a_file_of_another_form_is_named_and_nothing_is_written(
    out: Path, tmp_path: Path, capsys: Captured, file: str, text: str
) -> None:
    (out / file).write_text(text)
    refused(out, tmp_path / "record", Path(file).name, capsys)


def test_a_record_is_of_one_driver(out: Path, tmp_path: Path, capsys: Captured) -> None:
    measured(out / "same-3", "same", "t.copy-1", driver="1.3")
    refused(out, tmp_path / "record", "expected one GPU model and driver", capsys)


def refused(out: Path, record: Path, message: str, capsys: Captured) -> None:
    assert collected(out, record) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not record.exists()
