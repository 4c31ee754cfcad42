import json

import pytest
from expecting import refuses
from hypothesis import given
from hypothesis import strategies as st

from peakgate.base.errors import Code
from peakgate.run import journal as journal_file
from peakgate.run import lock
from peakgate.run.journal import Journal, Lines, Link, finished

KEY = {"commit": "abc", "changes": "def", "driver": "580"}
FIRST = {"case": "mine.first", "extra_info": {"verdict": "PASS"}, "times_us": [1.5, 0.1]}
WORD = {"case": "mine.second", "verdict": "CRASHED", "reason": "its process was ended by SIGSEGV during a launch"}
OPEN = {"case": "mine.third", "extra_info": {"verdict": "INCONCLUSIVE"}, "times_us": []}


@pytest.fixture
def journal(tmp_path):
    """A journal in which a run was interrupted."""
    written = Journal(tmp_path)
    for record in ({"measures": KEY}, {"roofs": {"fma": 60.0}}, FIRST, WORD, OPEN, {"restart": "mine.second: crashed"}):
        written.append(record)
    written.close(keep=True)
    return tmp_path / "bench.journal"


def test_finished_cases_roofs_and_restarts_are_read_back(journal):
    found = finished(journal)
    assert found.cases == {record["case"]: record for record in (FIRST, WORD, OPEN)}
    assert found.roofs == {"fma": 60.0}
    assert found.restarts == ["mine.second: crashed"]


def test_a_resumed_run_takes_over_what_was_decided_and_measures_the_rest_again(journal):
    resumed = Journal(journal.parent)
    assert resumed.resume(KEY) == 2
    assert resumed.cases == ["mine.first", "mine.second"]
    assert "2 finished" in finished(journal).restarts[-1]


def test_nothing_to_resume_is_a_new_run(tmp_path):
    assert Journal(tmp_path).resume(KEY) == 0


@pytest.mark.parametrize("name", list(KEY))
@pytest.mark.parametrize("value", ["other", None])
def test_a_run_of_something_else_is_not_resumed(journal, name, value):
    with refuses(Code.CHANGED, name):
        Journal(journal.parent).resume(KEY | {name: value})


def test_what_was_not_known_and_is_not_is_no_reason_to_resume(tmp_path):
    unknown = KEY | {"commit": None}
    written = Journal(tmp_path)
    written.append({"measures": unknown})
    written.append(FIRST)
    written.close(keep=True)
    with refuses(Code.CHANGED, "commit"):
        Journal(tmp_path).resume(unknown)


def test_a_run_waits_for_the_one_that_writes_to_its_folder(tmp_path, monkeypatch, capsys):
    first = Journal(tmp_path)
    monkeypatch.setattr(lock.time, "sleep", lambda _s: first.close(keep=False))
    second = Journal(tmp_path, wait_s=60.0)
    second.append({"case": "one"})
    assert second.path.read_text()
    assert "another run" in capsys.readouterr().err
    second.close(keep=False)


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    first = Journal(tmp_path)
    with refuses(Code.BUSY):
        Journal(tmp_path)
    first.close(keep=False)
    assert list(tmp_path.iterdir()) == []
    Journal(tmp_path).close(keep=True)
    assert list(tmp_path.iterdir()) == []  # there is nothing to resume


WHOLE = {"measures": KEY}, FIRST, WORD


def written(records):
    text, digest = b"", ""
    for record in records:
        line, digest = journal_file.line(record, digest)
        text += line
    return text


@given(st.integers(0, 600), st.sampled_from(["cut", "another letter", "a line deleted"]))
def test_a_journal_damaged_anywhere_gives_the_whole_records_before_that_place(tmp_path_factory, place, damage):
    path = tmp_path_factory.mktemp("cut") / "bench.journal"
    text = written(WHOLE)
    place %= len(text)
    if damage == "cut":
        text = text[:place]
    elif damage == "another letter":
        text = text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :]
    else:
        lines = text.splitlines(keepends=True)
        text = b"".join(lines[: place % 3] + lines[place % 3 + 1 :])
    path.write_bytes(text)
    assert list(finished(path).cases.values()) in ([], [FIRST], [FIRST, WORD])
    assert damage == "cut" or list(finished(path).cases.values()) != [FIRST, WORD]


@pytest.mark.parametrize("length", range(1, 400, 40))
def test_what_is_appended_after_a_cut_line_is_read_back(tmp_path, length):
    (tmp_path / "bench.journal").write_bytes(written(WHOLE)[:length])
    resumed = Journal(tmp_path)
    resumed.resume(KEY)
    resumed.append(OPEN)
    assert finished(resumed.path).cases["mine.third"] == OPEN
    assert finished(resumed.path).restarts


def test_a_journal_that_begins_with_something_else_is_refused_and_not_measured_over(tmp_path):
    (tmp_path / "bench.journal").write_text('{"measures": 5}\n')
    with refuses(Code.CHANGED):
        Journal(tmp_path).resume(KEY)


def test_resuming_takes_nothing_away_from_the_journal_so_a_kill_loses_no_finished_case(journal):
    before = journal.read_bytes()
    Journal(journal.parent).resume(KEY)
    assert journal.read_bytes().startswith(before)


@given(st.lists(st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False))), st.integers(1, 50))
def test_events_arrive_whole_however_the_pipe_cuts_them(events, step):
    sent = "".join(json.dumps(event) + "\n" for event in events).encode()
    lines = Lines()
    received = [event for start in range(0, len(sent), step) for event in lines.feed(sent[start : start + step])]
    assert received == events


def test_what_is_no_event_is_dropped():
    assert Lines().feed(b'\xff\n[1]\n{"step": \n{"step": "a launch"}\n') == [{"step": "a launch"}]


def test_without_a_supervisor_nothing_is_sent():
    link = Link()
    link.expect("a launch", 5.0, "mine.first")
    assert not link.supervised
