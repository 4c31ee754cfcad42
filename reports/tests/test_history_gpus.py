"""A history of several GPUs: a case is judged on the one that measured it last."""

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
from peakgate.core.verdict import Verdict
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.history import series
from peakgate.reports.history.trend import FEWEST_TO_JUDGE, Trend, find_trend
from peakgate.reports.runs.frame import to_frame
from peakgate.reports.runs.runfile import Run, load_run
from test_history_trend import CASE, history, quiet, session, slowed

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


@pytest.mark.parametrize(("sessions", "verdict"), [(40, Verdict.SLOWER), (39, Verdict.SAME)])
def test_a_regression_on_one_of_two_runners_is_found_when_its_session_is_the_newest(
    sessions: int, verdict: Verdict
) -> None:
    gpus = in_turns(40)
    changed = on(quiet(), gpus)
    changed[7, 31::2] += np.log1p(0.04)
    found = {each.case: each for each in of_gpus(changed[:, :sessions], gpus[:sessions]).findings}
    assert {case for case, each in found.items() if each.verdict is not Verdict.SAME} <= {CASE}
    finding = found[CASE]
    assert finding.verdict is verdict
    assert "GPU-0002" in finding.reason if sessions == 40 else "GPU-0001" in finding.reason
    if verdict is Verdict.SLOWER:
        assert (finding.good, finding.bad) == (29, 31)


@pytest.mark.parametrize("sessions", [1, 5, FEWEST_TO_JUDGE - 1])
def test_a_fresh_gpu_after_a_long_history_is_not_slower_but_undecided(sessions: int) -> None:
    gpus = [A] * 40 + [B] * sessions
    found = of_gpus(on(quiet(sessions=40 + sessions), gpus), gpus)
    assert verdicts(found) == {Verdict.INCONCLUSIVE}
    assert found.together is None


def test_a_fresh_gpu_is_judged_from_ten_sessions() -> None:
    gpus = [A] * 40 + [B] * FEWEST_TO_JUDGE
    found = of_gpus(slowed(on(quiet(sessions=40 + FEWEST_TO_JUDGE), gpus), 7, 5, 0.05), gpus)
    assert [each.case for each in found.findings if each.verdict is Verdict.SLOWER] == [CASE]
    assert len(found.findings[0].recent_us) == FEWEST_TO_JUDGE


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
