"""GPUs of one model: what is between them is not taken for a change of the code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from comparing import KEPT, PAD, TENS, Saved, compare, row, shift, verdicts
from msgspec import structs
from scipy import stats  # type: ignore[import-untyped]  # SciPy ships no type information
from synthetic_runs import LADDER, slower

from peakgate.base.verdict import ExitCode, Verdict, exit_code
from peakgate.compare.evidence import machine_code
from peakgate.compare.result import Comparison
from peakgate.runfile.find import RunSide
from peakgate.runfile.frame import to_frame
from peakgate.runfile.saved import Run, load_run

UNKNOWN: Mapping[str, Any] = {"uuid": None}
ONE: Mapping[str, Any] = {"uuid": "GPU-0001"}
OTHER: Mapping[str, Any] = {"uuid": "GPU-0002"}
CODE: Mapping[str, Any] = {PAD: {"fingerprint": "f0"}}
SHORT_US = 80.0
USUAL = 0.0085**2 + (0.55 / LADDER[PAD]) ** 2
each_way = pytest.mark.parametrize(("base", "new"), list(itertools.permutations(TENS, 2)))
each_pair = pytest.mark.parametrize(("base", "new"), list(itertools.combinations(TENS, 2)))


@cache
def ten(pattern: str) -> tuple[Run, ...]:
    return tuple(load_run(path) for path in sorted(KEPT.glob(pattern)))


def slowed(run: Run, case: str, factor: float) -> Run:
    result = run.cases[case]
    return replace(run, cases={**run.cases, case: structs.replace(result, time_us=result.time_us * factor)})


def test_the_kept_sessions_are_of_three_gpus_and_one_machine_code() -> None:
    assert [len(ten(gpu)) for gpu in TENS] == [10, 10, 10]
    assert len({run.uuid for gpu in TENS for run in ten(gpu)}) == len(TENS)
    assert {run.driver for gpu in TENS for run in ten(gpu)} == {"580.159.04"}
    for base, new in itertools.combinations(TENS, 2):
        assert "all 179 cases" in (machine_code(to_frame(ten(base)), to_frame(ten(new))) or "")


def short(result: Comparison) -> set[str]:
    return {found.case for found in result.records if found.base_time_us and found.base_time_us < SHORT_US}


def undecided(result: Comparison) -> set[str]:
    return {found.case for found in result.records if found.verdict == Verdict.INCONCLUSIVE}


@each_way
def test_no_gpu_of_the_kept_sessions_is_slower_than_another_and_short_kernels_are_left_open(
    base: str, new: str
) -> None:
    """Two transfers left the gate in between, and are missing or new."""
    result = compare(RunSide(base, ten(base)), RunSide(new, ten(new)))
    assert verdicts(result) <= {Verdict.SAME, Verdict.NEW, Verdict.MISSING, Verdict.INCONCLUSIVE}
    assert {"sgemm.split_k-256", "sgemm.cublas-256", "sgemm.group_split-256"} <= undecided(result) <= short(result)
    assert result.suite is not None
    assert result.suite.verdict is Verdict.SAME
    assert exit_code(verdicts(result) - {Verdict.MISSING}) == ExitCode.UNDECIDED


@each_pair
def test_one_kept_session_against_one_of_another_gpu_is_decided_but_for_short_kernels(base: str, new: str) -> None:
    result = compare(RunSide(base, ten(base)[:1]), RunSide(new, ten(new)[-1:]))
    assert verdicts(result) <= {Verdict.SAME, Verdict.NEW, Verdict.MISSING, Verdict.INCONCLUSIVE}
    assert undecided(result) <= short(result)


@each_pair
def test_fifteen_percent_on_a_case_is_more_than_lies_between_the_kept_gpus(base: str, new: str) -> None:
    slower = tuple(slowed(run, PAD, 1.15) for run in ten(new))
    result = compare(RunSide(base, ten(base)), RunSide(new, slower))
    assert [found.case for found in result.records if found.verdict == Verdict.SLOWER] == [PAD]
    assert result.exit_code() == ExitCode.REGRESSION


def apart(variance: float = USUAL, df: float = 6.0, gpus: float = 2.0) -> float:
    """What two GPUs may differ by in one of the ladder's cases, by the formula written out."""
    return math.sqrt(gpus * variance) * float(stats.t.isf(0.01 / len(LADDER), df))


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.98, Verdict.SAME), (-0.98, Verdict.SAME), (1.02, Verdict.SLOWER), (-1.02, Verdict.FASTER)]
)
def test_one_run_against_one_of_another_gpu_adds_both_by_their_squares(
    saved: Saved, share: float, verdict: Verdict
) -> None:
    limit = math.hypot(math.log1p(0.035), apart())
    result = compare(saved.side(**ONE), saved.side(slower(PAD, math.exp(share * limit)), **OTHER))
    assert row(result).verdict is verdict
    assert shift(result).resolvable == pytest.approx(limit, rel=0.02)


