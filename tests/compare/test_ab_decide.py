from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peakgate.compare.ab.decide import CaseStatus, decide, estimates, hodges_lehmann, moved_together, p_value
from peakgate.compare.ab.schedule import PAIRS_ALPHA, looks
from peakgate.compare.noise import Floats
from peakgate.compare.result import LEAST_P
from peakgate.runfile.frame import records

CASES = 30
LOOKS = looks(20)
LOG_TIME = np.log(np.geomspace(5.0, 2000.0, CASES))
SEEDS = st.integers(0, 10_000)
some_experiments = settings(max_examples=8)


def experiment(seed: int, shifts: dict[int, float] | None = None, noise: float = 0.002) -> tuple[Floats, Floats]:
    """Screening and confirming pairs of thirty cases; ``shifts`` are ln(head / base) of some."""
    rng = np.random.default_rng(seed)
    screen, confirm = rng.normal(0, noise, (CASES, 10)), rng.normal(0, noise, (CASES, LOOKS[-1].pairs))
    for case, shift in (shifts or {}).items():
        screen[case] += shift
        confirm[case] += shift
    return screen, confirm


def decided(screen: Floats, confirm: Floats, log_time: Floats = LOG_TIME) -> list[SimpleNamespace]:
    return records(decide(screen, confirm, log_time, LOOKS, [True] * len(screen)))


def outcome(decision: SimpleNamespace) -> tuple[str, int]:
    return decision.status, decision.direction


@some_experiments
@given(SEEDS)
def test_swapping_the_sides_flips_every_verdict(seed: int) -> None:
    screen, confirm = experiment(seed, {3: 0.02, 7: -0.03, 12: 0.006})
    forward, backward = decided(screen, confirm), decided(-screen, -confirm)
    for one, other in zip(forward, backward, strict=True):
        assert (other.status, other.direction) == (one.status, -one.direction)
        assert other.log_ratio == pytest.approx(-one.log_ratio)
        assert (other.p_value or 0.0) == pytest.approx(one.p_value or 0.0)


@some_experiments
@given(SEEDS, st.floats(0.01, 100.0))
def test_a_clock_in_other_units_changes_nothing(seed: int, factor: float) -> None:
    screen, confirm = experiment(seed, {3: 0.02})
    for one, other in zip(decided(screen, confirm), decided(screen, confirm, LOG_TIME + math.log(factor)), strict=True):
        assert outcome(one) == outcome(other)
        assert (other.p_value or 0.0) == pytest.approx(one.p_value or 0.0, rel=1e-6, abs=1e-12)


@some_experiments
@given(SEEDS, st.randoms(use_true_random=False))
def test_the_order_of_the_cases_changes_nothing(seed: int, random: object) -> None:
    screen, confirm = experiment(seed, {3: 0.02, 7: -0.03})
    shuffled = np.random.default_rng(seed + 1).permutation(CASES)
    straight = decided(screen, confirm)
    mixed = decided(screen[shuffled], confirm[shuffled], LOG_TIME[shuffled])
    assert [outcome(decision) for decision in mixed] == [outcome(straight[case]) for case in shuffled]


@given(SEEDS, st.floats(1.0, 20.0))
def test_more_noise_about_the_same_shift_never_makes_it_surer(seed: int, factor: float) -> None:
    pairs, _ = experiment(seed, dict.fromkeys(range(CASES), 0.01))
    mean = pairs.mean(axis=1, keepdims=True)
    quiet, loud = estimates(pairs, LOG_TIME), estimates(mean + factor * (pairs - mean), LOG_TIME)
    direction = np.where(quiet["mean_log_ratio"] > 0, 1, -1)
    assert (p_value(loud, direction) >= p_value(quiet, direction) * (1 - 1e-6)).all()


