"""The figures that a trend is judged by, each against its formula written out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from peakgate.reports.comparison import noise
from peakgate.reports.comparison.judge import SESSIONS_ALPHA, SMALLEST_SHIFT, badness
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.history import detect
from peakgate.reports.history.detect import CaseFinding, Window
from peakgate.reports.history.series import locate
from peakgate.reports.result import Shift
from peakgate.verdict import Judgement, Verdict
from scipy import stats  # type: ignore[import-untyped]  # SciPy ships no type information
from test_history_detect import history, session

OLDER = np.array([1.00, 1.03, 0.98, 1.01, 1.04, 0.99, 1.02])  # median 1.01, median absolute deviation 0.02
NEWER = np.array([1.06, 1.07, 1.05, 1.08, 1.09])  # median 1.07


def window(older: Floats = OLDER, newer: Floats = NEWER) -> Window:
    values = np.concatenate([older, newer])
    return Window(tuple(range(len(values))), values)


def spread(count: int, mad: float) -> float:
    """The SD that Croux and Rousseeuw's factor makes of a median absolute deviation of few values."""
    return 1.4826 * mad * count / (count - 0.8)


def test_the_spread_is_of_the_median_deviations_of_the_older_sessions() -> None:
    windows = [window(), window(OLDER * 2), window(OLDER[:6] - 3)]
    deviations = [0.02, 0.04, float(np.median(np.abs(OLDER[:6] - np.median(OLDER[:6]))))]
    sds = np.array([spread(count, mad) for count, mad in zip((7, 7, 6), deviations, strict=True)])
    times = np.array([1.01, 2.02, float(np.median(OLDER[:6])) - 3])
    expected, expected_df = noise.squeeze(sds**2, 0.37 * np.array([6.0, 6.0, 5.0]), times)
    variance, df = detect._spread(windows)
    assert variance == pytest.approx(expected, rel=1e-9)
    assert df == pytest.approx(expected_df, rel=1e-9)


def test_a_shift_is_tested_with_the_errors_of_two_medians() -> None:
    windows = [window(), window(OLDER, NEWER - 0.08), window(OLDER[:6])]
    variance, df = detect._spread(windows)
    found = detect._shifts(windows)
    errors = [
        math.sqrt(each * (1.434 / 5 + math.pi / 2 / count)) for each, count in zip(variance, (7, 7, 6), strict=True)
    ]
    shifts = [each.shift for each in windows]
    assert shifts == pytest.approx([0.06, -0.02, 1.07 - float(np.median(OLDER[:6]))])
    alone = [stats.t.sf(abs(by) / error, free) for by, error, free in zip(shifts, errors, df, strict=True)]
    adjusted = noise.holm(np.array(alone))
    for row, (shift, sd) in enumerate(found):
        assert sd == pytest.approx(math.sqrt(variance[row]))
        assert shift.log_ratio == shifts[row]
        assert shift.p_alone == pytest.approx(alone[row])
        assert shift.p_value == pytest.approx(adjusted[row])
        assert shift.resolvable == pytest.approx(errors[row] * float(stats.t.isf(SESSIONS_ALPHA / 3, df[row])))
        assert shift.flagged is bool(adjusted[row] < SESSIONS_ALPHA)


def test_no_shift_of_the_smallest_size_or_p_value_of_exactly_alpha_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    sure = window(OLDER / 1000, OLDER[:5] / 1000 + 0.1)
    ((shift, _),) = detect._shifts([sure])
    assert shift.flagged
    assert shift.resolvable == SMALLEST_SHIFT
    monkeypatch.setattr(detect, "SMALLEST_SHIFT", shift.log_ratio)
    assert not detect._shifts([sure])[0][0].flagged
    monkeypatch.undo()
    monkeypatch.setattr(detect, "SESSIONS_ALPHA", shift.p_value)
    assert not detect._shifts([sure])[0][0].flagged


def test_a_finding_has_the_times_of_its_window_and_both_medians() -> None:
    still = Shift(0.001, 0.0296, flagged=False)
    found = detect._finding("a.b", window(), still, 0.01, history(np.ones((1, 12))))
    assert [found.older_us, found.newest_us] == pytest.approx([math.exp(1.01), math.exp(1.07)])
    assert replace(found, older_us=None, newest_us=None) == CaseFinding(
        "a.b",
        Judgement(Verdict.SAME, "+0.10 %, within the 3 % that 5 sessions against 7 can resolve"),
        tuple(np.exp(np.concatenate([OLDER, NEWER])).tolist()),
        shift=still,
    )


