"""A second clock's records against the events of the same launches."""

from dataclasses import replace

import pytest

from peakgate.judge.activity import Activity, second_clock

FLUSH_US, WORK_US, GAP_US = 55, 100, 1
TIMES_US = [WORK_US + 3.0] * 3


def batch(launches=3, work_us=WORK_US):
    """Stamp, flush, work, stamp of each launch, a copy between them, and the last stamp."""
    found, now_ns = [], 1000

    def add(name, duration_us, stream=7):
        nonlocal now_ns
        found.append(Activity(name, now_ns, now_ns + int(duration_us * 1e3), stream))
        now_ns += int((duration_us + GAP_US) * 1e3)

    for _ in range(launches):
        add("", 20)  # what puts back changed arrays
        add("stamp", 0.7)
        add("", FLUSH_US)
        add("work", work_us)
        add("stamp", 0.7)
    add("stamp", 0.7)
    return found


def took_ns(activities):
    stamps = [each.start_ns for each in activities if each.name == "stamp"]
    return stamps[-1] - stamps[0] if stamps else 0


def judged(times_us, activities):
    return second_clock(times_us, activities, took_ns(activities))


def test_clocks_that_agree_give_the_time_of_the_work():
    found = judged(TIMES_US, batch())
    assert found.doubt is None
    assert found.median_us == pytest.approx(WORK_US)


def test_records_in_another_unit_give_the_time_of_the_work():
    cycles = [replace(each, start_ns=int(2.1 * each.start_ns), end_ns=int(2.1 * each.end_ns)) for each in batch()]
    found = second_clock(TIMES_US, cycles, took_ns(batch()))
    assert found.doubt is None
    assert found.median_us == pytest.approx(WORK_US, rel=1e-3)
    assert second_clock([1.5 * WORK_US] * 3, cycles, took_ns(batch())).doubt is not None


@pytest.mark.parametrize(("unit", "same"), [(0.94, False), (0.96, True), (1.04, True), (1.06, False)])
def test_a_unit_within_5_percent_is_that_of_the_timer(unit, same):
    found = second_clock(TIMES_US, batch(), took_ns(batch()) / unit)
    assert found.median_us == pytest.approx(WORK_US if same else WORK_US / unit)


@pytest.mark.parametrize("times_us", [[40.0] * 3, [150.0] * 3])
def test_clocks_that_differ_leave_a_doubt_with_both_figures(times_us):
    found = judged(times_us, batch())
    assert f"{times_us[0]:.2f}" in found.doubt
    assert "100.00" in found.doubt


def test_a_sample_without_work_is_a_doubt():
    assert judged(TIMES_US, [each for each in batch() if each.name != "work"]).doubt is not None


def test_records_that_are_not_whole_are_a_doubt():
    assert judged(TIMES_US, batch()[:-1]).doubt is not None
    assert judged(TIMES_US, []).doubt is not None


def test_events_may_take_10_us_and_2_percent_longer():
    least_us, most_us = WORK_US - 1.0, WORK_US + 10.0 + 0.02 * WORK_US
    doubts = {time_us: judged([time_us] * 3, batch()).doubt for time_us in (least_us, most_us)}
    assert set(doubts.values()) == {None}
    assert judged([least_us - 0.1] * 3, batch()).doubt is not None
    assert judged([most_us + 0.1] * 3, batch()).doubt is not None


def test_clocks_may_drift_by_20_millionths_of_a_long_launch():
    second_us = 1_000_000
    activities = batch(work_us=second_us)
    assert judged([second_us - 20.9] * 3, activities).doubt is None
    assert judged([second_us - 21.1] * 3, activities).doubt is not None


def at(*spans):
    """Activities of (name, first and last nanosecond, stream)."""
    return [Activity(*span) for span in spans]


STAMPS = (("stamp", 0, 10, 7), ("stamp", 1000, 1010, 7), ("stamp", 2000, 2010, 7))


@pytest.mark.parametrize(
    ("others", "median_us"),
    [
        ([("", 10, 100, 7), ("", 200, 1000, 7)], 0.8),  # the first on the stamps' stream is the flush
        ([("", 10, 100, 13), ("", 200, 700, 7)], 0.09),  # work on another stream is none
        ([("", 10, 100, 7), ("", 200, 900, 13), ("", 300, 500, 7)], 0.7),  # the last to end, not to begin
        ([("", 10, 100, 7), ("", 200, 1001, 7)], None),  # goes on after its sample
        ([("", 10, 100, 7), ("", 1000, 1000, 7)], None),  # begins with the sample's end: no work in it
        ([("", 10, 100, 7), ("", 200, 700, 7), ("", 1010, 1500, 7)], 0.5),  # between samples, on the same stream
        ([("", 10, 100, 7), ("", 200, 700, 7), ("", 1009, 1500, 8)], 0.5),  # beside the stamp that is still running
        ([("", 10, 100, 7), ("", 200, 700, 7), ("", 1010, 1500, 8)], None),
        ([("", 10, 100, 7), ("", 200, 700, 7), ("", 2000, 2005, 8)], 0.5),  # with the last stamp, after the batch
        ([("", 10, 100, 7), ("", 200, 700, 7), ("", -9, -5, 8)], 0.5),  # before the batch
    ],
)
def test_work_from_one_stamp_to_the_next_is_of_that_sample(others, median_us):
    assert judged([1.0], at(*STAMPS, *others)).median_us == median_us
