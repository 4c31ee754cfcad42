from __future__ import annotations

from pathlib import Path

import pytest
from peakgate.reports.runs.find import Archive
from peakgate.reports.runs.runfile import load_run
from peakgate.reports.runs.sessions import SavedSession, read_session
from synthetic_runs import LADDER, document, save

PAD = "transpose.smem_pad-8192-32x8"


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    extra = {PAD: {"fingerprint": "cafe"}}
    return [save(tmp_path / "runs", f"run{day}", document(day=day, extra=extra)) for day in (1, 2, 3)]


def test_a_session_says_what_the_strict_reader_says(runs: list[Path]) -> None:
    run, session = load_run(runs[0]), read_session(runs[0])
    assert isinstance(session, SavedSession)
    for fact in ("taken", "commit", "dirty", "slug", "uuid", "driver", "tier", "whole"):
        assert getattr(session, fact) == getattr(run, fact)
    assert session.times_us == {case: result.time_us for case, result in run.cases.items()}
    assert session.fingerprints == {PAD: "cafe"}


@pytest.mark.parametrize("odd", [7, ["GPU-1"]])
def test_a_gpu_or_driver_that_is_no_text_is_one_all_the_same(tmp_path: Path, odd: object) -> None:
    path = save(tmp_path, "run", document(uuid=odd, driver=odd))
    if isinstance(odd, (list, dict)):
        assert "machine_info.gpu." in str(read_session(path))
        return
    session = read_session(path)
    assert isinstance(session, SavedSession)
    assert (session.uuid, session.driver) == (str(odd), str(odd))
    assert (session.uuid, session.driver) == (load_run(path).uuid, load_run(path).driver)


@pytest.mark.parametrize("odd", ["a figure that is not a number", "a byte order mark"])
def test_a_run_that_the_quick_parser_will_not_take_is_read_all_the_same(tmp_path: Path, odd: str) -> None:
    content, expected = document(), read_session(save(tmp_path, "run", document()))
    if odd.startswith("a figure"):
        content["benchmarks"][0]["stats"]["ops"] = float("nan")
    path = save(tmp_path, "run", content)
    if odd.startswith("a byte"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert isinstance(expected, SavedSession)
    assert read_session(path) == expected


def test_undecided_cases_are_left_out(tmp_path: Path) -> None:
    reported = [{"case": "transpose.smem-8192-32x8", "verdict": "WRONG", "reason": "race"}]
    content = document(not_measured=reported, extra={PAD: {"verdict": "INCONCLUSIVE"}})
    session = read_session(save(tmp_path, "run", content))
    assert isinstance(session, SavedSession)
    assert set(LADDER) - set(session.times_us) == {PAD, "transpose.smem-8192-32x8"}


def test_a_case_that_is_a_matter_of_the_host_has_no_history(tmp_path: Path) -> None:
    session = read_session(save(tmp_path, "run", document(extra={PAD: {"host_bound": True}})))
    assert isinstance(session, SavedSession)
    assert set(LADDER) - set(session.times_us) == {PAD}


def test_the_sessions_of_an_archive_are_those_of_its_files_as_they_stand(runs: list[Path]) -> None:
    archive = Archive([runs[0].parent])
    first = archive.sessions()
    assert [session.taken.day for session in first] == [1, 2, 3]
    save(runs[1].parent, "run2", document({PAD: 1.0}, day=2))
    changed = Archive([runs[0].parent]).sessions()
    assert changed[1].times_us == {PAD: pytest.approx(1.0)}
    assert (changed[0], changed[2]) == (first[0], first[2])


def test_foreign_files_are_passed_over_and_named(runs: list[Path]) -> None:
    folder = runs[0].parent
    (folder / "half.json").write_text(runs[0].read_text()[:100])
    (folder / "list.json").write_text("[]")
    twice = document()
    twice["benchmarks"].append(twice["benchmarks"][0])
    negative = document()
    negative["benchmarks"][0]["stats"]["median"] = -1.0
    for name, content in (("twice", twice), ("neg", negative), ("other", document() | {"peakgate_schema": 2})):
        save(folder, name, content)
    archive = Archive([folder])
    assert len(archive.sessions()) == 3
    passed_over = {Path(note.split(": ")[1]).stem for note in archive.notes()}
    assert passed_over == {"half", "list", "twice", "neg", "other"}