@pytest.mark.parametrize(("sd", "verdict"), [(0.0, Verdict.SLOWER), (0.02, Verdict.SAME)])
def test_other_known_gpus_say_how_far_two_may_differ_in_a_case(saved: Saved, sd: float, verdict: Verdict) -> None:
    history = [
        saved.run(slower(PAD, math.exp(sd * sign)), uuid=f"GPU-1{sign}{number}", extra=CODE)
        for number in range(6)
        for sign in (-1, 1)
    ]
    sides = saved.side(extra=CODE, **ONE), saved.side(slower(PAD, 1.06), extra=CODE, **OTHER)
    result = compare(*sides, history)
    assert row(result).verdict is verdict
    assert row(compare(*sides)).verdict is Verdict.SAME
    variance = (6 * USUAL + 11 * sd**2 * 12 / 11) / 17
    assert shift(result).resolvable == pytest.approx(math.hypot(math.log1p(0.035), apart(variance, 17)), rel=0.01)
    assert any("12 other GPUs" in note for note in result.notes)


def test_runs_of_other_code_or_of_one_gpu_say_nothing_of_it(saved: Saved) -> None:
    other = [saved.run(slower(PAD, 1.1), uuid=f"GPU-1{n}", extra={PAD: {"fingerprint": f"f{n}"}}) for n in range(6)]
    own = saved.sessions(6, 0.0001, seed=3, uuid="GPU-9", extra=CODE)
    sides = saved.side(extra=CODE, **ONE), saved.side(extra=CODE, **OTHER)
    for history in (other, own):
        assert shift(compare(*sides, history)).resolvable == pytest.approx(shift(compare(*sides)).resolvable)


def test_gpus_with_equal_shares_of_both_sides_cancel_out(saved: Saved) -> None:
    def sides(*shares: int) -> tuple[RunSide, RunSide]:
        several = (ONE,) * shares[0] + (OTHER,) * shares[1]
        return (
            RunSide("base", tuple(saved.run(**gpu) for gpu in (ONE, OTHER))),
            RunSide("new", tuple(saved.run(slower(PAD, 1.045), **gpu) for gpu in several)),
        )

    equal, unequal = compare(*sides(1, 1)), compare(*sides(3, 1))
    assert ["same GPU" in " ".join(each.notes) for each in (equal, unequal)] == [False, True]
    assert row(equal).verdict is Verdict.SLOWER
    assert shift(unequal).resolvable > math.hypot(apart(gpus=2 / 16), math.log1p(0.035) / 2)


@pytest.mark.parametrize(("factor", "verdict"), [(1.045, Verdict.SAME), (1.15, Verdict.SLOWER)])
def test_a_known_spread_between_sessions_says_nothing_of_another_gpu(
    saved: Saved, factor: float, verdict: Verdict
) -> None:
    base = RunSide("base", saved.sessions(8, 0.0005, 1))
    new = RunSide("new", saved.sessions(8, 0.0005, 2, {PAD: factor}, **OTHER))
    result = compare(base, new)
    assert row(result).verdict is verdict
    assert shift(result).p_value is not None
    assert shift(result).resolvable > apart() * 0.99


def test_nor_does_history_of_one_of_the_gpus(saved: Saved) -> None:
    history = saved.sessions(8, 0.0005, seed=3)
    result = compare(saved.side(), saved.side(slower(PAD, 1.045), **OTHER), history)
    assert row(result).verdict is Verdict.SAME
    assert "GPU uuid" in {difference.name for difference in result.differences}


@pytest.mark.parametrize(
    ("base", "new", "known"),
    [
        ((ONE,), (OTHER,), True),
        ((ONE, ONE), (ONE, OTHER), True),
        ((UNKNOWN,), (UNKNOWN,), False),
        ((ONE,), (UNKNOWN,), False),
        ((ONE, UNKNOWN), (ONE, OTHER), False),
    ],
)
def test_runs_that_are_not_known_to_be_of_one_gpu_are_of_several(
    saved: Saved, base: tuple[Mapping[str, Any], ...], new: tuple[Mapping[str, Any], ...], known: bool
) -> None:
    result = compare(
        RunSide("base", tuple(saved.run(**gpu) for gpu in base)),
        RunSide("new", tuple(saved.run(slower(PAD, 1.035), **gpu) for gpu in new)),
    )
    assert row(result).verdict is Verdict.SAME
    assert shift(result).resolvable > apart(gpus=0.49)
    (said,) = [note for note in result.notes if "`peakgate ab`" in note]
    assert ("not known" in said) is not known


def test_on_one_gpu_nothing_is_added(saved: Saved) -> None:
    result = compare(saved.side(**ONE), saved.side(slower(PAD, 1.045), **ONE))
    assert row(result).verdict is Verdict.SLOWER
    assert not any("GPU" in note for note in result.notes)


