"""What holds of comparisons whatever the times are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from comparing import PAD, Saved, compare, row, shift
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_runs import LADDER, slower

from peakgate.base.verdict import Verdict
from peakgate.compare.result import LEAST_P, Comparison
from peakgate.runfile.find import RunSide
from peakgate.runfile.saved import Run

MIRROR = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
MOVED = frozenset(MIRROR)
BETWEEN = math.sqrt(2) * 0.0085 * 4
"""Less than two GPUs of a model may differ by in one of the cases."""

SEEDS = st.integers(0, 1000)
some_examples = settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sides(runs: Sequence[Run]) -> tuple[RunSide, RunSide]:
    """Five sessions: three before, two after."""
    return RunSide("a", tuple(runs[:3])), RunSide("b", tuple(runs[3:5]))


def retimed(saved: Saved, runs: Sequence[Run], times_us: Sequence[Mapping[str, float]]) -> list[Run]:
    """The same sessions with other times."""
    return [saved.run(times, day=run.taken.day) for run, times in zip(runs, times_us, strict=True)]


def times(run: Run) -> dict[str, float]:
    return {case: result.time_us for case, result in run.cases.items()}


def wilder(runs: Sequence[Run], factor: float) -> list[dict[str, float]]:
    """Each case's times with their distance from the side's mean so many times as large."""
    means = [
        {case: sum(math.log(run.cases[case].time_us) for run in side.runs) / len(side.runs) for case in LADDER}
        for side in sides(runs)
    ]
    return [
        {case: math.exp(mean[case] + factor * (math.log(run.cases[case].time_us) - mean[case])) for case in LADDER}
        for mean, side in zip(means, sides(runs), strict=True)
        for run in side.runs
    ]


def assert_mirrored(there: Comparison, back: Comparison) -> None:
    for case in LADDER:
        assert row(back, case).verdict is MIRROR.get(row(there, case).verdict, row(there, case).verdict)
        assert shift(back, case).resolvable == pytest.approx(shift(there, case).resolvable)
    assert there.suite is not None
    assert back.suite is not None
    assert math.log1p(there.suite.change_percent / 100) == pytest.approx(
        -math.log1p(back.suite.change_percent / 100), abs=1e-12
    )
    assert back.suite.verdict is MIRROR.get(there.suite.verdict, there.suite.verdict)


@some_examples
@given(factors=st.lists(st.floats(0.5, 2.0), min_size=len(LADDER), max_size=len(LADDER)))
def test_swapping_two_runs_flips_every_verdict(tmp_path: Path, factors: Sequence[float]) -> None:
    saved = Saved(tmp_path)
    moved = {case: us * factor for (case, us), factor in zip(LADDER.items(), factors, strict=True)}
    base, new = saved.side(), saved.side(moved)
    assert_mirrored(compare(base, new), compare(new, base))


@some_examples
@given(seed=SEEDS)
def test_swapping_sides_of_several_sessions_flips_every_verdict_whatever_the_history(tmp_path: Path, seed: int) -> None:
    saved = Saved(tmp_path)
    history = saved.sessions(4, 0.003, seed + 1)
    base = RunSide("a", saved.sessions(3, 0.003, seed))
    new = RunSide("b", saved.sessions(2, 0.003, seed + 2, factor={PAD: 1.03, "transpose.smem-4096-32x8": 0.95}))
    assert_mirrored(compare(base, new, history), compare(new, base, history))


@some_examples
@given(scale=st.floats(1.0, 1000.0), seed=SEEDS)
def test_scaling_all_times_changes_neither_shifts_nor_what_is_resolved(tmp_path: Path, scale: float, seed: int) -> None:
    """From 100 µs up: what one run resolves of shorter kernels is known by their duration in microseconds."""
    saved = Saved(tmp_path)
    runs = saved.sessions(5, 0.004, seed)
    long, longer = (
        retimed(saved, runs, [{case: r.time_us * by for case, r in run.cases.items()} for run in runs])
        for by in (3, 3 * scale)
    )
    plain, larger = compare(*sides(long)), compare(*sides(longer))
    for case in LADDER:
        assert row(plain, case).verdict is row(larger, case).verdict
        assert shift(larger, case).log_ratio == pytest.approx(shift(plain, case).log_ratio, abs=1e-9)
        assert shift(larger, case).resolvable == pytest.approx(shift(plain, case).resolvable, rel=1e-6)


@some_examples
@given(order=st.permutations(list(LADDER)), seed=SEEDS)
def test_the_order_of_the_cases_changes_nothing(tmp_path: Path, order: list[str], seed: int) -> None:
    saved = Saved(tmp_path)
    runs = saved.sessions(5, 0.004, seed)
    runs = (*runs[:3], *retimed(saved, runs[3:], [slower(PAD, 1.03, times(run)) for run in runs[3:]]))
    mixed = retimed(saved, runs, [{case: run.cases[case].time_us for case in order} for run in runs])
    plain, shuffled = compare(*sides(runs)), compare(*sides(mixed))
    for case in LADDER:
        assert row(shuffled, case).verdict is row(plain, case).verdict
        assert shift(shuffled, case).resolvable == pytest.approx(shift(plain, case).resolvable)
    assert plain.suite is not None
    assert shuffled.suite is not None
    assert (shuffled.suite.verdict, shuffled.suite.reason) == (plain.suite.verdict, plain.suite.reason)


@some_examples
@given(seed=SEEDS, factor=st.floats(1.0, 20.0), slowdown=st.floats(1.0, 1.1))
def test_more_noise_between_sessions_never_makes_a_shift_surer(
    tmp_path: Path, seed: int, factor: float, slowdown: float
) -> None:
    saved = Saved(tmp_path)
    runs = saved.sessions(5, 0.002, seed)
    runs = (*runs[:3], *retimed(saved, runs[3:], [slower(PAD, slowdown, times(run)) for run in runs[3:]]))
    quiet, loud = compare(*sides(runs)), compare(*sides(retimed(saved, runs, wilder(runs, factor))))
    for case in LADDER:
        calm, wild = shift(quiet, case), shift(loud, case)
        assert wild.log_ratio == pytest.approx(calm.log_ratio, abs=1e-9)
        assert wild.resolvable >= calm.resolvable * (1 - 1e-9)
        if wild.p_value is not None and calm.p_value is not None:  # what only the sizes show has none
            assert max(wild.p_value, LEAST_P) >= calm.p_value * (1 - 1e-9)
        if row(quiet, case).verdict not in MOVED:
            assert row(loud, case).verdict not in MOVED


@some_examples
@given(iqr=st.floats(0.0, 0.3), more=st.floats(1.0, 10.0), slowdown=st.floats(0.8, 1.25))
def test_more_noise_within_two_runs_never_makes_a_shift_surer(
    tmp_path: Path, iqr: float, more: float, slowdown: float
) -> None:
    saved = Saved(tmp_path)

    def compared(spread: float) -> Comparison:
        extra = {PAD: {"iqr": spread}}
        return compare(saved.side(extra=extra), saved.side(slower(PAD, slowdown), extra=extra))

    quiet, loud = compared(iqr), compared(iqr * more)
    assert shift(loud).resolvable >= shift(quiet).resolvable
    if row(quiet).verdict not in MOVED:
        assert row(loud).verdict not in MOVED


@some_examples
@given(
    seed=SEEDS,
    sessions=st.integers(1, 3),
    sd=st.floats(0.0005, 0.02),
    factors=st.lists(st.floats(0.9, 1.1), min_size=len(LADDER), max_size=len(LADDER)),
)
def test_another_gpu_never_makes_a_shift_surer_and_what_gpus_may_differ_by_is_never_flagged(
    tmp_path: Path, seed: int, sessions: int, sd: float, factors: Sequence[float]
) -> None:
    saved = Saved(tmp_path)
    moved = dict(zip(LADDER, factors, strict=True))
    base = RunSide("a", saved.sessions(sessions, sd, seed))
    here, there = (
        RunSide("b", saved.sessions(sessions, sd, seed + 1, moved, uuid=uuid)) for uuid in ("GPU-0001", "GPU-0002")
    )
    one, two = compare(base, here), compare(base, there)
    assert_mirrored(two, compare(there, base))
    for case in LADDER:
        alone, between = shift(one, case), shift(two, case)
        assert between.log_ratio == alone.log_ratio
        assert between.resolvable >= math.hypot(alone.resolvable, BETWEEN) * (1 - 1e-9)
        flagged = row(two, case).verdict in MOVED
        assert row(one, case).verdict in MOVED or not flagged
        assert abs(between.log_ratio) > BETWEEN or not flagged
