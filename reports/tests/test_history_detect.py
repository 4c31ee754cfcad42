from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.history.detect import NEWEST_SESSIONS, CaseFinding, detect, detect_together
from peakgate.reports.history.series import History, locate, plausible
from peakgate.reports.runs.sessions import SavedSession
from peakgate.verdict import Verdict

CASES = 30
SESSIONS = 40
NEEDED = "not judged yet: {} so far, 11 of one GPU are needed"


def session(number: int, **facts: object) -> SavedSession:
    plain = SavedSession(
        path=f"{number:04d}.json",
        taken=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number),
        commit=f"{number:02x}" * 20,
        dirty=False,
        slug="nvidia-h200",
        uuid="GPU-0001",
        driver="580.159.04",
        tier="gate",
        whole=True,
        times_us={},
        fingerprints={},
    )
    return replace(plain, **facts)  # type: ignore[arg-type]


def quiet(seed: int = 1, cases: int = CASES, sessions: int = SESSIONS) -> Floats:
    """Log times with an SD of half a percent between sessions, of cases from 2.7 µs to 3 ms."""
    rng = np.random.default_rng(seed)
    return np.linspace(1, 8, cases)[:, None] + 0.005 * rng.standard_normal((cases, sessions))


def history(log_time: Floats, sessions: Sequence[SavedSession] | None = None) -> History:
    names = tuple(f"a.stage{row:03d}" for row in range(len(log_time)))
    kept = tuple(sessions or [session(number) for number in range(log_time.shape[1])])
    return History("nvidia-h200", kept, names, np.exp(log_time), ())


def found(log_time: Floats) -> dict[str, CaseFinding]:
    return {finding.case: finding for finding in detect(history(log_time))}


def slowed(log_time: Floats, row: int, since: int, by: float) -> Floats:
    """The same, with one case slower in its last ``since`` sessions."""
    changed = log_time.copy()
    changed[row, -since:] += np.log1p(by)
    return changed


def test_a_case_three_percent_slower_since_five_sessions_is_slower_and_comes_first() -> None:
    findings = detect(history(slowed(quiet(), 7, 5, 0.03)))
    assert [finding.case for finding in findings if finding.verdict is Verdict.SLOWER] == ["a.stage007"]
    assert findings[0].case == "a.stage007"
    assert "1.03x slower in the last 5 sessions than in 30 before" in findings[0].judgement.reason


def test_a_case_faster_since_five_sessions_is_faster() -> None:
    assert found(slowed(quiet(), 7, 5, -0.03))["a.stage007"].verdict is Verdict.FASTER


def test_one_slow_session_is_no_regression() -> None:
    log_time = quiet()
    log_time[:, -1] += 0.05
    assert {finding.verdict for finding in detect(history(log_time))} == {Verdict.SAME}


def test_false_alarms_and_power_are_what_the_rule_promises() -> None:
    """Fifteen histories of 195 unchanged cases (in 5 % an alarm is expected) and 5 that are 2 % slower (93 % found)."""
    alarms, hits = 0, 0
    rng = np.random.default_rng(11)
    changed = {f"a.stage{row:03d}" for row in range(5)}
    for _ in range(15):
        sd = rng.uniform(0.003, 0.007, (200, 1))
        noise = sd * rng.standard_normal((200, 36)) + 0.03 * (rng.random((200, 36)) < 0.02)
        log_time = rng.uniform(1, 8, (200, 1)) + noise
        log_time[:5, -5:] += np.log1p(0.02)
        slower = {finding.case for finding in detect(history(log_time)) if finding.verdict is Verdict.SLOWER}
        alarms += bool(slower - changed)
        hits += len(slower & changed)
    assert alarms <= 2
    assert hits >= 0.85 * 75


