"""Whom a step is put down to, and that what one commit or driver did is reported once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
from drawn_sessions import DrawnSession
from test_history_trend import CASE, SESSIONS, history, quiet, session, slowed

from peakgate.compare.history.causes import Cause
from peakgate.compare.history.report import events, report
from peakgate.compare.history.trend import Trend, find_trend
from peakgate.compare.noise import Floats
from peakgate.judge.acknowledged import Accepted


def moved(rows: Sequence[int], since: int, by: float, log_time: Floats | None = None) -> Floats:
    found = quiet() if log_time is None else log_time
    for row in rows:
        found = slowed(found, row, since, by)
    return found


def heading(trend: Trend) -> tuple[str, int, str]:
    """The heading of the table of open regressions, its lines, and what stands beside the verdict."""
    shown = report(trend)
    (table,) = [each for each in shown.tables if each.title.startswith("Open regressions")]
    return table.title, len(table.rows), shown.qualified


def test_a_driver_upgrade_is_one_line_however_many_cases_it_made_slower() -> None:
    sessions = [session(number, driver="590.1" if number > 19 else "580.1") for number in range(SESSIONS)]
    trend = find_trend(history(moved(range(22), 20, 0.04), sessions))
    assert len(trend.open) == 22
    (event,) = events(trend.regressions)
    assert {each.change.cause for each in event.regressions} == {Cause.ENVIRONMENT}
    assert heading(trend) == ("Open regressions (1)", 1, "1 regression open")
    assert "21 other cases" in event.line()
    assert [len(each["cases"]) for each in report(trend).fields["open_events"]] == [22]


def test_so_is_a_commit_and_two_commits_are_two() -> None:
    both = moved(range(5, 8), 12, 0.04, moved(range(4), 25, 0.06))
    trend = find_trend(history(both))
    cases = [{each.change.case for each in event.regressions} for event in events(trend.regressions)]
    assert cases == [{f"a.stage{row:03d}" for row in rows} for rows in (range(4), range(5, 8))]
    places = [event.narrowest.change.place for event in events(trend.regressions)]
    assert [place.good < first <= place.bad for place, first in zip(places, (15, 28), strict=True)] == [True, True]


def test_what_is_accepted_is_an_event_of_its_own_and_not_counted() -> None:
    accepted = [Accepted(CASE, 4.5, "meant", date(2026, 11, 22))]
    trend = find_trend(history(moved((6, 7), 20, 0.04)), accepted=accepted)
    assert [(event.accepted, len(event.regressions)) for event in events(trend.regressions)] == [(False, 1), (True, 1)]
    assert heading(trend) == ("Open regressions (1)", 2, "1 regression open")


def coded(before: str, after: str) -> list[DrawnSession]:
    return [session(number, fingerprints={CASE: before if number < 20 else after}) for number in range(SESSIONS)]


@pytest.mark.parametrize(("after", "cause"), [("same", Cause.ENVIRONMENT), ("other", Cause.COMMITS)])
def test_equal_machine_code_never_blames_a_commit(after: str, cause: Cause) -> None:
    trend = find_trend(history(moved((7,), 20, 0.04), coded("same", after)))
    (change,) = trend.changes
    assert change.cause is cause
    assert (change.place.command is None) == (cause is Cause.ENVIRONMENT)
    assert trend.commands == ([] if cause is Cause.ENVIRONMENT else [change.place.command])


def test_nor_does_it_in_a_step_that_is_too_young_to_be_one() -> None:
    sessions = [session(number, fingerprints={CASE: "same"}) for number in range(SESSIONS)]
    (found,) = [each for each in find_trend(history(moved((7,), 2, 0.10), sessions)).findings if each.case == CASE]
    assert found.verdict == "UNCONFIRMED"
    assert found.command is None


def test_the_same_code_getting_faster_closes_no_commits_regression() -> None:
    sessions = [session(number, fingerprints={CASE: "a" if number < 14 else "b"}) for number in range(SESSIONS)]
    log_time = moved((7,), 14, -0.05, moved((7,), 26, 0.05))
    (regression,) = find_trend(history(log_time, sessions)).open
    assert regression.change.cause is Cause.COMMITS
