"""Times of the host beside those of the GPU: judged by themselves, and wider, since hosts differ."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from ab_records import ab_record
from comparing import PAD, Saved, compare, row
from drawn_sessions import of_sessions
from synthetic_runs import LADDER, document, slower
from test_history_trend import quiet, session, slowed

from peakgate.base.verdict import Verdict
from peakgate.compare.ab import verdicts as ab
from peakgate.compare.ab.plan import Plan
from peakgate.compare.ab.record import Process
from peakgate.compare.ab.schedule import Phase, Side, order
from peakgate.compare.history.causes import Cause
from peakgate.compare.history.series import History
from peakgate.compare.history.series import history as of_runs
from peakgate.compare.history.suite import find_changes
from peakgate.compare.history.trend import find_trend
from peakgate.compare.noise import Floats
from peakgate.runfile.saved import load_run

CALL = "benchmarks-ops.bench_add-launch"
OTHER_CALLS = [f"benchmarks-ops.bench_{number}-launch" for number in range(12)]
OF_HOST = {name: {"metric": "launch", "registers": None, "sm_clock_mhz": None} for name in (CALL, *OTHER_CALLS)}


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)


@pytest.mark.parametrize(
    ("factor", "uuid", "verdict"),
    [
        (1.3, "GPU-0001", Verdict.SAME),
        (1.6, "GPU-0001", Verdict.SLOWER),
        (1.3, "GPU-0002", Verdict.INCONCLUSIVE),
        (2.2, "GPU-0002", Verdict.SLOWER),
    ],
)
def test_a_call_is_slower_by_more_than_its_process_and_its_host_explain(
    saved: Saved, factor: float, uuid: str, verdict: Verdict
) -> None:
    times = {**LADDER, CALL: 20.0}
    found = compare(saved.side(times, extra=OF_HOST), saved.side(slower(CALL, factor, times), extra=OF_HOST, uuid=uuid))
    assert row(found, CALL).verdict is verdict
    assert row(found, CALL).metric == "launch"
    assert row(found).metric == "gpu"


def test_calls_of_the_host_change_nothing_for_the_times_of_the_gpu(saved: Saved) -> None:
    rng = np.random.default_rng(3)

    def sides(*, calls: bool) -> list[list[dict[str, float]]]:
        own = np.random.default_rng(4)
        return [
            [
                {case: us * math.exp(0.002 * own.standard_normal()) for case, us in LADDER.items()}
                | ({name: 20.0 * math.exp(0.1 * rng.standard_normal()) for name in OTHER_CALLS} if calls else {})
                for _ in range(5)
            ]
            for _ in range(2)
        ]

    def compared(*, calls):
        base, new = sides(calls=calls)
        return compare(saved.side(*base, extra=OF_HOST), saved.side(*new, extra=OF_HOST))

    with_calls, alone = compared(calls=True), compared(calls=False)
    for case in LADDER:
        assert vars(row(with_calls, case)) == vars(row(alone, case))
    assert with_calls.suite == alone.suite


def test_calls_that_all_got_slower_are_no_shift_of_the_suite(saved: Saved) -> None:
    times = LADDER | dict.fromkeys(OTHER_CALLS, 20.0)
    after = LADDER | dict.fromkeys(OTHER_CALLS, 40.0)
    found = compare(saved.side(times, extra=OF_HOST), saved.side(after, extra=OF_HOST))
    assert {row(found, name).verdict for name in OTHER_CALLS} == {Verdict.SLOWER}
    assert row(found).verdict is Verdict.SAME
    assert found.suite is not None
    assert found.suite.verdict is Verdict.SAME


def test_runs_of_calls_alone_are_compared(saved: Saved) -> None:
    found = compare(saved.side({CALL: 20.0}, extra=OF_HOST), saved.side({CALL: 50.0}, extra=OF_HOST))
    assert row(found, CALL).verdict is Verdict.SLOWER


def history(log_time: Floats, calls: int, gpus: int = 1) -> History:
    """The history of these log times, of which the last ``calls`` are those of the host."""
    names = [f"a.stage{number:03d}" for number in range(len(log_time))]
    names[len(names) - calls :] = [f"{name}-launch" for name in names[len(names) - calls :]]
    sessions = [
        session(number, uuid=f"GPU-{number * gpus // log_time.shape[1]}", times_us=dict(zip(names, own, strict=True)))
        for number, own in enumerate(np.exp(log_time.T).tolist())
    ]
    frame = of_sessions(sessions)
    return of_runs(frame.assign(metric=np.where(frame["case"].str.endswith("-launch"), "launch", "gpu")))


@pytest.mark.parametrize(("by", "cause"), [(0.15, Cause.ENVIRONMENT), (1.0, Cause.COMMITS)])
def test_a_step_of_a_call_as_large_as_hosts_differ_is_no_commits(by: float, cause: Cause) -> None:
    (change,) = find_changes(history(slowed(quiet(), 29, 15, by), calls=1)).points
    assert (change.case, change.cause) == ("a.stage029-launch", cause)


def test_calls_are_searched_beside_the_times_of_the_gpu_and_not_with_them() -> None:
    alone = find_changes(history(slowed(quiet(), 7, 15, 0.04), calls=0))
    log_time = np.vstack([slowed(quiet(), 7, 15, 0.04), quiet(seed=2, cases=12) + 0.1 * np.sin(np.arange(40))])
    beside = find_changes(history(log_time, calls=12))
    assert alone.points == tuple(each for each in beside.points if not each.case.endswith("-launch"))
    assert alone.suite == beside.suite
    assert {case: beside.cases[case] for case in alone.cases} == alone.cases


def test_a_new_host_that_is_slower_by_a_fifth_is_not_reported() -> None:
    log_time = quiet(cases=2)
    log_time[1, 36:] += math.log(1.2)
    assert {each.verdict for each in find_trend(history(log_time, calls=1, gpus=10)).findings} == {Verdict.SAME}


def test_a_history_of_calls_alone_is_judged() -> None:
    found = find_trend(history(slowed(quiet(cases=1), 0, 10, 1.0), calls=1))
    assert [each.verdict for each in found.findings] == [Verdict.SLOWER]


def test_an_ab_judges_calls_in_pairs_and_apart_from_the_suite(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    kernels = {f"c.c-{number}": 100.0 + number for number in range(12)}
    names = (CALL, *OTHER_CALLS)
    made = ab_record(tmp_path, Plan(measured=(*kernels, *names)), (10, 10))
    for stage in (Phase.PROOF, Phase.SCREEN, Phase.CONFIRM):
        for pair in range(1 if stage is Phase.PROOF else 10):
            for which in order(pair):
                factor = 1.3 if which is Side.HEAD else 1.0
                times = {case: us * math.exp(5e-4 * rng.standard_normal()) for case, us in kernels.items()}
                times |= {name: factor * 20.0 * math.exp(0.02 * rng.standard_normal()) for name in names}
                path = tmp_path / f"{stage}-{pair}-{which}.json"
                commit = ("a" if which is Side.BASE else "b") * 40
                path.write_text(json.dumps(document(times, extra=OF_HOST, day=pair + 1, commit=commit, tier="gate")))
                made.runs[path.name] = load_run(path)
                made.processes.append(Process(stage, pair, which, path.name, 0, 1.5, {}))
    found = ab.comparison(made)
    assert {row(found, name).verdict for name in names} == {Verdict.SLOWER}
    assert {row(found, case).verdict for case in kernels} == {Verdict.SAME}
    assert found.suite is not None
    assert (found.suite.verdict, found.suite.cases) == (Verdict.SAME, len(kernels))


def test_a_case_of_older_runs_is_of_the_gpu(saved: Saved) -> None:
    assert saved.run().cases[PAD].metric == "gpu"
