from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from synthetic_runs import document, save

from peakgate.base.errors import PeakgateError
from peakgate.runfile.find import Archive, apart, find_history, find_side, without_copies
from peakgate.runfile.saved import load_run

FIRST, SECOND = "a1" * 20, "a2" * 20


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEAKGATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    save(folder / "deep" / "er", "first", document(day=1, commit=FIRST, driver="570.1.2"))
    save(folder, "second", document(day=3, commit=SECOND))
    save(folder, "third", document(day=2, commit=SECOND))
    return folder


def names(wanted: str, archive: Archive) -> list[str]:
    return [run.path.stem for run in find_side(wanted, archive).runs]


def refused(wanted: str, archive: Archive) -> str:
    with pytest.raises(PeakgateError) as caught:
        find_side(wanted, archive)
    assert wanted in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("{}/second.json", ["second"]),
        ("{}", ["first", "third", "second"]),
        ("A2a2", ["third", "second"]),
        ("driver:580.159.04", ["third", "second"]),
        ("driver:570", ["first"]),
        ("latest", ["second"]),
        ("latest~1", ["third"]),
        ("latest~2", ["first"]),
    ],
)
def test_a_side_is_a_file_folder_commit_driver_or_runs_back(runs: Path, wanted: str, found: list[str]) -> None:
    assert names(wanted.format(runs), Archive([runs])) == found


def test_a_commit_may_have_the_name_that_git_knows_it_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("init", "-qb", "trunk"), ("commit", "-qm", "one", "--allow-empty")):
        subprocess.run(("git", "-c", "user.email=a@b.c", "-c", "user.name=a", *command), check=True)
    head = subprocess.run(("git", "rev-parse", "HEAD"), check=True, capture_output=True, text=True).stdout.strip()
    save(tmp_path / "runs", "first", document(commit=head))
    for name in ("trunk", "HEAD", "HEAD^{commit}"):
        assert names(name, Archive([tmp_path / "runs"])) == ["first"]


def test_the_runs_before_the_latest_are_those_of_its_gpu_model(runs: Path) -> None:
    save(runs, "emulated", document(day=4, commit=SECOND, slug="cpu-emulator"))
    archive = Archive([runs])
    assert names("latest", archive) == ["emulated"]
    assert "of cpu-emulator" in refused("latest~1", archive)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("latest~3", "3 saved runs"), ("driver:999", "570.1.2"), ("a2a", "4 or more"), ("ffff", FIRST[:12])],
)
def test_what_no_run_is_says_what_there_is(runs: Path, wanted: str, said: str) -> None:
    assert said in refused(wanted, Archive([runs]))


def test_uncommitted_changes_stand_for_a_commit_last_of_all(runs: Path) -> None:
    save(runs, "dirty", document(day=4, commit=SECOND, dirty=True))
    save(runs, "only-dirty", document(day=5, commit="cd" * 20, dirty=True))
    assert names("a2a2a2", Archive([runs])) == ["third", "second"]
    assert names("cdcd", Archive([runs])) == ["only-dirty"]


def test_an_ambiguous_commit_lists_the_matches(runs: Path) -> None:
    save(runs, "near", document(commit="a2a2" + "b" * 36))
    message = refused("a2a2", Archive([runs]))
    assert "2 commits match" in message
    assert "a2a2bbbbbbbb" in message


def test_nothing_saved_is_told_so(tmp_path: Path) -> None:
    assert "no saved run" in refused("abcd", Archive([tmp_path]))
    assert "0 saved runs" in refused("latest", Archive([tmp_path]))


@pytest.mark.parametrize("wanted", ["none.json", "no-branch", "latest~x", "", "--all"])
def test_what_is_no_side_lists_the_forms_there_are(wanted: str, runs: Path) -> None:
    with pytest.raises(PeakgateError, match="a commit"):
        find_side(wanted or "no such", Archive([runs]))


def test_an_empty_folder_and_a_missing_root_are_refused(tmp_path: Path) -> None:
    assert "no *.json" in refused(str(tmp_path), Archive([tmp_path]))
    with pytest.raises(PeakgateError, match="no such folder"):
        Archive([tmp_path / "none"])


def test_a_named_folder_is_strict_and_a_search_passes_over(runs: Path) -> None:
    (runs / "broken.json").write_text("{")
    assert "broken.json" in refused_folder(runs)
    side = find_side("a2a2", Archive([runs]))
    assert "broken.json" in side.notes[0]