def test_two_gpu_models_that_are_compared_on_request_are_judged_as_sessions_are(saved: Saved) -> None:
    """Their difference is what was asked for, whatever caused it."""
    other = saved.side(slower(PAD, 1.045), slug="nvidia-l4", **OTHER)
    result = compare(saved.side(**ONE), other, across_gpus=True)
    assert row(result).verdict is Verdict.SLOWER
    assert any("two GPU models" in note for note in result.notes)


def test_a_floor_holds_on_every_gpu(saved: Saved) -> None:
    below = {PAD: {"verdict": "BELOW_FLOOR", "peak_fraction": 0.61, "floor": 0.70}}
    result = compare(saved.side(**ONE), saved.side(slower(PAD, 1.045), extra=below, **OTHER))
    assert row(result).verdict is Verdict.BELOW_FLOOR
    assert result.exit_code() == ExitCode.REGRESSION


CUBLAS = "sgemm.cublas-256"
CALL = "sgemm.cublas-512"
NO_CODE = {CALL: {"fingerprint": None, "registers": None, "probes": 6}}
TIMES = LADDER | {CALL: 60.0}


def ends(of_one_gpu: str) -> tuple[Run, Run]:
    """Of sessions of one GPU, those in which cuBLAS was fastest and slowest."""
    runs = sorted((load_run(path) for path in KEPT.glob(of_one_gpu)), key=lambda run: run.cases[CUBLAS].time_us)
    return runs[0], runs[-1]


def side(run: Run) -> RunSide:
    return RunSide(run.path.name, (run,))


@pytest.mark.parametrize("of_one_gpu", TENS)
def test_the_luck_of_a_process_with_a_short_call_is_no_change(of_one_gpu: str) -> None:
    fast, slow = ends(of_one_gpu)
    assert slow.cases[CUBLAS].time_us > 1.04 * fast.cases[CUBLAS].time_us
    for base, new in ((fast, slow), (slow, fast)):
        assert row(compare(side(base), side(new)), CUBLAS).verdict is Verdict.SAME


def test_a_short_call_that_takes_a_third_longer_is_slower() -> None:
    fast, _ = ends(TENS[0])
    third = structs.replace(fast.cases[CUBLAS], time_us=4 / 3 * fast.cases[CUBLAS].time_us)
    result = compare(side(fast), side(replace(fast, cases={**fast.cases, CUBLAS: third})))
    assert [found.case for found in result.records if found.verdict == Verdict.SLOWER] == [CUBLAS]


def test_a_call_repeats_at_every_commit_and_a_kernel_of_unknown_code_at_its_own(saved: Saved) -> None:
    commits = [f"{number:x}" * 40 for number in range(1, 7)]
    kernel = next(iter(LADDER))
    reported = NO_CODE | {kernel: {"fingerprint": None, "registers": 32}}
    factors = (1.0, 1.05, 0.95, 1.04, 0.96, 1.0)
    history = [
        saved.run({case: us * factor for case, us in TIMES.items()}, day=2 + day, commit=commit, extra=reported)
        for day, (commit, factor) in enumerate(zip(commits, factors, strict=True))
    ]
    result = compare(saved.side(TIMES, extra=reported), saved.side(TIMES | {CALL: 62.4}, extra=reported), history)
    assert row(result, CALL).verdict is Verdict.SAME
    assert shift(result, CALL).p_value is not None
    assert shift(result, kernel).p_value is None


@pytest.mark.parametrize("code", [{"fingerprint": None}, {"fingerprint": "f0", "kernels": {"add": "1a"}}])
def test_a_callable_of_a_benchmark_test_repeats_at_its_own_commit_alone(saved: Saved, code: dict[str, Any]) -> None:
    reported = {CALL: {"registers": None, "probes": 0, **code}}
    slower = TIMES | {CALL: 7 * TIMES[CALL]}
    commits = [f"{number:x}" * 40 for number in range(1, 4)]
    history = [
        saved.run(times, day=2 + day, commit=commit, extra=reported)
        for day, (times, commit) in enumerate(zip((TIMES, TIMES, slower), commits, strict=True))
    ]
    result = compare(saved.side(TIMES, extra=reported), saved.side(slower, extra=reported), history)
    assert row(result, CALL).verdict is Verdict.SLOWER


@pytest.mark.parametrize("version", ["cublas", "cupy", "nvrtc", "driver", "uuid"])
def test_calls_of_another_library_or_gpu_are_no_repeats(saved: Saved, version: str) -> None:
    history = [saved.run(TIMES, day=2 + day, extra=NO_CODE, **{version: f"1.{day}"}) for day in range(6)]
    result = compare(saved.side(TIMES, extra=NO_CODE), saved.side(TIMES, extra=NO_CODE), history)
    assert shift(result, CALL).p_value is None
