import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peakgate.common.errors import PeakgateError
from peakgate.run.journal import Journal, finished
from peakgate.run.link import Lines, Link

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
    assert finished(journal).restarts[-1] == "resumed with 2 finished cases"


def test_nothing_to_resume_is_a_new_run(tmp_path):
    assert Journal(tmp_path).resume(KEY) == 0


@pytest.mark.parametrize("name", list(KEY))
@pytest.mark.parametrize("value", ["other", None])
def test_a_run_of_something_else_is_not_resumed(journal, name, value):
    with pytest.raises(PeakgateError, match=f"--resume continues a run only where {name} is the same"):
        Journal(journal.parent).resume(KEY | {name: value})


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    first = Journal(tmp_path)
    with pytest.raises(PeakgateError, match="another run writes its verdict here; name another folder: --out"):
        Journal(tmp_path)
    first.close(keep=False)
    assert list(tmp_path.iterdir()) == []
    Journal(tmp_path).close(keep=True)
    assert list(tmp_path.iterdir()) == [], "there is nothing to resume"


@given(st.integers(min_value=0, max_value=400))
def test_a_journal_cut_anywhere_gives_whole_records_only(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "bench.journal"
    whole = [{"measures": KEY}, FIRST, WORD]
    path.write_bytes("".join(json.dumps(record) + "\n" for record in whole).encode()[:length])
    assert list(finished(path).cases.values()) in ([], [FIRST], [FIRST, WORD])


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
