import gzip
import json
from pathlib import Path

import pytest
from synthetic_runs import document, save

from peakgate.base.errors import Code, PeakgateError
from peakgate.runfile.saved import keep, load_run


def saved(folder: Path, name: str = "run", **content):
    whole = document(**content)
    for benchmark in whole["benchmarks"]:
        benchmark["stats"]["data"] = [benchmark["stats"]["median"]] * 5
    return load_run(save(folder, name, whole))


def test_a_kept_run_says_the_same_without_its_samples(tmp_path: Path) -> None:
    run = saved(tmp_path)
    (path,) = keep([run], tmp_path / "baselines")
    assert path == tmp_path / "baselines" / "nvidia-h200" / "runs" / "20261101T120000-full.json.gz"
    kept = load_run(path)
    assert kept.cases == run.cases
    assert (kept.gpu, kept.commit, kept.taken) == (run.gpu, run.commit, run.taken)
    text = gzip.decompress(path.read_bytes()).decode()
    assert '"data"' not in text
    assert len(text.splitlines()) == len(json.loads(text)) + len(run.cases) + 3


def test_keeping_the_same_run_twice_changes_nothing_and_another_in_its_place_is_refused(tmp_path: Path) -> None:
    (path,) = keep([saved(tmp_path)], tmp_path / "b")
    before = path.read_bytes()
    assert keep([saved(tmp_path)], tmp_path / "b") == {path: False}
    with pytest.raises(PeakgateError, check=lambda error: error.code is Code.TAKEN):
        keep([saved(tmp_path, "other", driver="590.1")], tmp_path / "b")
    assert path.read_bytes() == before


def test_a_run_that_an_earlier_version_kept_unpacked_is_not_kept_twice(tmp_path: Path) -> None:
    (path,) = keep([saved(tmp_path)], tmp_path / "b")
    plain = path.with_suffix("")
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    path.unlink()
    assert keep([saved(tmp_path)], tmp_path / "b") == {plain: False}
    assert not path.exists()


def test_a_run_is_packed_into_the_same_bytes_each_time(tmp_path: Path) -> None:
    (first,), (second,) = (keep([saved(tmp_path)], tmp_path / name) for name in "bc")
    assert first.read_bytes() == second.read_bytes()


def test_emulated_and_oversized_runs_are_refused_and_nothing_is_written(tmp_path: Path, monkeypatch) -> None:
    fit, emulated = saved(tmp_path), saved(tmp_path, "emulated", slug="cpu-emulator")
    with pytest.raises(PeakgateError, check=lambda error: error.code is Code.EMULATED):
        keep([fit, emulated], tmp_path / "b")
    monkeypatch.setattr("peakgate.runfile.saved.LARGEST_KEPT_BYTES", 100)
    with pytest.raises(PeakgateError, match="over 100 bytes"):
        keep([fit], tmp_path / "b")
    assert not (tmp_path / "b").exists()
