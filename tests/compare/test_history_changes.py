"""Change points over the whole history, whom they are put down to, and which regressions stay open."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest
from drawn_sessions import DrawnSession
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from synthetic_runs import LADDER, document, save, slower
from test_history_command import PAD
from test_history_trend import CASE, history, quiet, session, slowed, verdicts

from peakgate.base.errors import PeakgateError
from peakgate.base.verdict import Verdict
from peakgate.cli import main
from peakgate.compare.history import suite
from peakgate.compare.history.causes import Cause, ChangePoint
from peakgate.compare.history.series import History
from peakgate.compare.history.trend import open_regressions
from peakgate.compare.noise import Floats
from peakgate.judge.acknowledged import Accepted, load, load_regressions


def find_changes(found: History) -> tuple[ChangePoint, ...]:
    return suite.find_changes(found).points


def test_an_unchanged_history_has_no_change_point() -> None:
    assert find_changes(history(quiet())) == ()


@pytest.mark.parametrize("age", [6, 15, 30])
def test_a_step_is_found_however_long_ago_it_was(age: int) -> None:
    (change,) = find_changes(history(slowed(quiet(), 7, age, 0.04)))
    assert (change.case, change.cause, change.since) == (CASE, Cause.COMMITS, age)
    assert change.interval_percent[0] < 4.0 < change.interval_percent[1]
    assert change.place.command is not None
    assert change.place.command.startswith("peakgate ab ")
    assert change.place.good < 40 - age <= change.place.bad


def test_two_steps_are_found_where_neither_is_likely_alone() -> None:
    log_time = quiet()
    log_time[7] += 0.01 * np.random.default_rng(1).standard_normal(40)  # noisier than the others
    log_time[7, 14:] += 0.04
    log_time[7, 27:] += 0.04
    found = find_changes(history(log_time))
    assert [(each.case, each.cause, each.number) for each in found] == [
        (CASE, Cause.COMMITS, 27),
        (CASE, Cause.COMMITS, 14),
    ]


def test_three_odd_sessions_of_five_are_no_step() -> None:
    log_time = quiet()
    log_time[7, [35, 37, 39]] += 0.03
    assert find_changes(history(log_time)) == ()


def test_an_odd_session_beside_a_step_does_not_hide_it() -> None:
    log_time = slowed(quiet(), 7, 5, 0.04)
    log_time[7, 33] += 0.05
    (change,) = find_changes(history(log_time))
    assert (change.case, change.since) == (CASE, 5)


def test_a_small_step_among_the_newest_sessions_waits_for_more() -> None:
    assert find_changes(history(slowed(quiet(), 7, 6, 0.007))) == ()
    assert [each.case for each in find_changes(history(slowed(quiet(), 7, 18, 0.011)))] == [CASE]


def two_levels(slow: Sequence[int]) -> Floats:
    """A quiet history in which one case, hardly noisy, is at its slow level in these sessions."""
    log_time = quiet()
    log_time[7] = 3.0 + 0.0002 * np.random.default_rng(1).standard_normal(log_time.shape[1])
    log_time[7, list(slow)] += 0.02
    return log_time


def test_a_case_that_also_visits_its_other_level_in_single_sessions_has_no_step() -> None:
    visited = [0, 1, 3, 4, 8, 12, 13, 15, 19, 20, 22, 24, 25, 26, 29]
    assert find_changes(history(two_levels([*visited, *range(34, 40)]))) == ()
    assert [each.case for each in find_changes(history(two_levels(range(34, 40))))] == [CASE]


@pytest.mark.parametrize(("off", "found"), [(0.02, []), (-0.02, [CASE])])
def test_single_sessions_hide_a_step_where_they_are_at_its_other_level_alone(off: float, found: list[str]) -> None:
    log_time = two_levels(range(34, 40))
    log_time[7, [0, 3, 8, 13, 15, 19, 22, 24, 26, 29]] += off
    assert [each.case for each in find_changes(history(log_time))] == found
    log_time = two_levels(range(10, 40))
    log_time[7, :10] -= 0.02
    log_time[7, [12, 15, 19, 22, 24, 26, 29, 32, 34, 37]] -= 2 * off
    assert [each.case for each in find_changes(history(log_time))] == found


def test_a_step_whose_other_level_was_visited_for_two_sessions_is_no_commits() -> None:
    causes = [[each.cause for each in find_changes(history(two_levels([*at, *range(34, 40)])))] for at in ([8], [8, 9])]
    assert causes == [[Cause.COMMITS], [Cause.ENVIRONMENT]]


def test_a_way_back_to_the_level_before_a_step_is_not_unconfirmed() -> None:
    log_time = two_levels([*range(19), 37, 38, 39])
    assert verdicts(log_time) == {CASE: Verdict.FASTER}
    log_time[7, -3:] += 0.03
    assert verdicts(log_time) == {CASE: Verdict.UNCONFIRMED}


def test_cases_that_wander_excuse_no_step_of_another() -> None:
    log_time = slowed(quiet(), 7, 20, 0.03)
    random = np.random.default_rng(3)
    for row in (3, 4, 5):
        state = 0.0
        for number in range(40):
            state = 0.9 * state + 0.009 * random.standard_normal()
            log_time[row, number] += state
    (change,) = find_changes(history(log_time))
    assert (change.case, change.cause) == (CASE, Cause.COMMITS)


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_a_step_that_what_every_launch_takes_makes_too_is_a_hosts_however_faint_that_is(seed: int) -> None:
    noise = 0.01 * np.random.default_rng(seed).standard_normal((30, 40))
    noise[1] /= 10
    time_us = np.exp(np.linspace(3, 8, 30)[:, None] + noise)
    (change,) = find_changes(history(np.log(time_us + 0.25 * (np.arange(40) >= 22))))
    assert (change.case, change.cause) == ("a.stage001", Cause.ENVIRONMENT)
    time_us[1] += 0.25 * (np.arange(40) >= 22)
    (change,) = find_changes(history(np.log(time_us)))
    assert (change.case, change.cause) == ("a.stage001", Cause.COMMITS)


@pytest.mark.parametrize(
    ("added_us", "code", "cause"),
    [(0.8, None, Cause.ENVIRONMENT), (0.8, "other", Cause.COMMITS), (2.0, None, Cause.COMMITS)],
)
def test_of_few_cases_no_commit_is_named_for_what_a_host_may_add(
    added_us: float, code: str | None, cause: Cause
) -> None:
    log_time = quiet(cases=1) + 2.2
    log_time[0, 20:] = np.log(np.exp(log_time[0, 20:]) + added_us)
    codes = [{"a.stage000": "one" if number < 20 else code} if code else {} for number in range(40)]
    sessions = [session(number, fingerprints=each) for number, each in enumerate(codes)]
    (change,) = find_changes(history(log_time, sessions))
    assert change.cause is cause


def builds(slower: Sequence[int], first: int) -> list[DrawnSession]:
    """Sessions of 30 cases, of which these have other code from the session ``first`` on."""
    return [
        session(number, fingerprints={f"a.stage{row:03d}": str(row in slower and number >= first) for row in range(30)})
        for number in range(40)
    ]


def test_no_case_that_goes_back_and_forth_takes_a_commit_that_changed_code() -> None:
    log_time = slowed(two_levels([*range(8, 14), *range(24, 31)]), 3, 18, 0.02)
    causes = [
        {each.case: each.cause for each in find_changes(history(log_time, found))} for found in (builds([3], 22), None)
    ]
    expected = [{CASE: Cause.ENVIRONMENT, "a.stage003": each} for each in (Cause.COMMITS, Cause.ENVIRONMENT)]
    assert causes == expected


def test_a_step_of_half_of_the_cases_that_changed_their_code_is_the_commits() -> None:
    log_time, half = quiet(), range(2, 30, 2)
    log_time[2::2, 25:] += 0.04
    found = suite.find_changes(history(log_time, builds(half, 25)))
    assert {each.case: each.cause for each in found.points} == {f"a.stage{row:03d}": Cause.COMMITS for row in half}
    assert found.suite is not None
    assert found.suite.points == ()


def test_an_odd_session_does_not_move_a_step_off_the_commit_that_changed_its_code() -> None:
    log_time = slowed(quiet(), 7, 19, 0.04)  # the commit of session 20 is measured twice
    found = builds([7], 20)
    found[21] = session(21, commit=found[20].commit, fingerprints=found[20].fingerprints)
    (change,) = find_changes(history(log_time, found))
    assert (change.cause, change.place.good, change.place.bad) == (Cause.COMMITS, 19, 20)


def test_old_builds_that_are_measured_late_are_no_visits() -> None:
    log_time = two_levels([*range(20, 24), *range(25, 28), *range(29, 40)])
    found = builds([7], 20)
    for late in (24, 28):
        found[late] = session(late, fingerprints=found[0].fingerprints)
    (change,) = find_changes(history(log_time, found))
    assert change.cause is Cause.COMMITS
    (change,) = find_changes(history(log_time))
    assert change.cause is Cause.ENVIRONMENT


def test_visits_on_another_gpu_count_too() -> None:
    sessions = [session(number, uuid="GPU-2" if number > 19 else "GPU-1") for number in range(40)]
    visited = [8, 9, 11, 13, 15, 17, 18, 19]
    found = find_changes(history(two_levels([*visited, *range(35, 40)]), sessions))
    assert Cause.COMMITS not in {each.cause for each in found}
    assert [each.case for each in find_changes(history(two_levels(range(35, 40)), sessions))] == [CASE]


@pytest.mark.parametrize(("fact", "name"), [("driver", "driver"), ("nvrtc", "NVRTC"), ("cublas", "cuBLAS")])
def test_a_shift_at_a_change_of_the_environment_is_its_and_names_no_commit(fact: str, name: str) -> None:
    versions = ["2" if number > 19 else "1" for number in range(40)]
    changed = [{fact: each} if fact == "driver" else {"environment": {fact: each}} for each in versions]
    sessions = [session(number, **each) for number, each in enumerate(changed)]
    (change,) = find_changes(history(slowed(quiet(), 7, 20, 0.03), sessions))
    assert (change.cause, change.place.command, change.number) == (Cause.ENVIRONMENT, None, 20)
    assert f"{name} 1 to 2" in change.place.facts


def test_a_step_beside_a_change_of_driver_is_still_the_commits() -> None:
    sessions = [session(number, driver="590.1" if number > 12 else "580.1") for number in range(40)]
    (change,) = find_changes(history(slowed(quiet(), 7, 12, 0.03), sessions))
    assert change.cause is Cause.COMMITS
    assert not any("driver" in fact for fact in change.place.facts)


@pytest.mark.parametrize(("after", "cause"), [(3, Cause.ENVIRONMENT), (12, Cause.COMMITS)])
def test_a_step_soon_after_an_upgrade_that_moved_cases_is_put_down_to_it(after: int, cause: Cause) -> None:
    sessions = [session(number, driver="590.1" if number > 19 else "580.1") for number in range(40)]
    moved = slowed(slowed(quiet(), 6, 20, 0.04), 7, 20 - after, 0.04)
    found = {each.case: each for each in find_changes(history(moved, sessions))}
    assert found[CASE].cause is cause
    assert [each.cause for case, each in found.items() if case != CASE] == [Cause.ENVIRONMENT]


def test_no_gpu_is_compared_with_another() -> None:
    sessions = [session(number, uuid="GPU-2" if number > 19 else "GPU-1") for number in range(40)]
    log_time = quiet()
    log_time[:, 20:] += 0.04
    assert find_changes(history(log_time, sessions)) == ()


def test_a_clock_that_changed_with_a_step_is_said() -> None:
    sessions = [session(number, clocks_mhz={CASE: 1980.0 if number < 25 else 1755.0}) for number in range(40)]
    (change,) = find_changes(history(slowed(quiet(), 7, 15, 0.05), sessions))
    assert any("1980 to 1755" in fact for fact in change.place.facts)


def test_a_regression_is_open_until_a_later_step_mends_it() -> None:
    log_time = slowed(quiet(), 7, 30, 0.03)
    (regression,) = open_regressions(find_changes(history(log_time)))
    assert regression.change.case == CASE
    assert regression.remaining_percent == pytest.approx(3, abs=0.6)
    mended = slowed(log_time, 7, 12, 1 / 1.03 - 1)
    assert len(find_changes(history(mended))) == 2
    assert open_regressions(find_changes(history(mended))) == ()


def test_a_regression_that_was_mended_in_part_is_open_by_what_is_left_of_it() -> None:
    log_time = slowed(slowed(quiet(), 7, 30, 0.06), 7, 12, -0.03)
    (regression,) = open_regressions(find_changes(history(log_time)))
    assert regression.change.change_percent == pytest.approx(6, abs=0.6)
    assert regression.remaining_percent == pytest.approx(100 * (1.06 * 0.97 - 1), abs=0.6)


@pytest.mark.parametrize(
    ("dirty", "cause"), [((), Cause.ENVIRONMENT), (range(20), Cause.COMMITS), (range(20, 40), Cause.COMMITS)]
)
def test_a_step_within_one_commit_is_the_environments_unless_either_session_had_changes(
    dirty: Sequence[int], cause: Cause
) -> None:
    sessions = [session(number, commit="a" * 40, dirty=number in dirty) for number in range(40)]
    (change,) = find_changes(history(slowed(quiet(), 7, 20, 0.03), sessions))
    assert change.cause is cause


def test_a_case_is_no_quieter_on_one_gpu_than_over_all_of_them() -> None:
    sessions = [session(number, uuid="GPU-2" if number > 19 else "GPU-1") for number in range(40)]
    log_time = slowed(quiet(), 7, 8, 0.016)
    assert [each.case for each in find_changes(history(log_time, sessions))] == [CASE]
    log_time[7, :20] += 0.011 * np.array([1, -1, -1, 1] * 5)  # the same case scatters on the other GPU
    assert find_changes(history(log_time, sessions)) == ()


def test_a_faster_driver_does_not_mend_what_a_commit_did() -> None:
    sessions = [session(number, driver="590.1" if number > 24 else "580.1") for number in range(40)]
    log_time = slowed(slowed(quiet(), 7, 28, 0.03), 7, 15, -0.05)
    (regression,) = open_regressions(find_changes(history(log_time, sessions)))
    assert regression.change.cause is Cause.COMMITS


@pytest.mark.parametrize(
    ("changed", "accepted"),
    [({}, True), ({"case": "a.stage008"}, False), ({"percent": 1.0}, False), ({"day": date(2026, 1, 3)}, False)],
)
def test_an_acceptance_holds_for_its_case_its_size_and_earlier_steps_alone(
    changed: dict[str, object], accepted: bool
) -> None:
    word = structs.replace(Accepted(CASE, 3.0, "meant", date(2026, 11, 22)), **changed)
    (regression,) = open_regressions(find_changes(history(slowed(quiet(), 7, 20, 0.03))), [word])
    assert (regression.accepted is not None) == accepted


@pytest.mark.parametrize(("percent", "accepted"), [(3.1, 1), (5.5, 2)])
def test_an_acceptance_covers_several_steps_up_to_its_size_in_all(percent: float, accepted: int) -> None:
    found = find_changes(history(slowed(slowed(quiet(), 7, 15, 0.02), 7, 30, 0.03)))
    steps = open_regressions(found, [Accepted(CASE, percent, "meant", date(2026, 11, 22))])
    assert len(steps) == 2
    assert sum(each.accepted is not None for each in steps) == accepted


def written(folder: Path, text: str) -> Path:
    path = folder / "acknowledged.toml"
    path.write_text(f"schema = 1\n{text}", encoding="utf-8")
    return path


def test_accepted_regressions_are_read_beside_the_acknowledgements(tmp_path: Path) -> None:
    entry = '[[regression]]\ncase = "a.b-1"\npercent = 2\nreason = "meant"\ndate = 2026-11-01\n'
    today = date(2026, 11, 2)
    path = written(tmp_path, entry)
    assert load_regressions(path, today) == [Accepted("a.b-1", 2.0, "meant", date(2026, 11, 1))]
    assert load(path, "", today) == []
    assert load_regressions(tmp_path / "none.toml", today) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("percent = -1", r"regression\[0\].percent .* is -1,"),
        ("percent = nan", r"regression\[0\].percent .* is nan,"),
        ("percent = 2\ndate = 2027-01-01", "in the future"),
        ("percent = 2\ndate = 5", "expected a date"),
        ("percent = 2\nuntil = 5", "until"),
    ],
)
def test_a_wrong_acceptance_is_refused(tmp_path: Path, line: str, said: str) -> None:
    path = written(tmp_path, f'[[regression]]\ncase = "a.b-1"\nreason = "r"\n{line}\n')
    with pytest.raises(PeakgateError, match=said):
        load_regressions(path, date(2026, 11, 2))


def test_an_open_regression_warns_and_fails_where_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(4)
    for number in range(1, 49):
        times = slower(PAD, 1.05) if number > 11 else LADDER
        noisy = {case: time_us * (1 + 0.002 * random.standard_normal()) for case, time_us in times.items()}
        taken = {"datetime": f"2026-11-{1 + number // 24:02d}T{number % 24:02d}:00:00+00:00"}
        save(tmp_path / "runs", f"r{number:02d}", document(noisy, commit=f"{number:02x}" * 20) | taken)
    arguments = ["history", "--runs", "runs", "--out", "out"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "Open regressions (1)" in shown
    assert "since 37 sessions" in shown
    written_too = [Path("out", f"history.{kind}").read_text() for kind in ("md", "html")]
    assert all("1 regression open" in text for text in (shown, *written_too))
    assert json.loads(Path("out/history.json").read_text())["verdict"] == "PASS"
    assert main([*arguments, "--fail-on-open"]) == 1
    record = json.loads(Path("out/history.json").read_text())
    assert [each["case"] for each in record["open_regressions"]] == [PAD]
    assert record["open_regressions"][0]["cause"] == "commits"
    today = datetime.now(UTC).date()
    baselines = tmp_path / "baselines" / "nvidia-h200"
    baselines.mkdir(parents=True)
    written(baselines, f'[[regression]]\ncase = "{PAD}"\npercent = 5.5\nreason = "meant"\ndate = {today}\n')
    assert main([*arguments, "--fail-on-open"]) == 0
    (accepted,) = json.loads(Path("out/history.json").read_text())["open_regressions"]
    assert accepted["accepted"] == "meant"
    assert "regression open" not in Path("out/history.md").read_text()


@settings(max_examples=4, deadline=None)
@given(st.floats(-5, 5), st.integers(0, 500))
def test_scaling_all_times_changes_no_change_point(log_factor: float, seed: int) -> None:
    log_time = slowed(quiet(seed), 7, 12, 0.03)
    here, there = (find_changes(history(each)) for each in (log_time, log_time + log_factor))
    assert [(each.case, each.number) for each in here] == [(each.case, each.number) for each in there]


def test_sessions_that_a_case_lacks_are_passed_over() -> None:
    log_time = slowed(quiet(), 7, 20, 0.03)
    log_time[7, ::3] = np.nan
    log_time[8] = np.nan
    assert [each.case for each in find_changes(history(log_time))] == [CASE]


@pytest.mark.parametrize("code", [None, "same for others", "new for all"])
def test_what_a_host_adds_to_each_case_is_put_down_to_no_commit(code: str | None) -> None:
    rng = np.random.default_rng(5)
    log_time = np.linspace(1.5, 6, 60)[:, None] + 0.003 * rng.standard_normal((60, 30))
    added_us = np.where(rng.random(60) < 0.6, rng.random(60), 0.0)
    log_time[:, 18:] = np.log(np.exp(log_time[:, 18:]) + added_us[:, None])
    builds = [{f"a.stage{row:03d}": f"{code} {number}" for row in range(60)} if code else {} for number in range(30)]
    if code == "same for others":
        builds = [{case: "0" if case > "a.stage010" else mark for case, mark in build.items()} for build in builds]
    sessions = [session(number, fingerprints=build) for number, build in enumerate(builds)]
    found = find_changes(history(log_time, sessions))
    assert {change.cause for change in found} <= {Cause.ENVIRONMENT}
    assert len(found) > 3


def test_a_commit_that_makes_many_short_kernels_slower_is_named() -> None:
    rng = np.random.default_rng(5)
    log_time = np.linspace(1.5, 4, 60)[:, None] + 0.003 * rng.standard_normal((60, 30))
    log_time[::4, 18:] += 0.02
    slower = {f"a.stage{row:03d}" for row in range(0, 60, 4)}
    builds = [
        {f"a.stage{row:03d}": "same" for row in range(60)} | dict.fromkeys(slower, f"{number >= 18}")
        for number in range(30)
    ]
    sessions = [session(number, fingerprints=build) for number, build in enumerate(builds)]
    found = find_changes(history(log_time, sessions))
    assert {change.case for change in found if change.cause is Cause.COMMITS} == slower


@pytest.mark.parametrize("cases", [1, 30])
def test_a_step_that_a_lower_clock_explains_is_put_down_to_no_commit(cases: int) -> None:
    log_time = quiet()[:cases]
    throttled = range(20, 28)
    log_time[:, throttled] += 0.06
    clocks = [
        {f"a.stage{row:03d}": 1860.0 if number in throttled else 1975.0 for row in range(cases)} for number in range(40)
    ]
    found = find_changes(history(log_time, [session(number, clocks_mhz=own) for number, own in enumerate(clocks)]))
    assert {change.cause for change in found} <= {Cause.ENVIRONMENT}


def test_clocks_that_two_gpus_have_at_all_times_explain_no_step() -> None:
    log_time = slowed(quiet(), 7, 15, 0.02)
    gpus = [("GPU-0001", 1980.0), ("GPU-0002", 1940.0)]
    sessions = []
    for number in range(40):
        uuid, clock = gpus[number % 2]
        clocks = {f"a.stage{row:03d}": clock for row in range(30)}
        sessions.append(session(number, uuid=uuid, clocks_mhz=clocks))
    (change,) = find_changes(history(log_time, sessions))
    assert (change.case, change.cause) == (CASE, Cause.COMMITS)
