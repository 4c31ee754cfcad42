"""A history of several GPUs: their sessions are one series, each about the level of its own GPU."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache

import numpy as np
import pytest
from comparing import KEPT, TENS
from hypothesis import given, settings
from hypothesis import strategies as st
from test_history_trend import CASE, history, quiet, session, slowed

from peakgate.base.verdict import Verdict
from peakgate.compare.history import series
from peakgate.compare.history.trend import Trend, find_trend
from peakgate.compare.noise import Floats
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import Run, load_run

A, B = "GPU-0001", "GPU-0002"
SLOWER_GPU = 0.04


def of_gpus(log_time: Floats, gpus: Sequence[str | None]) -> Trend:
    """What is found of these log times, in sessions of these GPUs."""
    return find_trend(history(log_time, [session(number, uuid=gpu) for number, gpu in enumerate(gpus)]))


def in_turns(sessions: int, first: str = A) -> list[str]:
    return list(itertools.islice(itertools.cycle((first, B if first == A else A)), sessions))


def on(log_time: Floats, gpus: Sequence[str | None], slow: str | None = B, by: float = SLOWER_GPU) -> Floats:
    """The same with every case slower on one of the GPUs."""
    return log_time + by * np.array([gpu == slow for gpu in gpus])


def verdicts(found: Trend) -> set[Verdict]:
    """Those of the cases and of the suite."""
    return set(found.counts) | ({found.together.verdict} if found.together else set())


@cache
def ten(pattern: str) -> list[Run]:
    return [load_run(path) for path in sorted(KEPT.glob(pattern))]


@pytest.mark.parametrize("order", [(*TENS[at:], *TENS[:at]) for at in range(len(TENS))])
def test_whichever_of_the_kept_gpus_comes_last_nothing_got_slower(order: Sequence[str]) -> None:
    sessions = [each for pattern in order for each in ten(pattern)]
    start = sessions[0].taken
    moved = [replace(each, taken=start + timedelta(days=day)) for day, each in enumerate(sessions)]
    found = find_trend(series.history(to_frame(moved)))
    assert found.history.gpus == len(TENS)
    assert verdicts(found) <= {Verdict.SAME, Verdict.INCONCLUSIVE}
    assert found.counts[Verdict.SAME] >= 180
    assert found.together is not None
    assert found.together.verdict is Verdict.SAME


@pytest.mark.parametrize("first", [A, B])
def test_two_runners_that_take_turns_have_no_step(first: str) -> None:
    gpus = in_turns(40, first)
    assert verdicts(of_gpus(on(quiet(), gpus), gpus)) == {Verdict.SAME}


@pytest.mark.parametrize("sessions", [39, 40])
def test_a_regression_is_found_whichever_runner_took_the_newest_session(sessions: int) -> None:
    gpus = in_turns(40)
    changed = on(quiet(), gpus)
    changed[7, 31:] += np.log1p(0.04)
    found = {each.case: each for each in of_gpus(changed[:, :sessions], gpus[:sessions]).findings}
    assert {case: each.verdict for case, each in found.items() if each.verdict is not Verdict.SAME} == {
        CASE: Verdict.SLOWER
    }
    assert (found[CASE].good, found[CASE].bad) == (30, 31)


@pytest.mark.parametrize("gpus", [2, 8, 20])
def test_a_pool_has_one_verdict_and_shows_a_step_of_five_percent_at_once(gpus: int) -> None:
    rng = np.random.default_rng(3)
    runners = [f"GPU-{number}" for number in rng.integers(0, gpus, 80)]
    log_time = quiet(sessions=80) / 2 + 0.02 * rng.standard_normal((30, gpus))[:, [int(each[4:]) for each in runners]]
    assert verdicts(of_gpus(log_time, runners)) == {Verdict.SAME}
    assert of_gpus(slowed(log_time, 7, 1, 0.05), runners).counts == {Verdict.UNCONFIRMED: 1, Verdict.SAME: 29}
    assert of_gpus(slowed(log_time, 7, 10, 0.02), runners).counts == {Verdict.SLOWER: 1, Verdict.SAME: 29}


@pytest.mark.parametrize("sessions", [1, 5, 9])
def test_a_fresh_gpu_after_a_long_history_makes_no_case_slower(sessions: int) -> None:
    gpus = [A] * 40 + [B] * sessions
    assert verdicts(of_gpus(on(quiet(sessions=40 + sessions), gpus), gpus)) == {Verdict.SAME}


def test_a_step_among_the_sessions_of_a_fresh_gpu_is_found() -> None:
    gpus = [A] * 40 + [B] * 10
    found = of_gpus(slowed(on(quiet(sessions=50), gpus), 7, 5, 0.05), gpus)
    assert [each.case for each in found.findings if each.verdict is Verdict.SLOWER] == [CASE]


def leases(*sessions: int) -> list[str]:
    """GPUs that measure so many sessions each, one after the other."""
    return [f"GPU-{number}" for number, count in enumerate(sessions) for _ in range(count)]


def unlike(gpus: Sequence[str], by: float = 0.005) -> Floats:
    """A quiet history on these GPUs, which differ in every case by an SD of ``by``."""
    offsets = by * np.random.default_rng(5).standard_normal((30, len(set(gpus))))
    return quiet(sessions=len(gpus)) / 2 + 4 + offsets[:, [int(each[4:]) for each in gpus]]


@pytest.mark.parametrize("before", [2, 3])
def test_a_step_on_a_gpu_that_came_a_few_sessions_ago_is_seen(before: int) -> None:
    gpus = leases(*[4] * 10, before + 1)
    assert of_gpus(slowed(unlike(gpus), 7, 1, 0.06), gpus).counts == {Verdict.UNCONFIRMED: 1, Verdict.SAME: 29}


@pytest.mark.parametrize("sessions", [1, 3, 7])
def test_a_gpu_that_never_measured_is_slower_only_by_more_than_gpus_differ_by(sessions: int) -> None:
    gpus = leases(*[4] * 10, sessions)
    assert verdicts(of_gpus(slowed(unlike(gpus), 7, sessions, 0.015), gpus)) == {Verdict.SAME}
    found = of_gpus(slowed(unlike(gpus), 7, sessions, 0.12), gpus)
    assert found.counts == {Verdict.UNCONFIRMED: 1, Verdict.SAME: 29}
    assert found.findings[0].case == CASE
    assert found.findings[0].change_percent == pytest.approx(12, abs=2)


def test_what_the_first_sessions_of_a_gpu_could_show_is_said() -> None:
    gpus = leases(*[4] * 10, 3)
    first, known = (
        of_gpus(unlike(each), each).frame.smallest_detectable_change_percent for each in (gpus, gpus[:-3] + gpus[:3])
    )
    assert first.min() > 2 * known.max()


def test_sessions_of_as_many_gpus_cannot_be_judged() -> None:
    gpus = [f"GPU-{number}" for number in range(20)]
    assert verdicts(of_gpus(quiet(sessions=20), gpus)) == {Verdict.INCONCLUSIVE}


@pytest.mark.parametrize("uuid", [A, None])
def test_a_history_of_one_gpu_names_none(uuid: str | None) -> None:
    found = of_gpus(slowed(quiet(), 7, 5, 0.03), [uuid] * 40)
    assert not any("GPU" in finding.reason for finding in found.findings)


@settings(max_examples=8)
@given(
    others=st.lists(st.integers(0, 4), min_size=40, max_size=40),
    unknown=st.booleans(),
    by=st.floats(-0.5, 0.5),
    seed=st.integers(0, 1000),
)
def test_no_step_is_looked_for_between_gpus_however_they_take_turns(
    others: Sequence[int], unknown: bool, by: float, seed: int
) -> None:
    """So many sessions of the other GPU, by so much slower in all cases, come before each one of the first."""
    gpus = [gpu for count in others for gpu in (*([None if unknown else B] * count), A)]
    log_time = quiet(seed, sessions=len(gpus))
    log_time[:, [gpu != A for gpu in gpus]] += by
    assert Verdict.SLOWER not in verdicts(of_gpus(log_time, gpus))


def test_two_cuts_around_all_sessions_of_a_gpu_are_told_apart_from_its_level() -> None:
    of_one, of_two, of_three, of_four = "GPU-0001", "GPU-0007", "GPU-0005", "GPU-0002"
    gpus = [of_one] * 2 + [of_two] * 4 + [of_three] * 6 + [of_two] * 3 + [of_four] + [of_one] * 5
    times_us = (
        *(704.449, 704.474, 705.181, 707.118, 728.546, 706.839, 735.295, 734.252, 734.779, 735.797, 735.54, 735.499),
        *(706.799, 706.777, 707.025, 720.824, 704.733, 704.126, 703.708, 704.749, 704.187),
    )
    assert of_gpus(np.log([times_us]), gpus).findings


@pytest.mark.parametrize("seed", range(4))
def test_two_odd_sessions_of_a_gpu_among_new_gpus_are_no_change(seed: int) -> None:
    gpus = [f"GPU-{number}" for number in "155551114447771111333321117777"]
    rng = np.random.default_rng(seed)
    log_time = np.linspace(1, 8, 30)[:, None] + 0.003 * rng.standard_normal((30, 30))
    log_time[7, [17, 23]] += 0.03
    assert not of_gpus(log_time, gpus).changes
