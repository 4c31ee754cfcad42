"""The figures that a comparison decides by, each against its formula written out."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from peakgate.reports.comparison import judge, noise
from peakgate.reports.comparison.evidence import CaseEvidence, Measured
from peakgate.reports.comparison.judge import SESSIONS_ALPHA, SMALLEST_SHIFT, SUITE_SINGLE_RUN, Rules
from peakgate.reports.comparison.noise import SessionNoise
from peakgate.reports.result import ComparedCase, Shift, SuiteShift
from peakgate.reports.runs.runfile import CaseResult, load_run
from peakgate.verdict import Judgement, Verdict
from scipy import stats  # type: ignore[import-untyped]  # SciPy ships no type information
from synthetic_runs import document, save

ONE_GPU = Rules(refusal=None, other_model=False, same_gpu=True, several_gpus=False)
TWO_GPUS = Rules(refusal=None, other_model=False, same_gpu=False, several_gpus=True)

RATIOS = (0.01, 0.012, 0.013, 0.014, 0.02, 0.021, 0.022, 0.03, 0.04, 0.05)
MEDIAN = 0.0205
SCATTER = 1.2533 * 1.4826 * 0.008
"""Of the median of ten: 1.2533 SDs, an SD being 1.4826 median absolute deviations."""


def suite(
    ratios: tuple[float, ...], spread: SessionNoise | None, rules: Rules = ONE_GPU, sessions: tuple[int, int] = (2, 3)
) -> SuiteShift:
    found = judge._suite([Shift(ratio, 0.03, flagged=False) for ratio in ratios], spread, rules, *sessions)
    assert found is not None
    return found


def common(variance: float, df: float) -> SessionNoise:
    return SessionNoise(np.ones(10), np.ones(10), variance, df)


@pytest.mark.parametrize(
    ("spread", "variance", "df"),
    [(None, 0.0015**2, 4.0), (common(0.0, 9.0), 0.0015**2, 4.0), (common(9e-6, 9.0), 9e-6, 9.0)],
)
def test_the_suites_error_is_what_moves_a_session_and_the_scatter_of_the_cases(
    spread: SessionNoise | None, variance: float, df: float
) -> None:
    found = suite(RATIOS, spread)
    error = math.sqrt(variance * (1 / 2 + 1 / 3) + SCATTER**2 / 10)
    assert found.shift.log_ratio == pytest.approx(MEDIAN)
    assert found.shift.resolvable == pytest.approx(error * float(stats.t.isf(SESSIONS_ALPHA, df)), rel=1e-9)
    assert found.cases == 10


@pytest.mark.parametrize(
    ("spread", "rules", "least"),
    [
        (None, ONE_GPU, SUITE_SINGLE_RUN),
        (common(1e-12, 7.999), ONE_GPU, SUITE_SINGLE_RUN),
        (common(1e-12, 8.0), ONE_GPU, SMALLEST_SHIFT),
        (common(1e-12, 8.0), TWO_GPUS, noise.SINGLE_RUN_RESOLVABLE),
    ],
)
def test_no_smaller_shift_of_the_suite_is_flagged_than_is_known_of_sessions(
    spread: SessionNoise | None, rules: Rules, least: float
) -> None:
    assert suite((least,) * 10, spread, rules, (90, 90)).judgement.verdict is Verdict.SAME
    slower = suite((least * 1.0001,) * 10, spread, rules, (90, 90))
    assert slower.shift.resolvable == pytest.approx(least)
    assert slower.judgement == Judgement(Verdict.SLOWER, f"{slower.shift} in the median of 10 cases")
    assert suite((-least * 1.0001,) * 10, spread, rules, (90, 90)).judgement.verdict is Verdict.FASTER


def test_an_unmoved_suite_says_what_it_could_resolve() -> None:
    assert suite((0.0,) * 10, None, sessions=(90, 90)).judgement.reason == (
        "+0.00 %, within the 1 % these runs can resolve"
    )


@pytest.fixture
def measured(tmp_path: Path) -> CaseResult:
    return load_run(save(tmp_path, "run", document({"a.b": 100.0}))).cases["a.b"]


def evidence(result: CaseResult, base_us: tuple[float, ...], new_us: tuple[float, ...], error: float) -> CaseEvidence:
    sides = [
        Measured(tuple(structs.replace(result, time_us=time_us, sampling_error=error) for time_us in times))
        for times in (base_us, new_us)
    ]
    return CaseEvidence("a.b", *sides)


def test_the_error_of_a_case_is_of_its_sessions_and_no_less_than_its_samples_allow(measured: CaseResult) -> None:
    case = evidence(measured, (100.0, 100.0), (100.0,) * 3, 0.0)
    own, together = 4e-6, 5e-6
    spread = SessionNoise(np.array([1.0, own]), np.array([1.0, 6.0]), together, 5.0)
    assert judge._standard_error(1, case, spread) == pytest.approx(math.sqrt((own + together) * (1 / 2 + 1 / 3)))
    base = Measured(tuple(structs.replace(measured, sampling_error=error) for error in (0.1, 0.3)))
    new = Measured(tuple(structs.replace(measured, sampling_error=error) for error in (None, 0.2)))
    least = (0.1**2 + 0.3**2 + 0.2**2) / 4
    found = judge._standard_error(1, CaseEvidence("a.b", base, new), spread)
    assert found == pytest.approx(math.sqrt((least + together) * (1 / 2 + 1 / 2)))


def test_a_repeated_case_is_held_to_its_p_value_and_to_what_its_spread_resolves(measured: CaseResult) -> None:
    cases = [evidence(measured, (100.0,), (100.0 * math.exp(ratio),), 0.0) for ratio in (0.02, -0.004, 0.5, 0.0045)]
    spread = SessionNoise(np.array([1e-5, 1e-9, np.nan, 1e-9]), np.array([8.0, 8.0, 0.0, 8.0]), 0.0, 4.0)
    found = judge._shifts(cases, np.array([5.0, 4.0, 0.0, 4.0]), spread, ONE_GPU)
    errors = [math.sqrt(2e-5), math.sqrt(2e-9), math.nan, math.sqrt(2e-9)]
    alone = [float(stats.t.sf(abs(shift.log_ratio) / error, 8.0)) for shift, error in zip(found, errors, strict=True)]
    adjusted = noise.holm(np.array([alone[0], alone[1], alone[3]]))
    assert [found[row].p_alone for row in (0, 1, 3)] == pytest.approx([alone[0], alone[1], alone[3]])
    assert [found[row].p_value for row in (0, 1, 3)] == pytest.approx(adjusted.tolist())
    assert found[0].resolvable == pytest.approx(errors[0] * float(stats.t.isf(SESSIONS_ALPHA / 3, 8.0)))
    assert found[1].resolvable == found[3].resolvable == SMALLEST_SHIFT
    assert [shift.flagged for shift in found] == [True, False, True, False]
    assert (found[2].p_value, found[2].p_alone) == (None, None)
    assert found[2].resolvable == noise.SINGLE_RUN_RESOLVABLE


@pytest.mark.parametrize(
    ("df", "rules", "least"),
    [
        (4.0, ONE_GPU, SMALLEST_SHIFT),
        (3.0, ONE_GPU, noise.SINGLE_RUN_RESOLVABLE),
        (1.0, ONE_GPU, noise.SINGLE_RUN_RESOLVABLE),
        (9.0, TWO_GPUS, 0.0295588),
    ],
)
def test_few_degrees_of_freedom_or_several_gpus_need_the_rule_of_single_runs_as_well(
    measured: CaseResult, df: float, rules: Rules, least: float
) -> None:
    spread = SessionNoise(np.array([1e-12]), np.array([9.0]), 0.0, 4.0)
    for factor, flagged in ((0.999, False), (1.001, True)):
        case = evidence(measured, (100.0,), (100.0 * math.exp(factor * least),), 0.0)
        (shift,) = judge._shifts([case], np.array([df]), spread, rules)
        assert shift.flagged is flagged
        assert shift.p_value is not None
        assert shift.resolvable == pytest.approx(least, rel=1e-5)


def test_a_p_value_of_exactly_alpha_or_a_shift_of_exactly_the_smallest_is_not_flagged(
    measured: CaseResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = evidence(measured, (100.0,), (103.0,), 0.0)
    spread = SessionNoise(np.array([1e-5]), np.array([9.0]), 0.0, 4.0)
    (shift,) = judge._shifts([case], np.array([9.0]), spread, ONE_GPU)
    assert shift.flagged
    monkeypatch.setattr(judge, "SESSIONS_ALPHA", shift.p_value)
    assert not judge._shifts([case], np.array([9.0]), spread, ONE_GPU)[0].flagged
    monkeypatch.undo()
    monkeypatch.setattr(judge, "SMALLEST_SHIFT", shift.log_ratio)
    assert not judge._shifts([case], np.array([9.0]), spread, ONE_GPU)[0].flagged
    monkeypatch.setattr(judge, "_fixed_resolvable", lambda _: shift.log_ratio)
    assert not judge._shifts([case], np.array([0.0]), None, ONE_GPU)[0].flagged


def test_one_run_against_one_is_held_to_the_shorter_time_and_the_samples_of_both(measured: CaseResult) -> None:
    def resolvable(base_us: tuple[float, ...], new_us: tuple[float, ...], error: float = 0.0) -> float:
        return judge._fixed_resolvable(evidence(measured, base_us, new_us, error))

    assert resolvable((30.0,), (6.0,)) == resolvable((6.0,), (30.0,)) == pytest.approx(5 * 0.016)
    assert resolvable((100.0,), (100.0,), 0.03) == pytest.approx(4 * math.hypot(0.03, 0.03))
    assert resolvable((100.0,), (100.0,) * 3) == pytest.approx(math.log1p(0.03) * math.sqrt((1 + 1 / 3) / 2))
    assert resolvable((100.0,) * 3, (100.0,)) == pytest.approx(math.log1p(0.03) * math.sqrt((1 + 1 / 3) / 2))
    call = structs.replace(measured, fingerprint=None, registers=None)
    one_of_a_library = CaseEvidence("a.b", Measured((measured,)), Measured((structs.replace(call, time_us=12.0),)))
    assert judge._fixed_resolvable(one_of_a_library) == pytest.approx(math.log1p(0.15))


def test_a_shift_between_gpus_of_exactly_what_they_may_differ_by_is_not_flagged() -> None:
    edge = noise.between_gpus(0.03)
    assert edge == pytest.approx(math.hypot(0.03, math.log1p(0.05)))
    for log_ratio, flagged in ((edge, False), (-edge * 1.0001, True), (edge * 1.0001, True)):
        found = judge._between_gpus(Shift(log_ratio, 0.03, flagged=True, p_value=1e-6, p_alone=1e-7))
        assert found == Shift(log_ratio, edge, flagged=flagged, p_value=1e-6, p_alone=1e-7)
    assert not judge._between_gpus(Shift(1.0, 0.03, flagged=False)).flagged


def test_a_case_is_too_noisy_where_15_percent_is_not_resolved_and_it_moved_more_than_by_itself() -> None:
    widest = math.log1p(0.15)
    for p_alone, noisy in ((None, True), (SESSIONS_ALPHA, False), (SESSIONS_ALPHA * 0.999, True), (0.5, False)):
        assert judge.too_noisy(Shift(0.0, widest * 1.0001, flagged=False, p_alone=p_alone)) is noisy
        assert not judge.too_noisy(Shift(0.0, widest, flagged=False, p_alone=p_alone))


def test_rows_are_ordered_by_verdict_then_by_the_surest_shift_then_by_name() -> None:
    def row(case: str, verdict: Verdict, shift: Shift | None = None) -> ComparedCase:
        return ComparedCase(case, Judgement(verdict, ""), shift=shift)

    rows = [
        row("a", Verdict.SAME, Shift(0.02, 0.03, flagged=False)),
        row("b", Verdict.SAME, Shift(0.5, 0.03, flagged=False)),
        row("c", Verdict.SAME),
        row("d", Verdict.SLOWER, Shift(0.06, 0.03, flagged=True)),
        row("e", Verdict.SLOWER, Shift(0.09, 0.08, flagged=True)),
        row("f", Verdict.SAME),
        row("g", Verdict.SAME, Shift(0.02, 0.01, flagged=False)),
    ]
    assert [each.case for each in sorted(rows, key=judge.badness)] == ["d", "e", "b", "g", "c", "f", "a"]
