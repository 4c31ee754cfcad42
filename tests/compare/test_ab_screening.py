"""Which cases are screened further after a few pairs."""

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]  # SciPy ships no type information

from peakgate.compare.ab import decide
from peakgate.compare.ab.decide import estimates, suspects

LOG_TIME = np.zeros(24)


def pairs(shifts: dict[int, float], count: int = 4, noise: float = 0.0003) -> np.ndarray:
    """Log ratios of so many pairs of two dozen cases, some of them shifted."""
    found = np.random.default_rng(0).normal(0, noise, (len(LOG_TIME), count))
    for row, shift in shifts.items():
        found[row] += shift
    return found


def test_a_case_is_settled_where_its_shift_is_plain_or_ruled_out_and_it_is_no_suspect() -> None:
    """Of four pairs each, of shifts about the smallest that count."""
    rng = np.random.default_rng(1)
    screen = rng.normal(rng.uniform(-0.006, 0.006, (4000, 1)), rng.uniform(0.0002, 0.003, (4000, 1)), (4000, 4))
    screen[7, 1:] = np.nan  # without two pairs nothing is settled
    found = estimates(screen, np.zeros(4000))
    shift, error = found["log_ratio"].abs(), found["standard_error"]
    p = stats.t.sf(np.sign(found["log_ratio"]) * found["mean_log_ratio"] / error, found["df"])
    suspected = (shift > np.log1p(0.0015)) & (p < 0.2)
    assert (suspects(found) != 0).tolist() == suspected.tolist()
    ruled_out = shift + error * stats.t.isf(0.001, found["df"]) < np.log1p(0.005)
    plain = (shift > np.log1p(0.0025)) & (p < 1e-4)
    assert decide.unsettled(screen, np.zeros(4000)) == np.flatnonzero(~plain & (~ruled_out | suspected)).tolist()
    assert {*zip(plain, ruled_out, suspected, strict=True)} >= {
        *((True, False, True), (False, True, True), (False, True, False), (False, False, True), (False, False, False))
    }


def test_on_the_very_edge_a_case_is_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = pairs({3: 0.3})
    found = estimates(screen, LOG_TIME).iloc[3]
    for name, edge in (("PLAIN_P", decide.p_value(found, 1)), ("SMALLEST_PAIRS_SHIFT", found["log_ratio"])):
        with monkeypatch.context() as patched:
            patched.setattr(decide, name, edge)
            assert decide.unsettled(screen, LOG_TIME) == [3]
    still = estimates(screen, LOG_TIME).iloc[5]
    ruled_out_from = abs(still["log_ratio"]) + decide.half_width(still, decide.RULED_OUT_P)
    monkeypatch.setattr(decide, "TO_BE_FOUND", ruled_out_from)
    assert 5 in decide.unsettled(screen, LOG_TIME)


@pytest.mark.parametrize(
    ("case", "sentinel", "ends"),
    [
        ((1.01, 1.01), (0.0, 0.0), True),
        ((1.0, 1.01), (0.0, 0.0), False),
        ((-1.01, -1.01), (0.0, 0.0), True),
        ((-1.0, -1.01), (0.0, 0.0), False),
        ((1.01, -1.01), (0.0, 0.0), False),
        ((1.01, 1.01), (0.5, 0.5), False),
        ((1.01, 1.01), (-0.5, -0.5), False),
        ((1.01, 1.01), (0.45, 0.45), True),
        ((1.01, 30.0), (0.0, 0.0), False),  # no suspect, so far apart are the two
    ],
)
def test_a_case_moved_far_beyond_three_percent_in_both_pairs_and_a_sentinel_less_than_half_of_it(
    case: tuple[float, float], sentinel: tuple[float, float], *, ends: bool
) -> None:
    screen = np.log1p(0.03) * np.array([case, sentinel, sentinel])
    assert decide.all_gross(screen, np.zeros(3), [False, True, True]) is ends


@pytest.mark.parametrize(
    ("others", "sentinels", "ends"),
    [
        ((0.04, -0.3), (0.0, 0.0), True),
        ((0.04, 0.02), (0.0, 0.0), False),  # not all by that much
        ((0.04, 0.04), (0.04, 0.04), False),  # what all cases of these processes have in common
        ((0.04, 0.04), (0.0, 0.02), False),
        ((0.04, 0.04), (), False),
        ((), (0.0, 0.0), False),
    ],
)
def test_two_pairs_are_enough_where_all_cases_moved_far_and_the_sentinels_did_not(
    others: tuple[float, ...], sentinels: tuple[float, ...], *, ends: bool
) -> None:
    shifts = [*others, *sentinels]
    found = pairs(dict(enumerate(shifts)), count=2)[: len(shifts)]
    watched = [False] * len(others) + [True] * len(sentinels)
    assert decide.all_gross(found, LOG_TIME[: len(shifts)], watched) is ends


def test_a_case_without_two_pairs_keeps_two_pairs_from_being_enough() -> None:
    found = pairs({0: 0.1, 1: 0.1}, count=2)
    found[1, 0] = np.nan
    assert not decide.all_gross(found, LOG_TIME, [False, False] + [True] * 22)


def test_looks_come_before_the_last_planned_pair_only() -> None:
    assert [decide.next_look(done, 10) for done in (0, 4, 6)] == [4, 6, 10]
    assert [decide.next_look(done, 10, early=True) for done in (0, 2)] == [2, 4]
    assert [decide.next_look(0, planned) for planned in (2, 4, 5)] == [2, 4, 4]
