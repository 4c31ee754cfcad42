from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from peakgate.reports.runs import index as reading
from peakgate.reports.runs.index import Session, read_session, read_sessions
from peakgate.reports.runs.runfile import load_run
from synthetic_runs import LADDER, document, save

PAD = "transpose.smem_pad-8192-32x8"


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    extra = {PAD: {"fingerprint": "cafe"}}
    return [save(tmp_path / "runs", f"run{day}", document(day=day, extra=extra)) for day in (1, 2, 3)]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "history.json"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were really read."""
    names: list[str] = []

    def spy(file: Path) -> Session | str:
        names.append(file.name)
        return read_session(file)

    monkeypatch.setattr(reading, "read_session", spy)
    return names


def test_a_session_says_what_the_strict_reader_says(runs: list[Path]) -> None:
    run, session = load_run(runs[0]), read_session(runs[0])
    assert isinstance(session, Session)
    for fact in ("taken", "commit", "dirty", "slug", "uuid", "driver", "tier", "whole"):
        assert getattr(session, fact) == getattr(run, fact)
    assert session.times_us == {case: result.time_us for case, result in run.cases.items()}
    assert session.fingerprints == {PAD: "cafe"}


@pytest.mark.parametrize("odd", [7, ["GPU-1"]])
def test_a_gpu_or_driver_that_is_no_text_is_one_all_the_same(tmp_path: Path, odd: object) -> None:
    path = save(tmp_path, "run", document(uuid=odd, driver=odd))
    if isinstance(odd, (list, dict)):
        assert "not a single value" in str(read_session(path))
        return
    session = read_session(path)
    assert isinstance(session, Session)
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
    assert isinstance(expected, Session)
    assert read_session(path) == expected


def test_undecided_cases_are_left_out(tmp_path: Path) -> None:
    reported = [{"case": "transpose.smem-8192-32x8", "verdict": "WRONG", "reason": "race"}]
    content = document(not_measured=reported, extra={PAD: {"verdict": "INCONCLUSIVE"}})
    session = read_session(save(tmp_path, "run", content))
    assert isinstance(session, Session)
    assert set(LADDER) - set(session.times_us) == {PAD, "transpose.smem-8192-32x8"}


def test_a_case_that_is_a_matter_of_the_host_has_no_history(tmp_path: Path) -> None:
    session = read_session(save(tmp_path, "run", document(extra={PAD: {"host_bound": True}})))
    assert isinstance(session, Session)
    assert set(LADDER) - set(session.times_us) == {PAD}


def test_what_was_read_is_not_read_again(runs: list[Path], index: Path, opened: list[str]) -> None:
    first = read_sessions(runs, index)
    assert opened == ["run1.json", "run2.json", "run3.json"]
    assert read_sessions(runs, index) == first
    assert len(opened) == 3


def test_a_file_that_changed_is_read_again(runs: list[Path], index: Path, opened: list[str]) -> None:
    read_sessions(runs, index)
    save(runs[1].parent, "run2", document({PAD: 1.0}, day=2))
    changed = read_sessions(runs, index).sessions[1]
    assert opened[3:] == ["run2.json"]
    assert changed.times_us == {PAD: pytest.approx(1.0)}


def test_a_file_of_the_same_size_and_another_time_is_read_again(
    runs: list[Path], index: Path, opened: list[str]
) -> None:
    read_sessions(runs, index)
    os.utime(runs[0], ns=(1, 1))
    read_sessions(runs, index)
    assert opened[3:] == ["run1.json"]


def entries(index: Path) -> dict[str, Any]:
    """What is in an index, below the line with its digest."""
    content = json.loads(index.read_text().partition("\n")[2])
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": 1}', '{"schema": 2, "lists": [], "records": {}}'])
def test_a_broken_index_is_made_anew(text: str, runs: list[Path], index: Path) -> None:
    index.parent.mkdir()
    index.write_text(text)
    assert len(read_sessions(runs, index).sessions) == 3
    assert set(entries(index)["records"]) == {str(run) for run in runs}


def test_an_index_that_can_be_neither_read_nor_written_costs_no_answer(runs: list[Path]) -> None:
    found = read_sessions(runs, Path("/proc/self/mem"))  # whose first page nobody can read
    assert len(found.sessions) == 3
    assert [note.partition(":")[0] for note in found.notes] == ["every run will be read again next time"]


def test_an_index_of_half_a_record_is_made_anew(runs: list[Path], index: Path) -> None:
    expected = read_sessions(runs, index)
    content = entries(index)
    del content["records"][str(runs[0])]["session"]["times_us"]
    body = json.dumps(content).encode()
    index.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert read_sessions(runs, index) == expected


def test_an_index_that_cannot_be_written_costs_a_note(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    found = read_sessions(runs, tmp_path / "taken" / "history.json")
    assert len(found.sessions) == 3
    assert "every run will be read again next time" in found.notes[0]


def test_the_index_forgets_files_that_are_gone_and_keeps_those_not_asked_for(runs: list[Path], index: Path) -> None:
    read_sessions(runs, index)
    runs[0].unlink()
    more = save(runs[0].parent, "run4", document(day=4))
    read_sessions([more], index)
    assert {Path(name).name for name in entries(index)["records"]} == {
        "run2.json",
        "run3.json",
        "run4.json",
    }


def test_foreign_files_are_passed_over_and_named(runs: list[Path], index: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.json"
    half.write_text(runs[0].read_text()[:100])
    (tmp_path / "list.json").write_text("[]")
    twice = document()
    twice["benchmarks"].append(twice["benchmarks"][0])
    negative = document()
    negative["benchmarks"][0]["stats"]["median"] = -1.0
    other = document() | {"peakgate_schema": 2}
    strange = [save(tmp_path, name, each) for name, each in (("twice", twice), ("neg", negative), ("other", other))]
    found = read_sessions([*runs, half, tmp_path / "list.json", *strange], index)
    assert len(found.sessions) == 3
    for words, note in zip(("truncated", "top level", "in it twice", "median", "schema"), found.notes, strict=True):
        assert words in note
    assert read_sessions([*runs, half, tmp_path / "list.json", *strange], index) == found


def test_many_files_are_shared_between_processes_with_the_same_result(
    runs: list[Path], index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = read_sessions(runs, index)
    index.unlink()
    monkeypatch.setattr(reading, "FEWEST_TO_SHARE", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert read_sessions(runs, index) == alone


def test_a_process_that_cannot_be_started_costs_time_and_no_run(
    runs: list[Path], index: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    monkeypatch.setattr(reading, "FEWEST_TO_SHARE", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert len(read_sessions(runs, index).sessions) == 3
    assert sorted(opened) == ["run1.json", "run2.json", "run3.json"]
