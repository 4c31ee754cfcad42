"""The order of sessions, and what closes a regression: code or a person's word, no backfill and no dropped case."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest
from ab_fake import git
from drawn_sessions import DrawnSession, of_sessions
from synthetic_runs import LADDER, document, save, slower
from test_history_command import PAD
from test_history_trend import CASE, SESSIONS, history, quiet, session, slowed

from peakgate.base.verdict import ExitCode, Verdict
from peakgate.cli import main
from peakgate.compare.history.report import events
from peakgate.compare.history.series import History, arranged, first_parents
from peakgate.compare.history.series import history as of_runs
from peakgate.compare.history.trend import find_trend
from peakgate.compare.noise import Floats
from peakgate.judge.acknowledged import Accepted

BACKFILLED = 6
LINE = {session(number).commit: number for number in range(SESSIONS)}
"""The commits of as many sessions, in the order of their ancestry."""


def backfilled(**facts: object) -> tuple[Floats, list[DrawnSession]]:
    """A case 4 % slower since session 20, and after all sessions six more of the oldest commits, fast as ever."""
    slow = slowed(quiet(), 7, 20, 0.04)
    old = [session(SESSIONS + number, commit=session(number).commit, **facts) for number in range(BACKFILLED)]
    sessions = [*(session(number) for number in range(SESSIONS)), *old]
    return np.hstack([slow, quiet(2)[:, :BACKFILLED]]), sessions


def ordered(log_time: Floats, sessions: list[DrawnSession], places: dict[str, int]) -> History:
    names = [f"a.stage{row:03d}" for row in range(len(log_time))]
    times = [dict(zip(names, own, strict=True)) for own in np.exp(log_time.T).tolist()]
    timed = [replace(each, times_us=own) for each, own in zip(sessions, times, strict=True)]
    return of_runs(of_sessions(timed), places=places)


def test_old_commits_that_are_measured_today_close_no_regression() -> None:
    log_time, sessions = backfilled()
    by_time, by_ancestry = (find_trend(ordered(log_time, sessions, places)) for places in ({}, LINE))
    assert by_time.open == ()
    (regression,) = by_ancestry.open
    assert (regression.change.case, regression.change.place.command is None) == (CASE, False)
    found = {each.case: each.verdict for each in by_ancestry.findings}
    assert [case for case, verdict in found.items() if verdict is not Verdict.SAME] == [CASE]
    assert found[CASE] is Verdict.SLOWER


def test_nor_do_they_under_another_driver() -> None:
    trend = find_trend(ordered(*backfilled(driver="590.44.01"), LINE))
    assert [each.change.case for each in trend.open] == [CASE]


def test_a_step_is_dated_by_the_day_that_first_measured_it() -> None:
    """Sessions that are measured later at the same commit are no newer step, which an older word would not cover."""
    log_time, sessions = backfilled()
    sessions[-1] = replace(sessions[-1], commit=session(20).commit)
    log_time[7, -1] += math.log(1.04)
    trend = find_trend(ordered(log_time, sessions, LINE), accepted=[Accepted(CASE, 4.5, "meant", date(2026, 1, 25))])
    assert trend.open == ()


def test_a_commit_of_no_line_comes_after_what_was_measured_before_it() -> None:
    commits = [session(number).commit for number in (0, 1, 2)]
    measured = [commits[0], commits[2], "branch", commits[1], commits[2][:12]]
    facts = history(quiet(cases=2, sessions=5)).facts.assign(commit=measured)
    found = arranged(facts, LINE)
    assert found["commit"].to_list() == [commits[0], commits[1], commits[2], "branch", commits[2][:12]]
    assert found.index.to_list() == list(range(5))
    assert arranged(facts, {})["commit"].to_list() == measured


def test_sessions_are_not_moved_past_a_change_of_their_environment_or_gpu() -> None:
    changed = [session(number, commit=session(9 - number).commit) for number in range(8)]
    for number in (2, 3):
        changed[number] = replace(changed[number], driver="590.44.01")
    changed[5] = replace(changed[5], uuid="GPU-2")
    found = ordered(quiet(cases=2, sessions=8), changed, LINE)
    assert [each.path for each in found.sessions] == [f"{number:04d}.json" for number in (1, 0, 3, 2, 7, 5, 6, 4)]


def committed(folder: Path, subject: str = "x") -> str:
    git(folder, "commit", "--allow-empty", "-qm", subject)
    return git(folder, "rev-parse", "HEAD")


def test_the_line_of_commits_is_the_first_parents_of_what_is_checked_out(tmp_path: Path) -> None:
    assert first_parents(tmp_path) == {}
    git(tmp_path, "init", "-qb", "main")
    assert first_parents(tmp_path) == {}
    first = committed(tmp_path)
    git(tmp_path, "checkout", "-qb", "side")
    committed(tmp_path, "beside")
    git(tmp_path, "checkout", "-q", "main")
    second = committed(tmp_path)
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "merge", "side")
    assert first_parents(tmp_path) == {first: 0, second: 1, git(tmp_path, "rev-parse", "HEAD"): 2}


def saved(folder: Path, commits: list[str], slow: range, count: int, lost: range) -> None:
    """So many runs, an hour apart, PAD slower in some and missing from others."""
    random = np.random.default_rng(4)
    for number in range(count):
        times = slower(PAD, 1.05) if number in slow else LADDER
        noisy = {case: time_us * (1 + 0.002 * random.standard_normal()) for case, time_us in times.items()}
        if number in lost:
            del noisy[PAD]
        taken = {"datetime": datetime(2026, 11, 1 + number // 24, number % 24, tzinfo=UTC).isoformat()}
        save(folder, f"r{number:02d}", document(noisy, commit=commits[number]) | taken)


def test_a_site_shows_what_is_open_of_a_case_that_is_no_longer_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commits = [f"{number:02x}" * 20 for number in range(40)]
    saved(tmp_path / "runs", commits, range(20, 34), 40, range(34, 40))
    assert main(["show", "--all", "--runs", "runs", "--out", "out"]) == 0
    page = Path("out/site/nvidia-h200/index.html").read_text(encoding="utf-8")
    assert re.search(rf"{re.escape(PAD)} [^<]*longer measured: open", page)


def test_the_command_orders_by_the_repository_around_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight commits of five sessions each, PAD slower since the fifth, and the first commit measured six times more."""
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-qb", "main")
    commits = [committed(tmp_path) for _ in range(8)]
    measured = [commits[number // 5] if number < 40 else commits[0] for number in range(46)]
    saved(tmp_path / "runs", measured, range(20, 40), 46, range(0))
    assert main(["history", "--runs", "runs", "--out", "out"]) == 1
    record = json.loads(Path("out/history.json").read_text())
    assert [each["case"] for each in record["open_regressions"]] == [PAD]
    assert record["sessions"][-1]["commit"] == commits[-1]


def without(log_time: Floats, row: int, last: int) -> Floats:
    """The same without one case in the last sessions."""
    left = log_time.copy()
    left[row, -last:] = np.nan
    return left


@pytest.mark.parametrize("tier", ["gate", "full"])
def test_a_case_that_is_dropped_or_moved_keeps_its_regression_until_it_is_accepted(tier: str) -> None:
    log_time = without(slowed(quiet(), 7, 20, 0.04), 7, 6)
    sessions = [session(number) for number in range(SESSIONS)]
    if tier == "full":  # measured since by runs of another tier
        log_time = np.hstack([log_time, quiet(3)[:, :1]])
        sessions.append(session(SESSIONS, tier="full"))
    dropped = history(log_time, sessions)
    trend = find_trend(dropped)
    assert find_trend(dropped, fail_on_open=True).exit_code == ExitCode.REGRESSION
    assert (CASE in dropped.retired) == (tier == "gate")
    assert [each.change.case for each in trend.open] == [CASE]
    assert ("no longer measured" in events(trend.regressions)[0].line(dropped.retired)) == (tier == "gate")
    assert find_trend(dropped, accepted=[Accepted(CASE, 4.5, "left", date(2026, 11, 22))]).open == ()


def test_a_case_that_is_dropped_without_a_regression_leaves_none() -> None:
    assert find_trend(history(without(quiet(), 7, 6))).open == ()