def test_latest_is_no_older_run_beside_a_half_written_file(runs: Path) -> None:
    (runs / "broken.json").write_text("{")
    assert "a newer run" in refused("latest", Archive([runs]))
    os.utime(runs / "broken.json", (1, 1))
    assert find_side("latest", Archive([runs])).runs[0].path.stem == "second"
    (runs / "notes.json").write_text("{}")
    assert find_side("latest", Archive([runs])).runs[0].path.stem == "second"


def test_a_run_of_the_future_is_never_the_latest(runs: Path) -> None:
    forged = document() | {"datetime": "2099-01-01T00:00:00+00:00"}
    save(runs, "forged", forged)
    assert "in the future" in refused(str(runs / "forged.json"), Archive([runs]))
    side = find_side("a2a2", Archive([runs]))
    assert all(run.taken.year < 2099 for run in side.runs)
    assert any("in the future" in note for note in side.notes)


@pytest.mark.parametrize("name", ["x" * 5000, "长" * 2000])
def test_a_sides_name_of_thousands_of_letters_is_one_short_line(runs: Path, name: str) -> None:
    with pytest.raises(PeakgateError) as caught:
        find_side(name, Archive([runs]))
    assert len(str(caught.value)) < 300


def refused_folder(folder: Path) -> str:
    with pytest.raises(PeakgateError) as caught:
        find_side(str(folder), Archive([folder]))
    return str(caught.value)


def test_two_gpu_models_on_one_side_are_refused(runs: Path) -> None:
    save(runs, "other", document(slug="nvidia-l4"))
    assert "nvidia-h200 and nvidia-l4" in refused(str(runs), Archive([runs]))


def test_a_copied_file_is_no_second_session(runs: Path) -> None:
    save(runs, "copy", document(day=3, commit=SECOND))
    side = find_side(str(runs), Archive([runs]))
    assert len(side.runs) == 3
    assert "1 of 4" in side.notes[0]
    assert len(without_copies([*side.runs, *side.runs])) == 3


def test_a_run_on_both_sides_is_left_out_of_base_and_noted(runs: Path) -> None:
    archive = Archive([runs])
    base, new = apart(find_side("driver:580", archive), find_side("latest", archive))
    assert ([run.path.stem for run in base.runs], [run.path.stem for run in new.runs]) == (["third"], ["second"])
    assert "driver:580" in base.notes[0]


def test_a_run_against_itself_is_left_alone(runs: Path) -> None:
    side = find_side("latest", Archive([runs]))
    assert apart(side, side) == (side, side)


def test_by_default_benchmarks_and_baseline_runs_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / ".benchmarks" / "Linux", "fresh", document(day=1))
    save(tmp_path / "baselines" / "nvidia-h200" / "runs", "kept", document(day=2))
    save(tmp_path / "baselines" / "nvidia-h200", "stray", document(day=3))
    monkeypatch.chdir(tmp_path)
    assert [Path(path).stem for path in Archive().sessions["run"]] == ["fresh", "kept"]


def test_history_is_the_same_model_without_the_sides_runs(runs: Path, tmp_path: Path) -> None:
    save(runs, "other", document(day=9, slug="nvidia-l4"))
    copy = save(tmp_path / "elsewhere", "edited", document({"a.b": 1.0}, day=1, commit=FIRST))
    archive = Archive([runs])
    sides = find_side(str(runs / "second.json"), archive), find_side(str(copy), archive)
    assert [Path(session.path).stem for session in find_history(archive, sides)] == ["third"]


def test_a_found_run_keeps_the_path_its_folder_was_named_by(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_side("latest", Archive([Path("runs")])).runs[0].path == Path("runs", "second.json")


def odd_run(folder: Path) -> None:
    """A run that only the strict reader refuses."""
    save(folder, "odd", document({"a.b": 1.0}, day=9, commit=SECOND, extra={"a.b": {"registers": "many"}}))


def test_an_unreadable_run_of_a_commit_is_passed_over_and_named(runs: Path) -> None:
    odd_run(runs)
    side = find_side("a2a2", Archive([runs]))
    assert [run.path.stem for run in side.runs] == ["third", "second"]
    assert "odd.json" in side.notes[0]
    assert "registers" in side.notes[0]


def test_the_one_run_asked_for_says_why_it_cannot_be_read(runs: Path) -> None:
    odd_run(runs)
    with pytest.raises(PeakgateError, match=r"odd\.json: .*registers"):
        find_side("latest", Archive([runs]))


def test_a_run_that_vanishes_in_a_search_is_passed_over(runs: Path) -> None:
    archive = Archive([runs])
    gone = archive.files[-1]
    gone.unlink()
    assert str(gone) not in set(archive.sessions["run"])
    assert sum(str(gone) in note for note in archive.notes) == 1
    find_side("latest", archive)
    with pytest.raises(PeakgateError, match="No such file"):
        load_run(gone)