def test_a_flagged_case_has_its_step_and_the_facts_of_it_in_the_reason() -> None:
    values = np.concatenate([OLDER, NEWER])
    kept = [
        session(number, driver=f"58{number // 7}", fingerprints={"a.b": f"code {number // 7}"}) for number in range(12)
    ]
    whole = history(values[None], kept)
    shift = Shift(0.06, 0.01, flagged=True, p_value=1e-4)
    found = detect._finding("a.b", window(), shift, 0.01, whole)
    step = locate("a.b", whole.sessions, values, 0.01)
    assert found.step == step
    assert step != locate("c.d", whole.sessions, values, 0.01)
    assert len(step.facts) > 1
    facts = "; ".join(step.facts)
    text = f"1.06x slower in the last 5 sessions than in 7 before, p = 0.0001; {facts}"
    assert found.judgement == Judgement(Verdict.SLOWER, text)


def test_a_window_is_the_last_thirty_five_sessions_of_the_newest_gpu_that_has_the_case() -> None:
    row = np.arange(50.0)
    row[[3, 48, 49]] = math.nan
    gpus = np.array([0, 1] * 5 + [0] * 40)
    found = detect._window(row, gpus, [f" of {number}" for number in range(50)])
    assert found.sessions == tuple(range(13, 48))
    assert found.log_time.tolist() == list(range(13, 48))
    assert (found.of_gpu, found.elsewhere) == (" of 47", 4)
    assert found.enough
    assert not Window((), np.ones(10)).enough


def test_what_lacks_sessions_is_new_beside_others_unless_other_gpus_have_it_often_enough() -> None:
    def verdict(*, have: int, elsewhere: int, beside: bool = True) -> Verdict:
        few = Window(tuple(range(have)), np.ones(have), elsewhere=elsewhere)
        return detect._too_few("a.b", few, beside=beside).verdict

    assert verdict(have=4, elsewhere=6) is Verdict.NEW
    assert verdict(have=4, elsewhere=7) is Verdict.INCONCLUSIVE
    assert verdict(have=4, elsewhere=0, beside=False) is Verdict.INCONCLUSIVE


def test_findings_are_ordered_by_verdict_then_by_the_surest_shift_then_by_name() -> None:
    def finding(case: str, verdict: Verdict, shift: Shift | None = None) -> CaseFinding:
        return CaseFinding(case, Judgement(verdict, ""), (), shift=shift)

    found = [
        finding("a", Verdict.SAME, Shift(0.02, 0.03, flagged=False)),
        finding("b", Verdict.SAME),
        finding("c", Verdict.SLOWER, Shift(0.06, 0.03, flagged=True)),
        finding("d", Verdict.SLOWER, Shift(0.09, 0.08, flagged=True)),
        finding("e", Verdict.SAME),
        finding("f", Verdict.SAME, Shift(0.02, 0.01, flagged=False)),
    ]
    assert [each.case for each in sorted(found, key=badness)] == ["c", "d", "f", "b", "e", "a"]


def together(log_time: Floats, **parts: bool) -> CaseFinding | None:
    sessions = [session(number, whole=parts.get(f"s{number}", True)) for number in range(log_time.shape[1])]
    return detect.detect_together(history(log_time, sessions))


def test_all_cases_together_are_the_median_of_what_each_differs_from_its_own_median() -> None:
    rng = np.random.default_rng(4)
    log_time = rng.uniform(1, 8, (13, 1)) + 0.01 * rng.standard_normal((13, 14))
    log_time[12, :7] = math.nan  # in half of the sessions: not among those that speak for all
    log_time[:6, 3] = math.nan  # 6 of 12 cases: this session does not speak for all
    log_time[:5, 4] = math.nan  # 7 of 12 do
    found = together(log_time)
    assert found is not None
    known = log_time[:12]
    relative = known - np.nanmedian(known, axis=1, keepdims=True)
    expected = np.exp(np.nanmedian(np.delete(relative, 3, axis=1), axis=0))
    assert found.case == ""
    assert found.recent_us == pytest.approx(expected.tolist())
    assert together(log_time[:10]) is not None
    assert together(log_time[:9]) is None


def test_all_cases_together_are_judged_by_the_last_thirty_five_whole_sessions() -> None:
    rng = np.random.default_rng(4)
    found = together(rng.uniform(1, 8, (10, 1)) + 0.01 * rng.standard_normal((10, 40)), s2=False, s39=False)
    assert found is not None
    assert len(found.recent_us) == 35
    assert together(np.ones((10, 11))) is not None
    assert together(np.ones((10, 10))) is None
