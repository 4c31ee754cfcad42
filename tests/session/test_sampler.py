"""Which timed launches are compared: a uniform choice of all, whose number is known at the end alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peakgate.judge.correctness import Deviation
from peakgate.session.outcome import WrongResult
from peakgate.session.prover import LEAST_COMPARED, LEAST_LONG_COMPARED, TimedChecks
from peakgate.spec.case import Case, Launch, Stage, Work

CASE = Case("f", Stage("s", "", Path("s.cu")), Launch((1, 1, 1), (1, 1, 1)), (), Work(0), reference=lambda *_: ())


def checks_of(*, once=False, compare=lambda _: Deviation(0.0, 0.0, None), seed=1):
    steps = SimpleNamespace(expect=lambda *_: None)
    return TimedChecks(steps, CASE, None, compare, np.random.default_rng(seed), once=once)


def sampled(checks, batches, launch_us, *, wrong_from=10**9, room=None):
    """Sample at least so many batches of six; the numbers of the compared launches."""
    seen = []

    def launch(number):
        seen.append(number)
        return SimpleNamespace(where=f"launch {number}", wrong=number >= wrong_from)

    batch = 0
    while batch < batches or checks.owed(launch_us):
        known_us = launch_us if batch else None
        for at, place in checks.chosen(6, known_us, lambda: room).items():
            checks.kept[place] = lambda number=6 * batch + at: launch(number)
        if room is not None:
            assert len(checks.kept) <= room
        checks.make_room(launch_us)
        batch += 1
    checks.check_kept(launch_us)
    assert not checks.kept
    return seen


@given(
    st.sampled_from([5.0, 500.0, 2_000.0, 10_000.0]),
    st.integers(1, 60),
    st.one_of(st.none(), st.integers(1, 12)),
    st.integers(0, 2**32 - 1),
)
def test_eight_launches_of_a_case_are_compared(launch_us, batches, room, seed):
    checks = checks_of(seed=seed)
    seen = sampled(checks, batches, launch_us, room=room)
    assert len(set(seen)) == len(seen) == checks.proof.timed
    assert checks.proof.timed >= LEAST_COMPARED
    if room is None:
        assert checks.proof.timed == LEAST_COMPARED


@pytest.mark.parametrize("batches", [4, 40])
def test_each_launch_is_compared_equally_often(batches):
    runs = 600
    found = Counter(number for seed in range(runs) for number in sampled(checks_of(seed=seed), batches, 20.0))
    expected = LEAST_COMPARED * runs / (6 * batches)
    groups = [sum(found[number] for number in range(first, first + 24)) / 24 for first in range(0, 6 * batches, 24)]
    assert groups == pytest.approx([expected] * len(groups), rel=0.25)


@pytest.mark.parametrize("late", [30, 60, 120])
def test_a_kernel_that_is_wrong_from_some_launch_on_is_found(late):
    """Half of its samples and more are wrong; eight comparisons miss that in one of 256 runs."""

    def compare(launch):
        return Deviation(0.0, 0.0, "element 1 is wrong" if launch.wrong else None)

    missed = 0
    for seed in range(200):
        try:
            sampled(checks_of(compare=compare, seed=seed), 40, 20.0, wrong_from=late)
            missed += 1
        except WrongResult:
            pass
    assert missed <= 6


def test_where_memory_holds_few_copies_the_last_launches_are_compared_too():
    late = [max(sampled(checks_of(seed=seed), 40, 20.0, room=2)) for seed in range(40)]
    assert np.median(late) > 100


def test_a_launch_over_ten_milliseconds_owes_two():
    assert checks_of().owed(10_001.0) == LEAST_LONG_COMPARED
    assert len(sampled(checks_of(), 1, 20_000.0)) == LEAST_LONG_COMPARED


def test_a_run_that_another_one_proves_compares_one_launch():
    assert len(sampled(checks_of(once=True), 16, 20.0)) == 1


def test_without_a_reference_no_launch_is_compared():
    checks = checks_of(compare=None)
    assert sampled(checks, 16, 20.0) == []
    assert checks.owed(10.0) == 0
