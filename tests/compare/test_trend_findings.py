"""What a case's change points, its newest level and a young step make of it; and what all cases make of a history."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from test_history_trend import history, quiet

from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.history import trend
from peakgate.compare.history.causes import Cause, ChangePoint, Judged, Place, Unconfirmed
from peakgate.compare.history.report import report
from peakgate.compare.history.series import History
from peakgate.compare.history.trend import CaseFinding, OpenRegression, Trend
from peakgate.judge.acknowledged import Accepted

PLACE = Place(3, 5, 1, "after session 3", ("machine code: the same",), "peakgate ab a b")
ACCEPTED = Accepted("a.b", 5.0, "meant", date(2026, 11, 22))


def step(log_ratio: float, since: int = 10) -> ChangePoint:
    bounds = log_ratio - 0.001, log_ratio + 0.001
    return ChangePoint("a.b", "GPU-1", Cause.COMMITS, PLACE, 5, date(2026, 11, 5), since, 100.0, log_ratio, *bounds)


def found(points: list[ChangePoint], *left: OpenRegression, detectable: float = 0.01) -> CaseFinding:
    return trend.find_verdict("a.b", Judged(tuple(points), 104.0, detectable), left)


SLOWER, FASTER, LESS = step(0.04), step(-0.03), step(-0.01)
LEFT = OpenRegression(SLOWER, 0.02)


def test_a_recent_open_regression_is_slower_by_what_is_left_of_it_and_has_its_place() -> None:
    finding = found([SLOWER, FASTER], replace(LEFT, accepted=ACCEPTED), LEFT)
    assert (finding.case, finding.verdict, finding.where) == ("a.b", Verdict.SLOWER, "after session 3")
    assert (finding.good, finding.bad, finding.command) == (3, 5, PLACE.command)
    assert (finding.older_time_us, finding.newest_time_us) == (100.0, 104.0)
    assert finding.change_percent == pytest.approx(100 * math.expm1(0.02))
    assert finding.smallest_detectable_change_percent == pytest.approx(100 * math.expm1(0.01))
    assert finding.reason.endswith(PLACE.facts[0])


def test_a_case_that_may_drift_is_undecided() -> None:
    judged = Judged((), 104.0, 0.01, may_drift=True)
    assert trend.find_verdict("a.b", judged, []).verdict is Verdict.INCONCLUSIVE
    assert trend.find_verdict("a.b", judged._replace(points=(SLOWER,)), [LEFT]).verdict is Verdict.SLOWER


@pytest.mark.parametrize(
    ("points", "left", "doubtful", "verdict", "change_percent"),
    [
        ([], [], False, Verdict.SAME, 0.0),
        ([], [], True, Verdict.INCONCLUSIVE, 0.0),
        ([SLOWER], [LEFT], True, Verdict.SLOWER, 100 * math.expm1(0.02)),
        ([SLOWER], [replace(LEFT, accepted=ACCEPTED)], False, Verdict.SAME, 0.0),
        ([SLOWER], [], False, Verdict.SAME, 0.0),
        ([step(0.04, 35)], [OpenRegression(step(0.04, 35), 0.04)], False, Verdict.SLOWER, 100 * math.expm1(0.04)),
        ([step(0.04, 36)], [OpenRegression(step(0.04, 36), 0.04)], False, Verdict.SAME, 0.0),
        ([FASTER, LESS], [], True, Verdict.FASTER, 100 * math.expm1(-0.03)),
        ([LESS, FASTER], [], False, Verdict.FASTER, 100 * math.expm1(-0.03)),
        ([step(-0.03, 36)], [], False, Verdict.SAME, 0.0),
        ([step(-0.0051)], [], False, Verdict.FASTER, 100 * math.expm1(-0.0051)),
        ([step(-math.log1p(0.005))], [], False, Verdict.SAME, 0.0),
        ([step(0.03), FASTER], [], False, Verdict.SAME, 0.0),
    ],
)
def test_recent_steps_alone_decide(
    points: list[ChangePoint], left: list[OpenRegression], *, doubtful: bool, verdict: Verdict, change_percent: float
) -> None:
    finding = found(points, *left, detectable=0.2 if doubtful else 0.01)
    assert (finding.case, finding.verdict) == ("a.b", verdict)
    assert finding.change_percent == pytest.approx(change_percent)
    if not change_percent:
        assert finding.older_time_us == finding.newest_time_us == 104.0
        accepted = any(each.accepted for each in left)
        assert ("noisy" in finding.reason, "2026-11-22" in finding.reason) == (doubtful, accepted)


@pytest.mark.parametrize(("detectable", "percent"), [(0.01, 100 * math.expm1(0.01)), (0.001, 0.5), (math.inf, None)])
def test_what_would_show_is_no_less_than_half_a_percent_and_unknown_of_too_few_sessions(
    detectable: float, percent: float | None
) -> None:
    finding = found([], detectable=detectable)
    assert finding.smallest_detectable_change_percent == (percent if percent is None else pytest.approx(percent))
    assert ("too few sessions" in finding.reason) == (percent is None)
    assert percent is None or f"{percent:.1g} %" in finding.reason


@pytest.mark.parametrize(("sessions", "more"), [(1, "4 more sessions"), (4, "1 more session ")])
def test_a_young_step_is_unconfirmed_with_its_size_and_its_place(sessions: int, more: str) -> None:
    young = Unconfirmed(sessions, 0.1, 80.0, Cause.COMMITS, PLACE)
    finding = trend.find_verdict("a.b", Judged((), 104.0, 0.01, unconfirmed=young), ())
    assert (finding.verdict, finding.good, finding.bad) == (Verdict.UNCONFIRMED, 3, 5)
    assert (finding.where, finding.command) == ("after session 3", PLACE.command)
    assert finding.older_time_us == 80.0
    assert finding.newest_time_us == pytest.approx(80.0 * math.exp(0.1))
    assert finding.change_percent == pytest.approx(100 * math.expm1(0.1))
    assert f"; {more}" in finding.reason
    assert "1.11x slower" in finding.reason


def finding(case: str, verdict: Verdict, change_percent: float | None = 0.0, command: str | None = None) -> CaseFinding:
    return CaseFinding(case, verdict, "", change_percent=change_percent, command=command)


def test_findings_are_ordered_by_verdict_then_the_largest_slowdown_then_name() -> None:
    given = [
        finding("d", Verdict.SAME, None),
        finding("c", Verdict.SAME),
        finding("b", Verdict.SLOWER, 3.0),
        finding("a", Verdict.SLOWER, 2.0),
        finding("z", Verdict.FASTER, -3.0),
        finding("e", Verdict.FASTER, -2.0),
        finding("n", Verdict.NEW, None),
        finding("j", Verdict.INCONCLUSIVE, None),
        finding("i", Verdict.INCONCLUSIVE),
    ]
    assert [each.case for each in sorted(given, key=trend.badness)] == [*"baijeznc", "d"]


def a_trend(*findings: CaseFinding, **more: Any) -> Trend:
    return Trend(history(quiet(cases=1, sessions=1)), findings, **{"together": None} | more)


def test_at_most_three_commands_settle_what_is_slower_each_once_worst_first() -> None:
    slower = [finding(str(number), Verdict.SLOWER, command=name) for number, name in enumerate("abacd")]
    others = [finding("x", Verdict.FASTER, command="x"), finding("y", Verdict.SLOWER)]
    assert a_trend(*others, *slower).commands == ["a", "b", "c"]
    together = finding("", Verdict.UNCONFIRMED, command="t")
    assert a_trend(*others, slower[0], together=together).commands == ["a", "t"]
    assert a_trend(finding("x", Verdict.UNCONFIRMED, command="u")).commands == ["u"]


S, U, OPEN = Verdict.SLOWER, Verdict.UNCONFIRMED, Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("verdicts", "together", "untimed", "open_", "fail_on_open", "verdict", "code"),
    [
        ([Verdict.SAME], None, [], [], True, Verdict.PASS, 0),
        ([Verdict.FASTER, Verdict.NEW], Verdict.SAME, [], [], True, Verdict.PASS, 0),
        ([S], None, [], [], False, S, 1),
        ([Verdict.SAME], S, [], [], False, S, 1),
        ([Verdict.SAME], None, [Verdict.WRONG], [], False, Verdict.WRONG, 1),
        ([OPEN], None, [], [], False, OPEN, 3),
        ([U], None, [], [], False, U, 0),
        ([U], None, [], [], True, U, 3),
        ([Verdict.SAME], U, [], [], True, U, 3),
        ([Verdict.SAME], None, [], [LEFT], False, Verdict.PASS, 0),
        ([Verdict.SAME], None, [], [LEFT], True, S, 1),
        ([Verdict.SAME], None, [], [replace(LEFT, accepted=ACCEPTED)], True, Verdict.PASS, 0),
        ([OPEN, U], None, [], [], False, U, 3),
    ],
)
def test_a_history_in_one_word_and_its_exit_code(
    verdicts: list[Verdict],
    together: Verdict | None,
    untimed: list[Verdict],
    open_: list[OpenRegression],
    *,
    fail_on_open: bool,
    verdict: Verdict,
    code: int,
) -> None:
    whole = a_trend(
        *(finding(str(number), each) for number, each in enumerate(verdicts)),
        together=together and finding("", together),
        untimed=dict.fromkeys(untimed, ("a",)),
        regressions=tuple(open_),
        fail_on_open=fail_on_open,
    )
    assert (whole.verdict, whole.exit_code) == (verdict, ExitCode(code))
    assert (whole.frame.attrs["verdict"], whole.frame.attrs["exit_code"]) == (verdict.value, code)
    assert whole.frame["case"].to_list() == [str(number) for number in range(len(verdicts))]
    assert whole.counts == {each: verdicts.count(each) for each in verdicts}


def together_of(log_time: np.ndarray) -> CaseFinding | None:
    """What is found of all cases together."""
    return trend.find_trend(history(log_time)).together


@pytest.mark.parametrize(("cases", "sessions", "judged"), [(10, 10, True), (9, 10, False), (10, 9, False)])
def test_ten_cases_of_ten_sessions_are_a_suite(cases: int, sessions: int, judged: bool) -> None:
    assert (together_of(quiet(cases=cases, sessions=sessions)) is not None) == judged


def test_a_session_with_half_of_the_cases_does_not_count_for_the_suite() -> None:
    log_time = quiet(cases=20, sessions=20)
    log_time[:10, 3] = log_time[:9, 4] = np.nan
    found = together_of(log_time)
    assert found is not None
    assert len(found.recent_us) == 19


def test_beside_a_case_of_ten_sessions_one_of_nine_is_new() -> None:
    log_time = quiet(cases=3, sessions=15)
    log_time[0, :5] = log_time[1, :6] = log_time[2, :5] = np.nan
    found = trend.find_trend(history(log_time)).findings
    verdicts = [each.verdict for each in sorted(found, key=lambda each: each.case)]
    assert verdicts == [Verdict.SAME, Verdict.NEW, Verdict.SAME]


def test_a_slower_case_stays_slower_whatever_its_newest_sessions_show_and_untimed_ones_are_kept() -> None:
    log_time = quiet() / 5
    log_time[7, -12:] += 0.04
    log_time[7, -2:] += 0.1
    untimed = {Verdict.WRONG: ("a.b",)}
    found = trend.find_trend(history(log_time), untimed=untimed)
    assert (found.findings[0].case, found.findings[0].verdict) == ("a.stage007", Verdict.SLOWER)
    assert (found.untimed, found.verdict) == (untimed, Verdict.WRONG)
    assert trend.find_trend(history(log_time)).untimed == {}
    log_time[7, -12:] -= 0.04
    assert trend.find_trend(history(log_time)).findings[0].verdict is Verdict.UNCONFIRMED


def with_samples(sd: np.ndarray) -> History:
    """Forty cases in thirty sessions, whose samples have these relative SDs, by case and session."""
    steady = history(quiet(cases=40, sessions=30))
    cases = steady.rows.index.get_level_values("case").map({case: at for at, case in enumerate(steady.cases)})
    own = sd[cases, steady.rows.index.get_level_values("session")]
    drawn = np.random.default_rng(5).lognormal(0.0, 0.1, len(own))
    samples = 60
    return replace(steady, rows=steady.rows.assign(samples=samples, sampling_error=own * drawn / math.sqrt(samples)))


def test_samples_that_vary_more_than_before_are_reported_whatever_the_mean() -> None:
    sd = np.full((40, 30), 0.003)
    sd[7, -5:] *= 7
    found = trend.find_trend(with_samples(sd))
    (grown,) = found.spread
    assert grown.case == found.history.cases[7]
    assert 4 < grown.growth < 10
    assert found.exit_code == ExitCode.OK
    assert [each["case"] for each in report(found).fields["spread"]] == [grown.case]


def test_samples_that_always_vary_are_not_reported() -> None:
    sd = np.full((40, 30), 0.003)
    sd[7] *= 7
    assert trend.find_trend(with_samples(sd)).spread == ()
