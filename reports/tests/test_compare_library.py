"""What the driver or a vendor's library does: no machine code shows whether it changed, and short calls scatter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from comparing import KEPT, TENS, Saved, row, shift
from peakgate.reports.comparison.judge import compare
from peakgate.reports.runs.find import Side
from peakgate.reports.runs.runfile import Run, load_run
from peakgate.verdict import Verdict
from synthetic_runs import LADDER

CUBLAS = "sgemm.cublas-256"
CALL = "sgemm.cublas-512"
NO_CODE = {CALL: {"fingerprint": None, "registers": None}}
TIMES = LADDER | {CALL: 60.0}


def ends(of_one_gpu: str) -> tuple[Run, Run]:
    """Of sessions of one GPU, those in which cuBLAS was fastest and slowest."""
    runs = sorted((load_run(path) for path in KEPT.glob(of_one_gpu)), key=lambda run: run.cases[CUBLAS].time_us)
    return runs[0], runs[-1]


def side(run: Run) -> Side:
    return Side(run.path.name, (run,))


@pytest.mark.parametrize("of_one_gpu", TENS)
def test_the_luck_of_a_process_with_a_short_call_is_no_change(of_one_gpu: str) -> None:
    fast, slow = ends(of_one_gpu)
    assert slow.cases[CUBLAS].time_us > 1.04 * fast.cases[CUBLAS].time_us
    for base, new in ((fast, slow), (slow, fast)):
        assert row(compare(side(base), side(new)), CUBLAS).verdict is Verdict.SAME


def test_a_short_call_that_takes_a_third_longer_is_slower() -> None:
    fast, _ = ends(TENS[0])
    third = replace(fast.cases[CUBLAS], time_us=4 / 3 * fast.cases[CUBLAS].time_us)
    result = compare(side(fast), side(replace(fast, cases={**fast.cases, CUBLAS: third})))
    assert [found.case for found in result.rows if found.verdict is Verdict.SLOWER] == [CUBLAS]


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


@pytest.mark.parametrize("version", ["cublas", "cupy", "nvrtc", "driver", "uuid"])
def test_calls_of_another_library_or_gpu_are_no_repeats(saved: Saved, version: str) -> None:
    history = [saved.run(TIMES, day=2 + day, extra=NO_CODE, **{version: f"1.{day}"}) for day in range(6)]
    result = compare(saved.side(TIMES, extra=NO_CODE), saved.side(TIMES, extra=NO_CODE), history)
    assert shift(result, CALL).p_value is None
