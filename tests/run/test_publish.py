import json
import sys
from types import SimpleNamespace

import pytest
from metrics_text import exposition

from peakgate.base.errors import PeakgateError
from peakgate.base.files import write_new
from peakgate.run import run_file
from peakgate.run.places import Places, storage_folder, write_verdict

MACHINE = "Linux-CPython-3.12-64bit"


@pytest.fixture
def places(tmp_path):
    """A run whose files pytest-benchmark has staged."""
    made = Places(tmp_path / "out", tmp_path / "run.json", tmp_path / "saved")
    made.clear()
    staged = made.staging / "saved" / MACHINE
    staged.mkdir(parents=True)
    (staged / "0001_abc_20261121.json").write_text('{"benchmarks": []}')
    made.staged_json.write_text('{"benchmarks": [1]}')
    return made


def test_staged_files_move_to_their_places_and_leave_nothing_behind(places, tmp_path):
    named, numbered = sorted(places.publish(tmp_path / "unused"))
    assert named.read_text() == '{"benchmarks": [1]}'
    assert numbered == tmp_path / "saved" / MACHINE / "0001_abc_20261121.json"
    places.remove_staging()
    assert list(places.out.iterdir()) == []


def test_a_run_takes_the_next_number_and_never_the_place_of_another(places, tmp_path):
    folder = tmp_path / "saved" / MACHINE
    folder.mkdir(parents=True)
    for name in ("0001_old.json", "0007_newer.json"):
        (folder / name).write_text("kept")
    assert (folder / "0008_abc_20261121.json") in places.publish(tmp_path)
    assert (folder / "0001_old.json").read_text() == "kept"


def test_an_empty_run_file_is_none_where_nothing_was_measured(places, tmp_path):
    places.staged_json.write_bytes(b"")
    with pytest.raises(PeakgateError):
        places.publish(tmp_path)
    assert places.staged_json not in places.publish(tmp_path, measured=False)
    assert not places.json.exists()
    assert not places.staged_json.exists()


def test_half_a_run_file_is_not_published(places, tmp_path):
    places.staged_json.write_text('{"benchmarks": [')
    with pytest.raises(PeakgateError, match="the run file is incomplete"):
        places.publish(tmp_path)
    assert not (tmp_path / "run.json").exists()


def test_what_an_earlier_run_left_is_gone_before_a_run_starts(places):
    for name in ("bench.json", "bench.prom"):
        (places.out / name).write_text("{}")
    places.clear()
    assert [path for path in places.out.rglob("*") if path.is_file()] == []
    places.json.write_text("{}")
    places.clear()
    assert not places.json.exists()


def test_a_verdict_names_files_by_their_hash_and_has_metrics(tmp_path):
    floors = tmp_path / "baselines" / "nvidia-h200" / "floors.toml"
    floors.parent.mkdir(parents=True)
    floors.write_text("")
    case = {"case": "own.mine-256", "verdict": "PASS", "reason": "", "time_us": 12.5, "peak_fraction": None}
    found = {"code": 0, "device": "nvidia-h200", "commit": "c" * 40, "cases": [case]}
    write_verdict(tmp_path, found, tmp_path / "baselines", [tmp_path / "gone"])
    labels = ("case", "own.mine-256"), ("gpu", "nvidia-h200"), ("commit", "c" * 40)
    metrics = exposition((tmp_path / "bench.prom").read_text())
    assert (metrics["peakgate_time_seconds"], metrics["peakgate_peak_ratio"]) == ({labels: 12.5e-6}, {})
    verdict = json.loads((tmp_path / "bench.json").read_text())
    assert verdict["exit_code"] == 0
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert verdict["files"] == {str(floors): empty, str(tmp_path / "gone"): None}


def test_metrics_of_a_tree_outside_git_name_no_commit(tmp_path):
    case = {"case": "own.mine-256", "verdict": "PASS"}
    write_verdict(tmp_path, {"code": 0, "device": "cpu-emulator", "commit": None, "cases": [case]}, tmp_path, [])
    ((labels, one),) = exposition((tmp_path / "bench.prom").read_text())["peakgate_verdict"].items()
    assert (dict(labels)["commit"], one) == ("unversioned", 1)


def test_a_new_file_is_whole_and_an_old_one_is_left_as_it_is(tmp_path):
    assert write_new(tmp_path / "a", "first")
    assert not write_new(tmp_path / "a", "second")
    assert (tmp_path / "a").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_runs_are_saved_in_folders_only(tmp_path):
    assert storage_folder(None) is None
    assert storage_folder(f"file://{tmp_path}") == storage_folder(str(tmp_path)) == tmp_path
    with pytest.raises(PeakgateError, match="expected a folder or file://FOLDER"):
        storage_folder("elasticsearch+http://host/index")


def test_versions_are_those_of_imported_packages(monkeypatch):
    for module, _ in run_file.GENERATORS.values():
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert run_file.versions() == {}
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace())
    monkeypatch.setattr(run_file.metadata, "version", lambda package: f"{package} 1.0")
    ptxas = SimpleNamespace(knobs=SimpleNamespace(nvidia=SimpleNamespace(ptxas=SimpleNamespace(version="13.0"))))
    monkeypatch.setitem(sys.modules, "triton", ptxas)
    assert run_file.versions() == {"jax": "jax 1.0", "triton": "triton 1.0", "ptxas": "13.0"}
