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
from hypothesis import given
from hypothesis import strategies as st
from peakgate.common.text import counted
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.history import series
from peakgate.reports.history.detect import CaseFinding, detect, detect_together
from peakgate.reports.history.series import History
from peakgate.reports.runs.sessions import SavedSession, read_session
from peakgate.verdict import Verdict
from test_history_detect import CASES, NEEDED, history, quiet, session, slowed

A, B = "GPU-0001", "GPU-0002"
SLOWER_GPU = 0.04


def of_gpus(log_time: Floats, gpus: Sequence[str | None]) -> History:
    """These log times, in sessions of these GPUs."""
    return history(log_time, [session(number, uuid=gpu) for number, gpu in enumerate(gpus)])


def in_turns(sessions: int, first: str = A) -> list[str]:
    return list(itertools.islice(itertools.cycle((first, B if first == A else A)), sessions))


def on(log_time: Floats, gpus: Sequence[str | None], slow: str | None = B, by: float = SLOWER_GPU) -> Floats:
    """The same with every case slower on one of the GPUs."""
    return log_time + by * np.array([gpu == slow for gpu in gpus])


def verdicts(findings: Sequence[CaseFinding]) -> set[Verdict]:
    return {finding.verdict for finding in findings}


@cache
def ten(pattern: str) -> tuple[SavedSession, ...]:
    found = [read_session(path) for path in sorted(KEPT.glob(pattern))]
    return tuple(each for each in found if isinstance(each, SavedSession))


@pytest.mark.parametrize("order", list(itertools.permutations(TENS)))
def test_whichever_of_the_kept_gpus_comes_last_nothing_got_slower(order: Sequence[str]) -> None:
    """Put a day apart in this order, the last one again as an eleventh of its GPU: with ten it is not judged."""
    sessions = [each for pattern in order for each in ten(pattern)]
    sessions.append(sessions[-1])
    start = sessions[0].taken
    found = series.history([replace(each, taken=start + timedelta(days=day)) for day, each in enumerate(sessions)])
    findings = detect(found)
    assert found.gpus == len(TENS)
    assert verdicts(findings) <= {Verdict.SAME, Verdict.INCONCLUSIVE}
    assert sum(finding.verdict is Verdict.SAME for finding in findings) >= 180
    together = detect_together(found)
    assert together is not None
    assert together.verdict is Verdict.SAME


@pytest.mark.parametrize("first", [A, B])
def test_two_runners_that_take_turns_call_nothing(first: str) -> None:
    gpus = in_turns(40, first)
    found = of_gpus(on(quiet(), gpus), gpus)
    together = detect_together(found)
    assert together is not None
    assert verdicts([*detect(found), together]) == {Verdict.SAME}


@pytest.mark.parametrize(("sessions", "verdict"), [(40, Verdict.SLOWER), (39, Verdict.SAME)])
def test_a_regression_on_one_of_two_runners_is_found_when_its_session_is_the_newest(
    sessions: int, verdict: Verdict
) -> None:
    gpus = in_turns(40)
    changed = on(quiet(), gpus)
    changed[7, 31::2] += np.log1p(0.03)
    found = {each.case: each for each in detect(of_gpus(changed[:, :sessions], gpus[:sessions]))}
    assert verdicts([each for case, each in found.items() if case != "a.stage007"]) == {Verdict.SAME}
    finding = found["a.stage007"]
    assert finding.verdict is verdict
    if finding.step is None:
        return
    assert "in the last 5 sessions of GPU-0002 than in 15 before" in finding.judgement.reason
    assert (finding.step.before.path, finding.step.after.path, finding.step.between) == ("0029.json", "0031.json", 0)
    assert not any("GPU" in fact for fact in finding.step.facts)


@pytest.mark.parametrize("sessions", [1, 5, 10])
def test_a_fresh_gpu_after_a_long_history_is_not_slower_but_undecided(sessions: int) -> None:
    gpus = [A] * 40 + [B] * sessions
    found = of_gpus(on(quiet(sessions=40 + sessions), gpus), gpus)
    assert {(each.verdict, each.judgement.reason) for each in detect(found)} == {
        (Verdict.INCONCLUSIVE, NEEDED.format(f"{counted(sessions, 'session')} of GPU-0002"))
    }
    assert detect_together(found) is None


