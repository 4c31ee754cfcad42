"""The chart of a case: axes, levels, steps and their sum, links; and change points by commit and environment."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from drawn_sessions import of_sessions
from test_history_trend import CASE, history, quiet, session, slowed

from peakgate.compare.history.causes import Cause
from peakgate.compare.history.chart import DATES, _round, chart, step_line, sum_lines
from peakgate.compare.history.report import origins, origins_table
from peakgate.compare.history.series import History
from peakgate.compare.history.series import history as of_frame
from peakgate.compare.history.suite import find_changes


def two_steps() -> History:
    """A case that is slower by 3 % and again by 2 %, ten sessions apart."""
    return history(slowed(slowed(quiet(), 7, 20, 0.03), 7, 10, 0.02))


def classes(html: str) -> list[str]:
    return [each.get("class", "") for each in ElementTree.fromstring(html).iter()]


def test_a_chart_has_days_times_a_level_per_segment_and_a_line_per_step() -> None:
    found = two_steps()
    changes = [each for each in find_changes(found).points if each.case == CASE]
    drawn, words = chart(found, found.cases.index(CASE), changes)
    assert words.endswith("in 40 sessions")
    assert classes(drawn).count("bad") == 2
    (level,) = re.findall(r'level" d="([^"]+)"', drawn)
    assert level.count("M") == 3
    for number in (0, -1):
        assert f">{found.sessions[number].taken:%Y-%m-%d}<" in drawn


def test_a_large_chart_leads_from_each_session_to_its_run_and_names_commits_and_sizes() -> None:
    found = two_steps()
    changes = [each for each in find_changes(found).points if each.case == CASE]
    runs = [f"../runs/{number}.html" for number in range(40)]
    drawn, _ = chart(found, found.cases.index(CASE), changes, runs)
    root = ElementTree.fromstring(drawn)
    assert [each.get("href") for each in root.iter("a")] == runs
    assert len(list(root.iter("i"))) == DATES
    assert found.sessions[0].commit[:7] in drawn
    assert [each.text for each in root.iter("em")] == [f"{each.change_percent:+.2f} %" for each in reversed(changes)]


def test_gpus_in_turns_draw_no_line_of_their_own() -> None:
    sessions = [
        session(number, times_us={"x.a": 10.0}, uuid=f"GPU-{number % 2}", driver="590" if number > 20 else "580")
        for number in range(40)
    ]
    drawn, _ = chart(of_frame(of_sessions(sessions)), 0, [])
    assert classes(drawn).count("environment") == 1
    assert {"gpu0", "gpu1", "gpu0 level", "gpu1 level"} <= set(classes(drawn))


def test_too_few_sessions_are_words_alone() -> None:
    found = of_frame(of_sessions([session(number, times_us={"x.a": 10.0}) for number in range(2)]))
    drawn, words = chart(found, 0, [])
    assert (drawn, re.findall(r"[\d.]*\d", words)) == ("", ["10.00", "10.00", "2"])


def test_two_steps_show_their_sum() -> None:
    found = two_steps()
    changes = [each for each in find_changes(found).points if each.case == CASE]
    (line,) = sum_lines(changes)
    total = float(line.partition(" %")[0])
    assert total == pytest.approx(100 * (1.03 * 1.02 - 1), abs=0.5)
    assert sum_lines(changes[:1]) == []


@pytest.mark.parametrize(("low", "high"), [(479.0, 531.0), (4.99, 5.01), (0.1, 9000.0), (1e-3, 1.1e-3)])
def test_times_on_the_axis_are_round_and_within_the_chart(low: float, high: float) -> None:
    found = _round(low, high)
    assert 2 <= len(found) <= 6
    assert all(low * (1 - 1e-9) <= each <= high * (1 + 1e-9) for each in found)
    assert all(len(f"{each:.8g}") <= 8 for each in found)


def test_change_points_of_all_gpus_and_cases_have_one_origin_per_commit_and_upgrade() -> None:
    log_time = slowed(slowed(quiet(), 7, 20, 0.03), 8, 20, 0.05)
    found = history(log_time)
    (of_commit,) = origins(found, find_changes(found).points)
    assert (of_commit.name, of_commit.cause) == (found.sessions[20].commit, Cause.COMMITS)
    assert (of_commit.slower, of_commit.faster) == (2, 0)
    assert of_commit.changes[0].log_ratio > of_commit.changes[1].log_ratio
    sessions = [
        session(number, uuid=f"GPU-{number % 2}", driver="590" if number >= 30 else "580") for number in range(60)
    ]
    log_time = quiet(sessions=60)
    log_time[:3, 30:] += 0.05
    turns = history(log_time, sessions)
    (upgrade,) = origins(turns, find_changes(turns).points)
    assert upgrade.name.split(" to ") == ["driver 580", "590"]
    assert (upgrade.cause, upgrade.slower) == (Cause.ENVIRONMENT, 3)
    assert upgrade.name in step_line(upgrade.changes[0])
    assert origins_table([upgrade]).rows[0][:3] == [
        upgrade.name,
        f"{turns.sessions[30].taken:%Y-%m-%d %H:%M}",
        "environment",
    ]
