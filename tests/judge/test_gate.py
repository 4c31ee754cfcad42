from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.base.verdict import FAILING, OVER_PEAK, REGRESSIONS, UNDECIDED, Judgement, Verdict, exit_code
from peakgate.judge.floors import UNCHECKED, by_floor, judge, unchecked
from peakgate.judge.metrics import Bottleneck, Metrics
from peakgate.measure.sampling import Samples
from peakgate.run.journal import judge_again

SAMPLES = Samples((160.0,) * 40, (1980.0,) * 40, 0, "events")
POWER_BOUND = Samples((160.0,) * 40, (1590.0,) * 40, 0, "events", power_w=699.0, steady_below_mhz=1980.0)


def measured(peak_fraction: float, bound: Bottleneck = "memory") -> Metrics:
    return Metrics(160.0, 3000.0, 0.0, peak_fraction, bound, None, None)


@pytest.mark.parametrize("floor", [None, 0.7])
def test_more_than_the_peak_is_impossible_with_or_without_floor(floor: float | None) -> None:
    judgement = judge(SAMPLES, measured(554.82), floor)
    assert judgement.verdict is Verdict.IMPOSSIBLE


def test_the_reason_of_each_verdict(golden: Callable[[str, str], None]) -> None:
    no_clock = Samples((160.0,) * 3, (None,) * 3, 0, "events")
    found = [
        judge(Samples((160.0,) * 2, (None,) * 2, 9, "events"), None, 0.7),
        judge(SAMPLES, measured(0.65432), 0.7),
        judge(no_clock, measured(0.71), 0.7),
        judge(SAMPLES, measured(0.71), 0.7, "foreign process 5"),
        judge(no_clock, measured(0.5), None),
        judge(no_clock, measured(0.5, "link"), None),
        judge(SAMPLES, replace(measured(0.5), peak_fraction=None), 0.7),
        judge(SAMPLES, measured(2.0), None),
        judge(POWER_BOUND, measured(0.71), 0.7),
        judge(POWER_BOUND, replace(measured(0.5), peak_fraction=None), 0.7),
        judge_again([0.6, 0.71234, 0.9], 0.7),
        judge_again([0.6, 0.5, 0.9], 0.7),
        judge_again([0.6, None, None], 0.7),
    ]
    golden("verdicts.txt", "".join(f"{each.verdict}: {each.reason}\n" for each in found))


@pytest.mark.parametrize("verdict", Verdict)
def test_an_unchecked_result_never_passes_on_a_gpu(verdict: Verdict) -> None:
    found = unchecked(Judgement(verdict, "0.71 of peak"), on_gpu=True)
    assert found.verdict is (verdict if verdict in FAILING else Verdict.INCONCLUSIVE)
    assert found.reason == ("0.71 of peak" if verdict in FAILING else f"0.71 of peak{UNCHECKED}")


def test_an_unchecked_result_in_the_emulator_is_not_called_right() -> None:
    without_peak = replace(measured(0.5), peak_fraction=None)
    found = unchecked(judge(SAMPLES, without_peak, None), on_gpu=False)
    assert (found.verdict, "right" in found.reason) == (Verdict.NO_FLOOR, False)


@pytest.mark.parametrize("fraction", [0.6999, 0.69, 0.65, 0.64])
def test_a_fraction_that_is_barely_below_its_floor_is_below_it(fraction: float) -> None:
    assert judge(SAMPLES, measured(fraction), 0.7).verdict is Verdict.BELOW_FLOOR
    assert judge(SAMPLES, measured(0.7), fraction).verdict is Verdict.PASS
    assert judge(SAMPLES, measured(0.7), 0.7).verdict is Verdict.PASS


def test_a_repeated_launch_is_held_to_its_floor_by_its_flops() -> None:
    repeated = replace(SAMPLES, first_us=170.0)
    assert judge(repeated, measured(0.71, "compute"), 0.7).verdict is Verdict.PASS
    assert judge(repeated, measured(0.69, "compute"), 0.7).verdict is Verdict.BELOW_FLOOR


def test_the_clock_may_account_for_two_percent_over_the_peak() -> None:
    assert judge(SAMPLES, measured(1.02), 0.7).verdict is Verdict.PASS
    assert judge(SAMPLES, measured(1.0201), 0.7).verdict is Verdict.IMPOSSIBLE


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3), st.floats(0.01, 1.0))
def test_a_case_is_below_its_floor_in_two_of_three_processes(fractions: list[float], floor: float) -> None:
    below = sum(fraction < floor for fraction in fractions)
    expected = Verdict.BELOW_FLOOR if below >= 2 else Verdict.PASS
    assert judge_again(fractions, floor).verdict is expected


@pytest.mark.parametrize("fraction", [0.71, OVER_PEAK])
def test_doubt_decides_nothing_up_to_the_peak(fraction: float) -> None:
    assert judge(replace(SAMPLES, doubt="clocks differ"), measured(fraction), 0.7).verdict is Verdict.INCONCLUSIVE
    assert judge(SAMPLES, measured(fraction), 0.7, "foreign process 5").verdict is Verdict.INCONCLUSIVE
    assert judge(SAMPLES, measured(1.03), 0.7, "foreign process 5").verdict is Verdict.IMPOSSIBLE


def test_what_is_not_said_to_be_a_transfer_needs_a_floor() -> None:
    assert by_floor(0.5, None, "").verdict is Verdict.NO_FLOOR
    assert by_floor(0.5, None, "", transfer=True).verdict is Verdict.PASS


@pytest.mark.parametrize("strict", [False, True])
def test_the_exit_code_of_any_verdicts_is_that_of_the_worst(strict: bool) -> None:
    for verdicts in (set(each) for count in range(4) for each in combinations(Verdict, count)):
        open_ones = UNDECIDED | {Verdict.NO_FLOOR} if strict else UNDECIDED
        expected = 1 if verdicts & REGRESSIONS else 3 if verdicts & open_ones else 0
        assert exit_code(verdicts, strict=strict) == expected


def test_what_fails_is_what_has_another_exit_code_than_0() -> None:
    assert {verdict for verdict in Verdict if exit_code([verdict])} == FAILING
