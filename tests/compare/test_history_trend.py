"""Which verdict a case has at the end of its history, and the suite as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from drawn_sessions import DrawnSession, of_sessions
from hypothesis import given, settings
from hypothesis import strategies as st

from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.history.newest import RECENT
from peakgate.compare.history.series import History
from peakgate.compare.history.series import history as of_runs
from peakgate.compare.history.trend import FEWEST_TO_JUDGE, CaseFinding, find_trend
from peakgate.compare.noise import Floats

CASES = 30
SESSIONS = 40
CASE = "a.stage007"


def session(number: int, **facts: object) -> DrawnSession:
    day = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    plain = DrawnSession(f"{number:04d}.json", day, f"{number:02x}" * 20)
    return replace(plain, **facts)  # type: ignore[arg-type]


def quiet(seed: int = 1, cases: int = CASES, sessions: int = SESSIONS) -> Floats:
    """Log times with an SD of half a percent between sessions, of cases from 2.7 µs to 3 ms."""
    rng = np.random.default_rng(seed)
    return np.linspace(1, 8, cases)[:, None] + 0.005 * rng.standard_normal((cases, sessions))


def history(
    log_time: Floats, sessions: Sequence[DrawnSession] | None = None, names: Sequence[str] | None = None
) -> History:
    cases = names or [f"a.stage{row:03d}" for row in range(len(log_time))]
    kept = sessions or [session(number) for number in range(log_time.shape[1])]
    times = [
        {case: value for case, value in zip(cases, own, strict=True) if math.isfinite(value)}
        for own in np.exp(log_time.T).tolist()
    ]
    return of_runs(of_sessions([replace(each, times_us=own) for each, own in zip(kept, times, strict=True)]))


def findings(log_time: Floats, sessions: Sequence[DrawnSession] | None = None) -> dict[str, CaseFinding]:
    return {each.case: each for each in find_trend(history(log_time, sessions)).findings}


def verdicts(log_time: Floats, sessions: Sequence[DrawnSession] | None = None) -> dict[str, Verdict]:
    """The verdicts of the cases that are not SAME."""
    found = findings(log_time, sessions)
    return {case: each.verdict for case, each in found.items() if each.verdict is not Verdict.SAME}


def slowed(log_time: Floats, row: int, since: int, by: float) -> Floats:
    """The same, with one case slower in its last ``since`` sessions."""
    changed = log_time.copy()
    changed[row, -since:] += np.log1p(by)
    return changed


@pytest.mark.parametrize("age", [5, 15, 30])
def test_a_case_is_slower_while_its_step_is_recent_and_comes_first(age: int) -> None:
    found = find_trend(history(slowed(quiet(), 7, age, 0.04)))
    worst = found.findings[0]
    assert (worst.case, worst.verdict, found.exit_code) == (CASE, Verdict.SLOWER, 1)
    assert worst.change_percent == pytest.approx(4, abs=0.6)
    assert worst.newest_time_us == pytest.approx(1.04 * (worst.older_time_us or 0), rel=0.005)
    assert worst.good is not None
    assert worst.bad is not None
    assert worst.good < SESSIONS - age <= worst.bad
    assert found.commands == [worst.command]
    assert found.counts == {Verdict.SLOWER: 1, Verdict.SAME: CASES - 1}


def test_equal_times_are_the_same() -> None:
    assert verdicts(np.ones((CASES, SESSIONS))) == {}


def test_the_same_states_the_smallest_step_that_the_newest_sessions_would_have_shown() -> None:
    found = findings(quiet())[CASE]
    assert found.older_time_us == found.newest_time_us == pytest.approx(np.exp(quiet()[7].mean()), rel=0.003)
    assert found.change_percent == 0
    least = found.smallest_detectable_change_percent
    assert least is not None
    assert 0.8 < least < 1.5
    assert verdicts(slowed(quiet(), 7, 5, 1.5 * least / 100)) == {CASE: Verdict.SLOWER}
    after_a_driver = [session(number, driver="590.1" if number > 36 else "580.1") for number in range(SESSIONS)]
    short = findings(quiet(), after_a_driver)[CASE]
    assert short.verdict is Verdict.SAME
    assert short.smallest_detectable_change_percent == pytest.approx(least, rel=0.1)  # the driver moved nothing


def test_a_case_of_too_few_sessions_is_new_beside_others_and_else_undecided() -> None:
    log_time = quiet()
    log_time[3, : 1 - FEWEST_TO_JUDGE] = np.nan
    log_time[4, :-FEWEST_TO_JUDGE] = np.nan
    assert verdicts(log_time) == {"a.stage003": Verdict.NEW}
    new = findings(log_time)["a.stage003"]
    assert (new.older_time_us, new.change_percent) == (None, None)
    assert new.recent_us == pytest.approx(np.exp(log_time[3, 1 - FEWEST_TO_JUDGE :]).tolist())
    short = findings(quiet(sessions=FEWEST_TO_JUDGE - 1))
    assert {each.verdict for each in short.values()} == {Verdict.INCONCLUSIVE}


def test_a_case_too_noisy_to_show_fifteen_percent_is_undecided_and_hides_no_other() -> None:
    log_time = slowed(quiet() / 5, 7, 1, 0.05)
    log_time[3] = 1 + 0.2 * np.random.default_rng(5).standard_normal(SESSIONS)
    assert verdicts(log_time) == {"a.stage003": Verdict.INCONCLUSIVE, CASE: Verdict.UNCONFIRMED}


def test_the_suite_is_what_cases_differ_from_their_own_medians() -> None:
    log_time = quiet()
    log_time[:, -5:] += np.log1p(0.02)
    together = find_trend(history(log_time)).together
    assert together is not None
    assert (together.verdict, together.case) == (Verdict.SLOWER, "")
    assert (together.good, together.bad) == (34, 35)
    relative = log_time - np.median(log_time[:, -RECENT:], axis=1, keepdims=True)
    assert together.recent_us == pytest.approx(np.exp(np.median(relative, axis=0))[-RECENT:].tolist(), abs=0.003)
    unchanged = find_trend(history(quiet())).together
    assert unchanged is not None
    assert unchanged.verdict is Verdict.SAME


def test_sessions_and_cases_that_are_seldom_there_do_not_count_for_the_suite() -> None:
    log_time = quiet(cases=13, sessions=20)
    log_time[12, :10] = np.nan  # in half of the sessions
    log_time[:6, 3] = np.nan  # 6 of 12 cases
    log_time[:5, 4] = np.nan  # 7 of 12
    together = find_trend(history(log_time)).together
    assert together is not None
    assert len(together.recent_us) == 19


@settings(max_examples=5)
@given(st.permutations(range(CASES)))
def test_the_order_of_the_cases_changes_nothing(order: list[int]) -> None:
    log_time = slowed(quiet(), 7, 6, 0.03)
    shuffled = history(log_time[order], names=[f"a.stage{row:03d}" for row in order])
    assert find_trend(shuffled).findings == find_trend(history(log_time)).findings


@pytest.mark.parametrize(("by", "age"), [(0.05, 1), (0.1, 2), (1.0, 1), (0.02, 3)])
def test_a_step_too_young_to_be_confirmed_is_reported_with_what_would_settle_it(by: float, age: int) -> None:
    trend = find_trend(history(slowed(quiet() / 5, 7, age, by)), fail_on_open=True)
    found = trend.findings[0]
    assert (found.case, found.verdict) == (CASE, Verdict.UNCONFIRMED)
    assert found.change_percent == pytest.approx(100 * by, abs=0.5)
    before, after = (f"{number:02x}" * 6 for number in (SESSIONS - age - 1, SESSIONS - age))
    assert found.command == f"peakgate ab {before} {after}"
    assert (trend.verdict, trend.exit_code) == (Verdict.UNCONFIRMED, ExitCode.UNDECIDED)
    assert find_trend(trend.history).exit_code is ExitCode.OK
    assert [each.verdict for each in trend.findings[1:]] == [Verdict.SAME] * (CASES - 1)


def test_a_young_step_that_mends_itself_or_is_confirmed_is_no_longer_unconfirmed() -> None:
    log_time = quiet() / 5
    log_time[7, -2] += 0.05
    assert CASE not in verdicts(log_time)
    assert verdicts(slowed(quiet() / 5, 7, 5, 0.05)) == {CASE: Verdict.SLOWER}


def test_a_case_of_two_levels_and_a_suite_with_odd_sessions_report_no_young_step() -> None:
    rng = np.random.default_rng(3)
    two_levels = quiet() / 5
    two_levels[7] += 0.05 * rng.integers(0, 2, SESSIONS)
    two_levels[7, -1] = two_levels[7].max()
    assert Verdict.UNCONFIRMED not in verdicts(two_levels).values()
    odd = quiet() / 5 + 0.05 * (rng.random((CASES, SESSIONS)) < 0.05)
    odd[7, -1] += 0.05
    assert Verdict.UNCONFIRMED not in verdicts(odd).values()


def test_what_makes_every_case_slower_is_the_suites_alone() -> None:
    log_time = quiet() / 5
    log_time[:, -2:] += np.log(1.1)
    trend = find_trend(history(log_time))
    assert {each.verdict for each in trend.findings} == {Verdict.SAME}
    assert trend.verdict is Verdict.UNCONFIRMED
    times = {each.case: each.newest_time_us for each in trend.findings}
    assert times[CASE] == pytest.approx(np.exp(log_time[7, -1]), rel=0.01)
    assert trend.together is not None
    assert trend.together.verdict is Verdict.UNCONFIRMED


def test_a_young_step_after_a_new_driver_is_put_down_to_the_environment() -> None:
    sessions = [session(number, driver="581" if number >= SESSIONS - 2 else "580") for number in range(SESSIONS)]
    log_time = quiet() / 5
    log_time[7, -2:] += np.log(1.1)
    found = find_trend(history(log_time, sessions)).findings[0]
    assert (found.verdict, found.command) == (Verdict.UNCONFIRMED, None)


@settings(max_examples=8)
@given(st.integers(0, 1000))
def test_what_is_slower_is_faster_in_the_mirror(seed: int) -> None:
    log_time = slowed(quiet(seed), 7, 6, 0.04)
    turned = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
    assert verdicts(9 - log_time) == {case: turned[verdict] for case, verdict in verdicts(log_time).items()}


def test_false_positives_and_power_are_what_the_page_promises() -> None:
    """Five histories of 95 unchanged cases (under 1 % of them have a false positive) and 5 that are 2 % slower."""
    wrong, hits = 0, 0
    rng = np.random.default_rng(11)
    changed = {f"a.stage{row:03d}" for row in range(5)}
    for _ in range(5):
        sd = rng.uniform(0.003, 0.007, (100, 1))
        noise = sd * rng.standard_normal((100, 36)) + 0.03 * (rng.random((100, 36)) < 0.02)
        log_time = rng.uniform(1, 8, (100, 1)) + noise
        log_time[:5, -8:] += np.log1p(0.02)
        flagged = {case for case, verdict in verdicts(log_time).items() if verdict is not Verdict.UNCONFIRMED}
        wrong += bool(flagged - changed)
        hits += len(flagged & changed)
    assert wrong <= 1
    assert hits >= 0.85 * 25
