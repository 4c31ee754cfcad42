"""Our rule on measured and on synthetic processes; a thousand gates are for the page."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.injected.rates import detection, resampled_gates, shifts, whole_detection, whole_gates
from lab.injected.record import COLUMNS, Cell, Experiment, Gate, cell_of
from lab.injected.resample import Medians, Pairing, as_screened, changed, medians, unchanged
from peakgate.compare.ab import decide
from peakgate.compare.noise import Floats

H200 = Path(__file__).with_name("h200_24_processes.csv")
"""Medians of 22 kernels in 24 processes on one NVIDIA H200, 40 flushed samples each, so that short kernels are noisier
than under the suite's own sampling."""

COPIES = 8
BOTH = pytest.mark.parametrize("pairing", Pairing)


def h200() -> Floats:
    """Log medians by kernel and process."""
    with H200.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    cases, processes = (sorted({row[name] for row in rows}) for name in ("case", "process"))
    times = np.zeros((len(cases), len(processes)))
    for row in rows:
        times[cases.index(row["case"]), processes.index(row["process"])] = math.log(float(row["median_us"]))
    return times


def h200_gate(permille: Callable[[int], int] = lambda _: 0, seed: int = 1) -> Medians:
    """176 cases: every kernel eight times, each time with the processes in another order and slowed by ``permille``."""
    rng, times = np.random.default_rng(seed), h200()
    rows, names = [], []
    for copy in range(COPIES):
        mixed = times[:, rng.permutation(times.shape[1])]
        mixed[:, 1::2] += math.log1p(permille(copy) / 1000)
        rows.append(mixed)
        names += [f"steps.copy_float-{math.exp(row.mean()):.0f}us-{permille(copy)}pm-{copy}" for row in times]
    table: Floats = np.concatenate(rows)
    return Medians(tuple(names), table[:, ::2], table[:, 1::2])


@BOTH
def test_resampled_gates_of_unchanged_code_flag_nothing(pairing: Pairing) -> None:
    found = resampled_gates(h200_gate(), 6, pairing, seed=3)
    assert found[["slower", "faster"]].sum().tolist() == [0, 0]
    assert len(found) == 6


def test_in_twelve_pairs_two_percent_is_detected_from_11_us() -> None:
    slowed = h200_gate(lambda copy: (0, 0, 0, 20, 20, 30, 30, 50)[copy])
    found, measured = detection(slowed, 3, pairs=4, confirming=4, seed=3), shifts(slowed)
    assert found.keys() == measured.keys()
    for cell, rate in found.items():
        if cell.permille == 0:
            assert rate == 0
        elif cell.duration_us >= 11:
            assert rate > 0.95
            assert measured[cell] == pytest.approx(math.log1p(cell.permille / 1000), abs=0.005)


def test_no_gate_is_resampled_from_pairs_that_it_screened_by() -> None:
    slowed = h200_gate(lambda _: 50)
    assert detection(slowed, 1) == detection(slowed, 1, pairs=5, confirming=4) == {}
    assert shifts(slowed)


@pytest.mark.parametrize(("together", "false"), [(0.0, False), (0.004, True)])
def test_cases_that_moved_together_are_a_false_positive(together: float, *, false: bool) -> None:
    """Every pair moves all cases by 0.4 % one way or the other: four alike show in the median of 100 cases."""
    cases = tuple(f"a.case{number}" for number in range(100))
    base = np.random.default_rng(4).normal(5.0, 0.003, (len(cases), 12))
    head = base + np.random.default_rng(5).normal(together, 0.004, base.shape)
    found = resampled_gates(Medians(cases, base, head), 40, Pairing.AS_MEASURED, pairs=4, confirming=4)
    assert found[["slower", "faster"]].any().tolist() == [false, false]


def test_a_constant_difference_of_sides_is_no_false_positive() -> None:
    found = resampled_gates(h200_gate(lambda _: 50), 4, Pairing.AS_MEASURED, pairs=6, confirming=4, seed=3)
    assert not found["slower"].any()


