"""The figures that a comparison decides by, each against its formula written out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.base.verdict import Verdict
from peakgate.compare import evidence, judge, noise, result
from peakgate.compare.judge import SESSIONS_ALPHA, SMALLEST_SHIFT, SUITE_SINGLE_RUN, Rules
from peakgate.compare.noise import SessionNoise
from peakgate.compare.result import SuiteShift
from peakgate.runfile.frame import records

ONE_GPU = Rules(refusal=None, other_model=False, same_gpu=True)
SINGLE = noise.SINGLE_RUN_RESOLVABLE
TWO_MODELS = Rules(refusal=None, other_model=False, same_gpu=False)

RATIOS = (0.01, 0.012, 0.013, 0.014, 0.02, 0.021, 0.022, 0.03, 0.04, 0.05)
MEDIAN = 0.0205
SCATTER = 1.2533 * 1.4826 * 0.008
"""Of the median of ten: 1.2533 SDs, an SD being 1.4826 median absolute deviations."""


def suite(
    ratios: tuple[float, ...], spread: SessionNoise | None, rules: Rules = ONE_GPU, sessions: tuple[int, int] = (2, 3)
) -> SuiteShift:
    found = judge._suite(np.array(ratios), spread, rules, sum(1 / count for count in sessions))
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
    resolvable = error * float(stats.t.isf(SESSIONS_ALPHA, df))
    assert found.change_percent == pytest.approx(100 * math.expm1(MEDIAN))
    assert found.smallest_detectable_change_percent == pytest.approx(100 * math.expm1(resolvable), rel=1e-9)
    assert found.cases == 10


@pytest.mark.parametrize(
    ("spread", "rules", "least"),
    [
        (None, ONE_GPU, SUITE_SINGLE_RUN),
        (common(1e-12, 7.999), ONE_GPU, SUITE_SINGLE_RUN),
        (common(1e-12, 8.0), ONE_GPU, SMALLEST_SHIFT),
        (common(1e-12, 8.0), TWO_MODELS, noise.SINGLE_RUN_RESOLVABLE),
    ],
)
def test_no_smaller_shift_of_the_suite_is_flagged_than_is_known_of_sessions(
    spread: SessionNoise | None, rules: Rules, least: float
) -> None:
    same = suite((least,) * 10, spread, rules, (90, 90))
    assert same.verdict is Verdict.SAME
    assert same.reason == evidence.unmoved(same.change_percent, same.smallest_detectable_change_percent)
    slower = suite((least * 1.0001,) * 10, spread, rules, (90, 90))
    assert slower.smallest_detectable_change_percent == pytest.approx(100 * math.expm1(least))
    assert slower.verdict is Verdict.SLOWER
    assert suite((-least * 1.0001,) * 10, spread, rules, (90, 90)).verdict is Verdict.FASTER


def side(time_us: Sequence[float], sessions: int = 1, error: float = 0.0, *, library: bool = False) -> pd.DataFrame:
    """What a side measured of so many cases, as ``evidence.summarize`` gives it; ``error`` of each session."""
    times = np.array(time_us)
    figures = {"mean_us": times, "log_time": np.log(times), "sampling_error": error / math.sqrt(sessions)}
    return pd.DataFrame({**figures, "sessions": sessions, "library": library})


def shifted(ratios: Sequence[float]) -> tuple[pd.DataFrame, pd.DataFrame]:
    return side([100.0] * len(ratios)), side([100.0 * math.exp(ratio) for ratio in ratios])


def test_the_error_of_a_case_is_of_its_sessions_and_no_less_than_its_samples_allow() -> None:
    own, together = 4e-6, 5e-6
    spread = SessionNoise(np.array([own]), np.array([6.0]), together, 5.0)
    found = spread.standard_error(np.array([1 / 2 + 1 / 3]), np.zeros(1))
    assert found == pytest.approx(math.sqrt((own + together) * (1 / 2 + 1 / 3)))
    least = judge._sampling_variance(side([100.0], 2, 0.1), side([100.0], 3, 0.2))
    assert least == pytest.approx((2 * 0.1**2 + 3 * 0.2**2) / 5)
    found = spread.standard_error(np.array([1.0]), least)
    assert found == pytest.approx(np.sqrt(least + together))


def test_a_repeated_case_is_held_to_its_p_value_and_to_what_its_spread_resolves() -> None:
    ratios = (0.03, -0.004, 0.5, 0.0045)
    spread = SessionNoise(np.array([1e-5, 1e-9, np.nan, 1e-9]), np.array([8.0, 8.0, 0.0, 8.0]), 0.0, 4.0)
    found = judge._shifts(*shifted(ratios), spread, np.array([8.0, 7.0, 0.0, 7.0]), ONE_GPU)
    errors = [math.sqrt(2e-5), math.sqrt(2e-9), math.nan, math.sqrt(2e-9)]
    single, odd = noise.SINGLE_RUN_RESOLVABLE, noise.ODD_SESSION
    beyond = [math.sqrt(max(ratio**2 - odd**2, 0)) for ratio in ratios]
    alone = [float(stats.t.sf(each / error, 8.0)) for each, error in zip(beyond, errors, strict=True)]
    adjusted = noise.holm(np.array([alone[0], alone[1], alone[3]]))
    assert found["p_alone"].to_list() == pytest.approx(alone, nan_ok=True)
    assert found["p_value"].dropna().to_list() == pytest.approx(adjusted.tolist())
    assert found["p_value"].isna().to_list() == [False, False, True, False]
    quantile = float(stats.t.isf(0.01 / 3, 8.0))
    least = [math.hypot(odd, error * quantile) for error in errors]
    assert found["resolvable"].to_list() == pytest.approx([least[0], least[1], single, least[3]])
    assert found["flagged"].to_list() == [True, False, True, False]


@pytest.mark.parametrize(
    ("df", "sessions", "rules", "least"),
    [
        (7.0, 1, ONE_GPU, noise.ODD_SESSION),
        (6.0, 1, ONE_GPU, SINGLE),
        (4.0, 2, ONE_GPU, noise.ODD_SESSION / 2),
        (4.0, 5, ONE_GPU, SMALLEST_SHIFT),
        (3.0, 2, ONE_GPU, SINGLE / math.sqrt(2)),
        (9.0, 1, TWO_MODELS, SINGLE),
    ],
)
def test_few_degrees_of_freedom_or_several_gpus_need_the_rule_of_single_runs_as_well(
    df: float, sessions: int, rules: Rules, least: float
) -> None:
    spread = SessionNoise(np.array([1e-12]), np.array([9.0]), 0.0, 4.0)
    for factor, flagged in ((0.999, False), (1.001, True)):
        sides = side([100.0], sessions), side([100.0 * math.exp(factor * least)], sessions)
        (shift,) = records(judge._shifts(*sides, spread, np.array([df]), rules))
        assert shift.flagged == flagged
        assert shift.p_value is not None
        assert shift.resolvable == pytest.approx(least, rel=1e-5)


def test_a_p_value_of_exactly_alpha_or_a_shift_of_exactly_the_smallest_is_not_flagged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def judged(spread: SessionNoise | None, df: float = 9.0) -> tuple[bool, float, float]:
        (found,) = records(judge._shifts(side([100.0]), side([103.0]), spread, np.array([df]), ONE_GPU))
        return bool(found.flagged), found.p_value, found.log_ratio

    spread = SessionNoise(np.array([1e-5]), np.array([9.0]), 0.0, 4.0)
    flagged, p_value, log_ratio = judged(spread)
    assert flagged
    monkeypatch.setattr(judge, "SESSIONS_ALPHA", p_value)
    assert not judged(spread)[0]
    monkeypatch.undo()
    monkeypatch.setattr(judge, "SMALLEST_SHIFT", log_ratio)
    assert not judged(spread)[0]
    monkeypatch.setattr(noise, "fixed_resolvable", lambda *_, **__: np.array([log_ratio]))
    assert not judged(None, 0.0)[0]


def test_one_run_against_one_is_held_to_the_shorter_time_and_the_samples_of_both() -> None:
    def resolvable(base: pd.DataFrame, new: pd.DataFrame) -> float:
        return float(judge._shifts(base, new, None, np.zeros(1), ONE_GPU)["resolvable"].item())

    assert (
        resolvable(side([30.0]), side([6.0]))
        == resolvable(side([6.0]), side([30.0]))
        == pytest.approx(math.log1p(0.13))
    )
    noisy = side([100.0], error=0.03)
    assert resolvable(noisy, noisy) == pytest.approx(4 * math.hypot(0.03, 0.03))
    narrowed = math.log1p(0.035) * math.sqrt((1 + 1 / 3) / 2)
    assert resolvable(side([100.0]), side([100.0], 3)) == pytest.approx(narrowed)
    assert resolvable(side([100.0], 3), side([100.0])) == pytest.approx(narrowed)
    for short in (side([12.0], library=True), side([12.0])):
        call = side([100.0], library=not short["library"].item())
        assert resolvable(short, call) == resolvable(call, short) == pytest.approx(math.log1p(0.15))


@pytest.mark.parametrize(
    ("log_ratio", "resolvable", "between", "flagged", "noisy"),
    [
        (5.0, 3.0, 4.0, False, True),  # exactly what they may differ by
        (-5.001, 3.0, 4.0, True, True),
        (0.02, 0.03, 0.0, True, False),  # by Holm, which is less strict than the smallest detectable change
        (0.05, 0.0, math.log1p(0.15), False, False),
        (0.05, 0.0, math.log1p(0.151), False, True),
        (0.05, math.log1p(0.16), 0.0, True, False),
    ],
)
def test_gpus_may_differ_by_what_is_not_flagged_and_over_15_percent_of_it_is_too_noisy(
    log_ratio: float, resolvable: float, between: float, *, flagged: bool, noisy: bool
) -> None:
    of_one = pd.DataFrame({"log_ratio": [log_ratio], "resolvable": resolvable, "flagged": True, "noisy": False})
    (found,) = records(judge._across_gpus(of_one, np.array([between]), of_host=False))
    assert found.resolvable == pytest.approx(math.hypot(resolvable, between))
    assert (found.flagged, found.noisy) == (flagged, noisy)
    calm_before = of_one.assign(flagged=False, noisy=True)
    (calm,) = records(judge._across_gpus(calm_before, np.array([between]), of_host=False))
    assert (calm.flagged, calm.noisy) == (False, True)


@pytest.mark.parametrize(("of_host", "widest"), [(False, math.log1p(0.15)), (True, math.log1p(0.6))])
def test_no_case_is_same_whose_smallest_detectable_change_is_too_wide(widest: float, *, of_host: bool) -> None:
    found = judge._too_wide(np.array([widest * 1.0001, widest]), of_host=of_host)
    assert found.tolist() == [True, False]


def test_rows_are_ordered_by_verdict_then_by_the_surest_shift_then_by_name() -> None:
    rows = pd.DataFrame(
        [
            ("a", "SAME", 2.0, 3.0),
            ("b", "SAME", 50.0, 3.0),
            ("c", "SAME", None, None),
            ("d", "SLOWER", 6.0, 3.0),
            ("e", "SLOWER", 9.0, 8.0),
            ("f", "SAME", None, None),
            ("g", "SAME", 2.0, 1.0),
        ],
        columns=["case", "verdict", "change_percent", "smallest_detectable_change_percent"],
    ).set_index("case")
    rows = rows.reindex(columns=[*rows, "reason", "low_percent", "high_percent", "p_value"])
    side = pd.DataFrame(index=rows.index, columns=list(result.MEASURED)).assign(sessions=0)
    found = result.side_by_side(side, side, rows, suite=None, differences=(), notes=())
    assert found["case"].to_list() == ["d", "e", "b", "g", "c", "f", "a"]


def test_shifts_of_log_times_are_shown_in_percent() -> None:
    shifts = pd.DataFrame(
        {"log_ratio": [0.02], "low": [0.01], "high": [0.03], "resolvable": [0.01], "p_value": math.nan}
    )
    (found,) = result.in_percent(shifts).to_numpy()
    assert found == pytest.approx(
        [100 * math.expm1(each) for each in (0.02, 0.01, 0.03, 0.01)] + [math.nan], nan_ok=True
    )