def test_a_fresh_gpu_is_judged_from_eleven_sessions() -> None:
    gpus = [A] * 40 + [B] * 11
    found = of_gpus(slowed(on(quiet(sessions=51), gpus), 7, 5, 0.05), gpus)
    slower = [each.case for each in detect(found) if each.verdict is Verdict.SLOWER]
    assert slower == ["a.stage007"]
    assert len(detect(found)[0].recent_us) == 11


def test_cases_that_only_another_gpu_has_measured_enough_are_undecided_and_not_new() -> None:
    """One case is new to the whole history; another was last measured on the first GPU, and is judged there."""
    gpus = [A] * 40 + [B] * 3
    log_time = on(quiet(sessions=43), gpus)
    log_time[3, :38] = np.nan
    log_time[4, 40:] = np.nan
    found = {each.case: each for each in detect(of_gpus(log_time, gpus))}
    assert found["a.stage003"].verdict is Verdict.NEW
    assert found["a.stage003"].judgement.reason == NEEDED.format("3 sessions of GPU-0002")
    assert found["a.stage004"].verdict is Verdict.SAME
    assert "5 sessions of GPU-0001 against 30" in found["a.stage004"].judgement.reason
    others = [each for case, each in found.items() if case not in {"a.stage003", "a.stage004"}]
    assert verdicts(others) == {Verdict.INCONCLUSIVE}


def test_sessions_of_an_unknown_gpu_are_of_a_gpu_of_their_own() -> None:
    gpus = [None if gpu == B else gpu for gpu in in_turns(40)]
    findings = detect(of_gpus(on(quiet(), gpus, slow=None), gpus))
    assert verdicts(findings) == {Verdict.SAME}
    assert all("5 sessions of an unknown GPU against 15" in each.judgement.reason for each in findings)


def test_the_suite_is_judged_on_the_gpu_of_the_newest_whole_session() -> None:
    gpus = [A] * 40 + [B]
    sessions = [session(number, uuid=gpu, whole=gpu == A) for number, gpu in enumerate(gpus)]
    together = detect_together(history(on(quiet(sessions=41), gpus), sessions))
    assert together is not None
    assert "5 sessions of GPU-0001 against 30" in together.judgement.reason


@pytest.mark.parametrize("uuid", [A, None])
def test_a_history_of_one_gpu_names_none(uuid: str | None) -> None:
    findings = detect(of_gpus(slowed(quiet(), 7, 5, 0.03), [uuid] * 40))
    assert not any("GPU" in finding.judgement.reason for finding in findings)


@given(
    others=st.lists(st.integers(0, 4), min_size=40, max_size=40),
    unknown=st.booleans(),
    by=st.floats(-0.5, 0.5),
    seed=st.integers(0, 1000),
)
def test_sessions_of_another_gpu_in_between_change_nothing_that_is_found(
    others: Sequence[int], unknown: bool, by: float, seed: int
) -> None:
    """So many sessions of the other GPU come before each one of the GPU that is judged."""
    gpus = [gpu for count in others for gpu in (*([None if unknown else B] * count), A)]
    own = np.flatnonzero([gpu == A for gpu in gpus])
    log_time = np.random.default_rng(seed).uniform(0, 9, (CASES, len(gpus)))
    log_time[:, own] = slowed(quiet(seed), 7, 6, by)
    sessions = [session(number, uuid=gpu) for number, gpu in enumerate(gpus)]
    mixed, alone = history(log_time, sessions), history(log_time[:, own], [sessions[index] for index in own])
    for there, here in zip(
        (*detect(mixed), detect_together(mixed)), (*detect(alone), detect_together(alone)), strict=True
    ):
        assert there is not None
        assert here is not None
        assert replace(there, judgement=here.judgement) == here
        assert there.verdict is here.verdict
        assert there.judgement.reason.replace(" of GPU-0001", "") == here.judgement.reason