@BOTH
def test_no_process_is_drawn_twice_before_all_were(pairing: Pairing) -> None:
    values: Floats = 2.0 ** np.arange(10, dtype=np.float64)  # the difference of two of them names both
    measured = Medians(("a.b",), values[None, :5], values[None, 5:])
    ratios = unchanged(measured, 10, pairing, np.random.default_rng(7))[0]
    for half in (ratios[:5], ratios[5:]):
        drawn = [{(a, b) for a in values for b in values if a - b == ratio != 0} for ratio in half]
        assert sorted(value for found in drawn for pair in found for value in pair) == values.tolist()


def test_changed_pairs_come_again_only_after_all_have_come() -> None:
    measured = Medians(("a.b",), np.zeros((1, 4)), np.arange(4.0)[None])
    drawn = changed(measured, 10, np.random.default_rng(2))[0].tolist()
    assert [sorted(drawn[start : start + 4]) for start in (0, 4)] == [[0, 1, 2, 3]] * 2
    assert len(set(drawn[8:])) == 2


def test_medians_are_of_whole_pairs_and_of_timed_cases() -> None:
    rows = [("screen", pair, side, "a.b", 10.0) for pair in (0, 1, 2) for side in ("base", "head")]
    rows += [("screen", 0, "base", "a.c", 20.0), ("screen", 0, "head", "a.c", 40.0)]
    rows += [("screen", 0, "base", "a.lost", 5.0), ("screen", 1, "head", "a.lost", 5.0)]
    rows += [("screen", 3, "base", "a.b", 10.0), ("confirm", 4, "base", "a.b", 9.0), ("confirm", 4, "head", "a.b", 9.0)]
    found = medians(pd.DataFrame([(*row, None) for row in rows], columns=COLUMNS))
    assert found.cases == ("a.b", "a.c")
    assert found.pairs == 3
    assert (found.head - found.base)[1].tolist() == pytest.approx([math.log(2), math.nan, math.nan], nan_ok=True)
    assert np.exp(found.log_time).tolist() == pytest.approx([10.0, 20.0])


def gate(exit_code: int = 0, experiment: Experiment = Experiment.SAME, **verdicts: str) -> Gate:
    return Gate(experiment, exit_code, 3, 10, 4, 190.0, verdicts)


def test_a_whole_run_that_failed_is_one_false_positive() -> None:
    found = whole_gates([gate(a="SLOWER"), gate(a="FASTER", b="INCONCLUSIVE"), gate(exit_code=1)])
    assert found.to_numpy().tolist() == [
        [True, False, False, 4],
        [False, True, True, 4],
        [True, False, False, 4],
    ]


def test_whole_runs_on_copies_count_what_a_cell_flagged() -> None:
    cases = tuple(f"steps.copy_float-150us-10pm-{repeat}" for repeat in (0, 1))
    flagged = Gate(Experiment.STEPS, 1, 2, 10, 4, 60.0, {cases[0]: "SLOWER", cases[1]: "INCONCLUSIVE"})
    measured = Medians(cases, np.zeros((2, 1)), np.zeros((2, 1)))
    assert whole_detection([flagged, flagged], measured) == {Cell(150, 10): (2, 4)}


def test_the_cell_of_a_copy_is_in_its_id() -> None:
    assert cell_of("steps.copy_float-150us-10pm-2") == Cell(150, 10)
    assert cell_of("transpose.smem_pad-8192-32x8") is None


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 99), st.floats(0.0001, 0.01))
def test_what_is_settled_at_a_look_has_no_later_pair(seed: int, noise: float) -> None:
    log_time = np.zeros(24)
    every = np.random.default_rng(seed).normal(0, noise, (24, 10))
    taken = as_screened(every, log_time)
    counts = np.isfinite(taken).sum(axis=1)
    assert set(counts.tolist()) <= {4, 6, 10}
    assert set(np.flatnonzero(counts > 4)) == set(decide.unsettled(every[:, :4], log_time))
    assert np.array_equal(taken[counts == 10], every[counts == 10])