def test_a_case_of_too_few_sessions_is_new_and_says_how_many_are_missing() -> None:
    log_time = quiet()
    log_time[3, :-7] = np.nan
    log_time[4, :-1] = np.nan
    findings = found(log_time)
    assert findings["a.stage003"].verdict is Verdict.NEW
    assert findings["a.stage003"].judgement.reason == NEEDED.format("7 sessions")
    assert findings["a.stage004"].judgement.reason == NEEDED.format("1 session")
    assert findings["a.stage004"].shift is None
    assert findings["a.stage003"].recent_us == pytest.approx(np.exp(log_time[3, -7:]).tolist())


def test_eleven_sessions_are_enough() -> None:
    assert {finding.verdict for finding in detect(history(quiet(sessions=11)))} == {Verdict.SAME}


def test_a_case_that_some_sessions_lack_is_judged_by_those_that_have_it() -> None:
    log_time = slowed(quiet(), 7, 16, 0.03)
    log_time[7, [25, 27, 29, 31, 33, 35, 37, 39, 24, 26, 28]] = np.nan
    assert found(log_time)["a.stage007"].verdict is Verdict.SLOWER


def test_a_case_that_repeats_within_a_fifth_is_open_only_where_it_moved_beyond_its_scatter() -> None:
    rng = np.random.default_rng(5)
    log_time = quiet()
    log_time[3:5] = 1 + 0.2 * rng.standard_normal((2, SESSIONS))
    log_time[4, -NEWEST_SESSIONS:] = 1.3
    findings = found(log_time)
    assert [findings[f"a.stage00{row}"].verdict for row in (3, 4)] == [Verdict.SAME, Verdict.INCONCLUSIVE]
    assert findings["a.stage004"].judgement.reason.endswith("can resolve: too noisy")


def test_sessions_that_agree_to_the_last_digit_are_the_same() -> None:
    assert {finding.verdict for finding in detect(history(np.ones((CASES, SESSIONS))))} == {Verdict.SAME}


def test_a_shift_of_all_cases_is_told_in_a_line_of_its_own() -> None:
    log_time = quiet()
    log_time[:, -5:] += np.log1p(0.02)
    together = detect_together(history(log_time))
    assert together is not None
    assert together.verdict is Verdict.SLOWER
    quiet_one = detect_together(history(quiet()))
    assert quiet_one is not None
    assert quiet_one.verdict is Verdict.SAME


def test_too_few_cases_or_sessions_say_nothing_of_the_suite() -> None:
    assert detect_together(history(quiet(cases=9))) is None
    assert detect_together(history(quiet(sessions=10))) is None
    parts = [session(number, whole=False) for number in range(SESSIONS)]
    assert detect_together(history(quiet(), parts)) is None


@given(st.permutations(range(CASES)))
def test_the_order_of_the_cases_changes_nothing(order: list[int]) -> None:
    log_time = slowed(quiet(), 7, 6, 0.03)
    straight = found(log_time)
    names = tuple(f"a.stage{row:03d}" for row in order)
    shuffled = history(log_time[order])
    for finding in detect(replace(shuffled, cases=names)):
        same = straight[finding.case]
        assert finding.verdict is same.verdict
        assert finding.shift
        assert same.shift
        assert finding.shift.p_value == pytest.approx(same.shift.p_value, rel=1e-6)


@given(st.floats(-5, 5))
def test_scaling_all_times_changes_no_verdict_and_no_shift(log_factor: float) -> None:
    log_time = slowed(quiet(), 7, 6, 0.03)
    straight, scaled = found(log_time), found(log_time + log_factor)
    for case, finding in straight.items():
        other = scaled[case]
        assert (finding.verdict, finding.step) == (other.verdict, other.step)
        assert finding.shift
        assert other.shift
        assert other.shift.log_ratio == pytest.approx(finding.shift.log_ratio, abs=1e-9)
        assert other.shift.resolvable == pytest.approx(finding.shift.resolvable, rel=1e-6)


@given(st.integers(0, 1000))
def test_what_is_slower_is_faster_in_the_mirror(seed: int) -> None:
    log_time = slowed(quiet(seed), 7, 6, 0.03)
    mirrored = 9 - log_time
    turned = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER, Verdict.SAME: Verdict.SAME}
    straight = found(log_time)
    for case, finding in found(mirrored).items():
        assert finding.verdict is turned[straight[case].verdict]