@some_experiments
@given(SEEDS, st.floats(1.0, 20.0), st.floats(0.0, 0.03))
def test_a_suspect_that_is_not_flagged_is_not_flagged_with_more_noise_about_the_same_shift(
    seed: int, factor: float, shift: float
) -> None:
    """Deviations come in mirrored pairs, so that every look sees the same shift, and only the noise differs."""
    screen, _ = experiment(seed, {5: 0.02})
    half = np.random.default_rng(seed + 1).normal(0, 0.003, LOOKS[-1].pairs // 2)
    deviations = np.stack((half, -half), axis=1).ravel()
    confirm = np.full((CASES, LOOKS[-1].pairs), np.nan)
    quiet, loud = confirm.copy(), confirm
    quiet[5], loud[5] = shift + deviations, shift + factor * deviations
    judged = [case == 5 for case in range(CASES)]
    calm, wild = (records(decide(screen, each, LOG_TIME, LOOKS, judged))[5] for each in (quiet, loud))
    assert calm.direction == wild.direction == 1
    if calm.status != CaseStatus.FLAGGED:
        assert wild.status != CaseStatus.FLAGGED
    if calm.pairs == wild.pairs:
        assert max(wild.p_value or 0.0, LEAST_P) >= (calm.p_value or 0.0) * (1 - 1e-6)


def test_a_large_shift_is_flagged_at_the_first_look_and_not_measured_on() -> None:
    screen, confirm = experiment(1, {5: 0.5})
    confirm[5, LOOKS[0].pairs :] = np.nan
    found = decided(screen, confirm)[5]
    assert outcome(found) == (CaseStatus.FLAGGED, 1)
    assert found.pairs == LOOKS[0].pairs
    assert found.p_value is not None
    assert found.p_value < PAIRS_ALPHA


def test_a_suspect_whose_fresh_pairs_say_nothing_is_cleared() -> None:
    screen, confirm = experiment(2)
    screen[5] += 0.02
    assert outcome(decided(screen, confirm)[5]) == (CaseStatus.CLEARED, 1)


def test_a_slowdown_whose_first_fresh_pairs_come_out_low_is_measured_further_and_found() -> None:
    screen, confirm = experiment(2)
    screen[5] += 0.006
    confirm[5] = np.tile([0.002, -0.002], LOOKS[-1].pairs // 2) + 0.007
    confirm[5, : LOOKS[0].pairs] -= 0.0048
    assert decided(screen, confirm[:, : LOOKS[0].pairs])[5].status == CaseStatus.OPEN
    found = decided(screen, confirm)[5]
    assert (found.status, found.pairs) == (CaseStatus.FLAGGED, LOOKS[1].pairs)


def test_a_case_that_scattered_while_it_was_screened_is_not_flagged_on_four_pairs_that_happen_to_agree() -> None:
    screen, confirm = experiment(2)
    agreeing = np.full(LOOKS[-1].pairs, 0.02) + np.tile([1e-4, -1e-4], LOOKS[-1].pairs // 2)
    screen[5], confirm[5] = 0.02, agreeing
    assert decided(screen, confirm[:, :4])[5].status == CaseStatus.FLAGGED
    screen[5] += np.tile([0.05, -0.05], 5)
    assert decided(screen, confirm[:, :4])[5].status == CaseStatus.OPEN


def test_a_suspect_whose_fresh_pairs_say_the_opposite_is_not_flagged() -> None:
    screen, confirm = experiment(2)
    screen[5] += 0.02
    confirm[5] -= 0.02
    assert decided(screen, confirm)[5].status == CaseStatus.CLEARED


def test_suspects_without_their_pairs_are_open() -> None:
    screen, confirm = experiment(4, {5: 0.02})
    found = decided(screen, confirm[:, :3])[5]
    assert outcome(found) == (CaseStatus.OPEN, 1)
    assert found.p_value is None


def test_a_suspect_that_leans_after_the_last_pair_stays_open() -> None:
    """Its p is small, but not for one among eleven suspects."""
    screen, confirm = experiment(5)
    screen[5:16] += 0.02
    confirm[5] = np.repeat([0.012, 0.005], LOOKS[-1].pairs // 2) + np.tile([0.021, -0.021], LOOKS[-1].pairs // 2)
    assert decided(screen, confirm)[5].status == CaseStatus.OPEN


def test_a_case_that_is_not_judged_is_never_suspected() -> None:
    screen, confirm = experiment(6, {5: 0.5})
    found = records(decide(screen, confirm, LOG_TIME, LOOKS, [case != 5 for case in range(CASES)]))
    assert outcome(found[5]) == (CaseStatus.CLEARED, 0)


def test_a_case_timed_in_fewer_than_two_pairs_has_no_decision() -> None:
    screen, confirm = experiment(7)
    screen[5, 1:] = np.nan
    screen[6, 2:] = np.nan
    found = decided(screen, confirm)
    assert (found[5].status, found[5].pairs, found[5].log_ratio) == ("", 1, None)
    assert (found[6].status, found[6].pairs) == (CaseStatus.CLEARED, 2)


def test_a_lone_case_is_decided_without_others_to_learn_noise_from() -> None:
    screen, confirm = experiment(8, {0: 0.05})
    found = decided(screen[:1], confirm[:1], LOG_TIME[:1])
    assert outcome(found[0]) == (CaseStatus.FLAGGED, 1)


def test_identical_times_are_no_shift_and_no_error() -> None:
    found = decided(np.zeros((CASES, 10)), np.zeros((CASES, 4)))
    assert {outcome(decision) for decision in found} == {(CaseStatus.CLEARED, 0)}


def test_when_everything_slows_every_case_is_flagged_and_nothing_is_subtracted() -> None:
    screen, confirm = experiment(9, dict.fromkeys(range(CASES), 0.03))
    assert {outcome(decision) for decision in decided(screen, confirm)} == {(CaseStatus.FLAGGED, 1)}
    together = moved_together(screen)
    assert together is not None
    assert together.moved
    assert together.estimate.log_ratio == pytest.approx(0.03, abs=0.002)


def test_one_odd_case_does_not_move_the_suite() -> None:
    screen, _ = experiment(10, {5: 0.5})
    together = moved_together(screen)
    assert together is not None
    assert not together.moved


def test_only_pairs_that_measured_nine_in_ten_cases_say_whether_all_moved() -> None:
    pairs = np.tile([0.001, 0.002, 0.003, 0.5], (10, 1))
    pairs[0, 2], pairs[:7, 3] = np.nan, np.nan
    found = moved_together(pairs)
    assert found is not None
    assert found.estimate.pairs == 3
    assert found.estimate.log_ratio == pytest.approx(0.002)


def test_one_wild_pair_hardly_moves_the_estimate() -> None:
    values = np.array([0.010, 0.011, 0.009, 0.010, 0.012, 0.008, 0.010, 0.900])
    assert hodges_lehmann(values) == pytest.approx(0.010, abs=0.002)


def test_pairs_that_only_tell_of_noise_count_by_their_degrees_of_freedom() -> None:
    own, other = np.array([[0.0, 0.02]]), np.array([[0.0, 0.01, 0.02, 0.03]])
    (found,) = records(estimates(own, np.array([5.0]), other_pairs=other))
    squares = np.var(own) * own.size + np.var(other) * other.size
    assert found.standard_error == pytest.approx(math.sqrt(squares / 4 / 2))
