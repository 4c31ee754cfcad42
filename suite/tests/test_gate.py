from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peakgate.judge.gate import judge
from peakgate.judge.metrics import Bottleneck, Metrics
from peakgate.measure.sampling import Samples
from peakgate.run.remeasure import judge_again
from peakgate.verdict import Judgement, Verdict

SAMPLES = Samples((160.0,) * 40, (1980.0,) * 40, 0, "events")


def measured(peak_fraction: float, bound: Bottleneck = "memory") -> Metrics:
    return Metrics(160.0, 3000.0, 0.0, peak_fraction, bound, None, None)


@pytest.mark.parametrize("floor", [None, 0.7])
def test_more_than_the_peak_is_impossible_with_and_without_a_floor(floor: float | None) -> None:
    judgement = judge(SAMPLES, measured(554.82), floor)
    assert judgement.verdict is Verdict.IMPOSSIBLE
    assert "nothing exceeds the peak" in judgement.reason


def test_reasons_give_the_figure_the_floor_and_what_it_rests_on() -> None:
    no_clock = Samples((160.0,) * 3, (None,) * 3, 0, "events")
    assert judge(SAMPLES, measured(0.65432), 0.7).reason == "0.654 of peak, floor 0.7 (40 samples, 1980 MHz)"
    assert judge(no_clock, measured(0.65432), 0.7).reason == "0.654 of peak, floor 0.7 (3 samples)"
    assert judge(no_clock, measured(0.5), None).reason == "0.5 of peak, no floor set (3 samples)"
    assert judge(no_clock, measured(0.5, "link"), None).reason == "0.5 of peak, a transfer has no floor (3 samples)"
    assert judge(SAMPLES, replace(measured(0.5), peak_fraction=None), 0.7).reason == (
        "right; speed not judged, no peak is claimed on this device"
    )
    assert judge(SAMPLES, measured(2.0), None).reason == (
        "2 of peak, and nothing exceeds the peak: the case claims more bytes or floating-point operations than its "
        "launch needs; correct its work"
    )


def test_a_case_measured_again_gives_each_process_figure() -> None:
    assert judge_again([0.6, 0.71234, 0.9], 0.7) == Judgement(
        Verdict.PASS, "0.712 of peak, floor 0.7 (median of 3 processes: 0.6, 0.712, 0.9)"
    )
    assert judge_again([0.6, None, None], 0.7).reason == (
        "below its floor of 0.7 at first; only 1 of 3 processes could decide"
    )


@pytest.mark.parametrize("fraction", [0.6999, 0.69, 0.65, 0.64])
def test_a_fraction_that_is_below_its_floor_by_however_little_is_below_it(fraction: float) -> None:
    assert judge(SAMPLES, measured(fraction), 0.7).verdict is Verdict.BELOW_FLOOR
    assert judge(SAMPLES, measured(0.7), fraction).verdict is Verdict.PASS
    assert judge(SAMPLES, measured(0.7), 0.7).verdict is Verdict.PASS


def test_the_clock_may_account_for_two_percent_over_the_peak() -> None:
    assert judge(SAMPLES, measured(1.02), 0.7).verdict is Verdict.PASS
    assert judge(SAMPLES, measured(1.0201), 0.7).verdict is Verdict.IMPOSSIBLE


def test_a_transfer_passes_without_a_floor_and_is_judged_by_one_that_is_set() -> None:
    assert judge(SAMPLES, measured(0.2, "link"), None).verdict is Verdict.PASS
    assert judge(SAMPLES, measured(0.2, "link"), 0.5).verdict is Verdict.BELOW_FLOOR
    assert judge(SAMPLES, measured(0.2), None).verdict is Verdict.NO_FLOOR


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3), st.floats(0.01, 1.0))
def test_a_case_measured_again_is_below_its_floor_where_two_of_three_processes_are(
    fractions: list[float], floor: float
) -> None:
    below = sum(fraction < floor for fraction in fractions)
    expected = Verdict.BELOW_FLOOR if below >= 2 else Verdict.PASS
    assert judge_again(fractions, floor).verdict is expected


def test_two_processes_that_could_decide_are_too_few_to_pass_or_fail() -> None:
    judgement = judge_again([0.6, None, 0.9], 0.7)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "only 2 of 3 processes" in judgement.reason
