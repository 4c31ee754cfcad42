"""What stands for a case that several processes of a run measured."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.judge.floors import UNCHECKED
from peakgate.run.journal import Journal, finished, judge_again, settled, share_below, wanted_again

FLOOR = 0.7


def measured(fraction, verdict=None, relative_error=0.0, case="mine.first"):
    verdict = verdict or ("BELOW_FLOOR" if fraction < FLOOR else "PASS")
    entry = {"verdict": verdict, "reason": "one process", "floor": FLOOR, "peak_fraction": fraction}
    return {"case": case, "extra_info": entry | {"relative_error": relative_error}, "times_us": [1 / fraction]}


CRASHED = {"case": "mine.first", "verdict": "CRASHED", "reason": "its process was ended by SIGSEGV"}
KILLED = {"case": "mine.first", "verdict": "INCONCLUSIVE", "reason": "its process was ended by SIGKILL"}


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3))
def test_figures_samples_and_verdict_are_those_of_the_median_process(fractions):
    records = [measured(min(fractions), "BELOW_FLOOR"), *map(measured, fractions[1:])]
    median_record = settled(records)
    median = sorted(record["extra_info"]["peak_fraction"] for record in records)[1]
    entry = median_record["extra_info"]
    assert entry["peak_fraction"] == median
    assert median_record["times_us"] == [1 / median]
    assert entry["verdict"] == ("BELOW_FLOOR" if median < FLOOR else "PASS")


@pytest.mark.parametrize("fractions", list(permutations((0.5, 0.69, 0.95))))
def test_two_processes_below_the_floor_are_not_made_up_for_by_a_fast_one(fractions):
    assert judge_again(fractions, FLOOR).verdict.value == "BELOW_FLOOR"
    mirrored = [2 * FLOOR - each for each in fractions]
    assert judge_again(mirrored, FLOOR).verdict.value == "PASS"


@pytest.mark.parametrize("later", [(0.65, 0.95), (0.95, 0.65)])
def test_the_figures_kept_are_the_middle_ones_in_any_order(later):
    assert settled([measured(0.5), *map(measured, later)])["times_us"] == [1 / 0.65]


@pytest.mark.parametrize("order", [(0.8, 0.9), (0.9, 0.8)])
def test_the_reason_names_the_three_fractions(order):
    entry = settled([measured(0.6), *map(measured, order)])["extra_info"]
    assert entry["reason"].endswith(f"{', '.join(map(str, (0.6, *order)))})")


@pytest.mark.parametrize("undecided", [KILLED, measured(0.9, "INCONCLUSIVE"), measured(0.9, "NO_FLOOR")])
def test_a_process_that_could_not_decide_leaves_the_case_undecided_with_the_first_figures(undecided):
    median_record = settled([measured(0.6), undecided, measured(0.9)])
    assert median_record["extra_info"]["verdict"] == "INCONCLUSIVE"
    assert median_record["times_us"] == [1 / 0.6]


@pytest.mark.parametrize("fault", [CRASHED, measured(0.9, "WRONG"), measured(1.5, "IMPOSSIBLE")])
def test_a_fault_in_any_process_stands_and_is_not_measured_again(fault):
    records = [measured(0.6), fault]
    assert not wanted_again(records)
    assert settled(records) is fault
    assert settled([measured(0.6), measured(0.9), fault]) is fault


def test_a_case_below_its_floor_is_wanted_until_three_processes_measured_it():
    records = [measured(0.6), measured(0.9), measured(0.8)]
    assert [wanted_again(records[:count]) for count in (1, 2, 3)] == [True, True, False]
    assert not wanted_again([measured(0.9)])


def test_a_result_that_nobody_checked_stays_named_as_such():
    records = [measured(fraction, relative_error=None) for fraction in (0.6, 0.8, 0.9)]
    assert settled(records)["extra_info"]["reason"].endswith(UNCHECKED)


def test_more_than_a_quarter_below_their_floors_is_said():
    assert "suspect the GPU" not in share_below(1, 4)
    assert "suspect the GPU" in share_below(2, 4)


def test_a_resumed_run_measures_a_case_in_as_many_processes_as_any_other(tmp_path):
    """What an interrupted run could not decide does not count, and no case passes on fewer than three processes."""
    journal = Journal(tmp_path)
    other = measured(0.9, case="mine.other")
    for record in ({"measures": {}}, measured(0.6), other, KILLED, measured(0.9)):
        journal.append(record)
    assert journal.again == []  # three processes, of which one could not decide
    journal.close(keep=True)
    resumed = Journal(tmp_path)
    assert resumed.resume({}) == 1
    assert resumed.again == ["mine.first"]
    found = finished(resumed.path)
    assert set(found.cases) == {"mine.other"}
    assert found.again == {"mine.first": 2}
    resumed.append(measured(0.8))
    assert finished(resumed.path).below == {"mine.first"}
    assert finished(resumed.path).cases["mine.first"]["extra_info"]["verdict"] == "PASS"
    resumed.close(keep=False)