@given(st.integers(0, 1000), st.floats(1.0, 20.0), st.floats(-0.05, 0.05))
def test_more_noise_about_the_same_medians_never_makes_a_step_surer(seed: int, factor: float, by: float) -> None:
    log_time = slowed(quiet(seed, sessions=35), 7, NEWEST_SESSIONS, by)
    medians = np.concatenate(
        [
            np.repeat(np.median(part, axis=1, keepdims=True), part.shape[1], axis=1)
            for part in (log_time[:, :-NEWEST_SESSIONS], log_time[:, -NEWEST_SESSIONS:])
        ],
        axis=1,
    )
    straight, wild = found(log_time), found(medians + factor * (log_time - medians))
    for case, calm in straight.items():
        assert calm.shift
        wilder = wild[case].shift
        assert wilder
        assert wilder.log_ratio == pytest.approx(calm.shift.log_ratio, abs=1e-9)
        assert wilder.resolvable >= calm.shift.resolvable * (1 - 1e-9)
        assert (wilder.p_value or 0.0) >= (calm.shift.p_value or 0.0) * (1 - 1e-6)
        assert calm.shift.flagged or not wilder.flagged


def test_a_plain_step_lies_between_two_neighbours_and_names_the_command() -> None:
    step = found(slowed(quiet(), 7, 9, 0.05))["a.stage007"].step
    assert step is not None
    assert (step.before.path, step.after.path, step.between) == ("0030.json", "0031.json", 0)
    assert step.command == "peakgate ab 1e1e1e1e1e1e 1f1f1f1f1f1f"


def test_a_faint_step_is_given_a_wider_range_that_holds_it() -> None:
    rng = np.random.default_rng(3)
    log_time = 0.005 * rng.standard_normal(35)
    log_time[-10:] += 0.008
    first, last = plausible(log_time, 0.005)
    assert first < 25 <= last
    assert last - first > 1


def test_one_odd_session_beside_the_step_does_not_move_it() -> None:
    log_time = np.r_[np.zeros(25), np.full(10, 0.05)] + 0.001 * np.random.default_rng(3).standard_normal(35)
    log_time[5] += 0.3
    log_time[33] -= 0.3
    assert plausible(log_time, 0.005) == (24, 25)


def test_sessions_of_uncommitted_changes_are_walked_past_to_a_commit() -> None:
    log_time = np.r_[np.zeros(20), np.full(8, 0.05)]
    sessions = [session(number, dirty=number in {19, 20, 21}) for number in range(28)]
    step = locate("a", sessions, log_time, 0.005)
    assert (step.before.path, step.after.path, step.between) == ("0018.json", "0022.json", 3)
    assert step.command == "peakgate ab 121212121212 161616161616"


def test_without_a_clean_commit_on_both_sides_there_is_no_command() -> None:
    log_time = np.r_[np.zeros(20), np.full(8, 0.05)]
    for unknown in ({"dirty": True}, {"commit": "unknown"}):
        step = locate("a", [session(number, **unknown) for number in range(28)], log_time, 0.005)
        assert step.command is None
        assert "no clean commit on both sides of it" in step.facts


def test_a_step_within_one_commit_is_the_environments() -> None:
    sessions = [session(number, commit="c" * 40, driver="590.1" if number > 19 else "580.1") for number in range(28)]
    step = locate("a", sessions, np.r_[np.zeros(20), np.full(8, 0.05)], 0.005)
    assert step.command is None
    assert step.facts == ("driver 580.1 to 590.1", "within one commit: environment")


@pytest.mark.parametrize(("after", "fact"), [("f1", "same code: environment"), ("f2", "its code changed")])
def test_the_fingerprints_say_whether_the_code_changed(after: str, fact: str) -> None:
    sessions = [session(number, fingerprints={"a": after if number > 19 else "f1"}) for number in range(28)]
    assert fact in locate("a", sessions, np.r_[np.zeros(20), np.full(8, 0.05)], 0.005).facts
