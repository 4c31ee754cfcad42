"""Our rule on real and on made-up processes; 1,000 gates are for `python -m reports.planted`."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.planted.about import Cell, Gate, cell_of
from peakgate.reports.planted.attained import FalseGates, detection, false_gates, real_detection, real_gates, shifts
from peakgate.reports.planted.draw import Medians, Pairing, changed, dealt, medians, unchanged
from peakgate.reports.planted.processes import SUMMARY_COLUMNS, Experiment

H200 = Path(__file__).parent / "data" / "h200_24_processes.csv"
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
    """176 cases: every kernel eight times, each time with the processes in another order and slowed as told."""
    lot, times = np.random.default_rng(seed), h200()
    rows, names = [], []
    for copy in range(COPIES):
        mixed = times[:, lot.permutation(times.shape[1])]
        mixed[:, 1::2] += math.log1p(permille(copy) / 1000)
        rows.append(mixed)
        names += [f"steps.copy_float-{math.exp(row.mean()):.0f}us-{permille(copy)}pm-{copy}" for row in times]
    table: Floats = np.concatenate(rows)
    return Medians(tuple(names), table[:, ::2], table[:, 1::2])


def numbered(pairs: int) -> Medians:
    """One case whose processes are told apart by their times: differences of powers of two name both."""
    values: Floats = 2.0 ** np.arange(2 * pairs, dtype=np.float64)
    return Medians(("a.b",), values[None, :pairs], values[None, pairs:])


def test_the_noise_is_that_of_24_processes_and_22_kernels() -> None:
    assert h200().shape == (22, 24)


@BOTH
def test_gates_of_real_noise_with_nothing_changed_are_quiet(pairing: Pairing) -> None:
    found = false_gates(h200_gate(), 6, pairing, seed=3)
    assert (found.gates, found.alarms, found.faster) == (6, 0, 0)
    assert found.apart == 0
    assert found.surely_at_most == 1.0


def test_in_twelve_pairs_of_real_noise_two_percent_is_found_from_11_us() -> None:
    planted = h200_gate(lambda copy: (0, 0, 0, 20, 20, 30, 30, 50)[copy])
    found, measured = detection(planted, 3, pairs=4, confirming=4, seed=3), shifts(planted)
    assert found.keys() == measured.keys()
    for cell, each in found.items():
        assert each.judged == 3 * sum(cell_of(case) == cell for case in planted.cases)
        if cell.permille == 0:
            assert each.slower == 0
        elif cell.duration_us >= 11:
            assert each.rate > 0.95
            assert measured[cell] == pytest.approx(cell.log_shift, abs=0.005)


def test_no_gate_is_drawn_from_pairs_that_would_have_to_confirm_what_they_screened() -> None:
    planted = h200_gate(lambda _: 50)
    assert detection(planted, 1) == detection(planted, 1, pairs=5, confirming=4) == {}
    assert shifts(planted)


@pytest.mark.parametrize(("together", "false"), [(0.0, False), (0.004, True)])
def test_a_gate_whose_cases_moved_as_one_is_false_though_no_case_is_called(together: float, *, false: bool) -> None:
    """Every pair moves all cases by 0.4 % one way or the other: four alike are seen in the median of 100 cases."""
    cases = tuple(f"a.case{number}" for number in range(100))
    base = np.random.default_rng(4).normal(5.0, 0.003, (len(cases), 12))
    head = base + np.random.default_rng(5).normal(together, 0.004, base.shape)
    found = false_gates(Medians(cases, base, head), 40, pairs=4, confirming=4)
    assert (found.alarms > 0, found.faster > 0) == (false, false)


def test_a_slowdown_that_was_swapped_to_either_side_by_lot_is_no_false_gate() -> None:
    """Pairs of unchanged code are drawn with their sides swapped: what one side has for good has no direction."""
    found = false_gates(h200_gate(lambda _: 50), 4, Pairing.AS_MEASURED, pairs=6, confirming=4, seed=3)
    assert found.alarms == 0


@BOTH
def test_no_process_is_drawn_twice_before_all_were_and_none_against_itself(pairing: Pairing) -> None:
    measured = numbered(5)
    ratios = unchanged(measured, 10, pairing, np.random.default_rng(7))[0]
    assert np.all(ratios != 0)
    processes = np.concatenate((measured.base[0], measured.head[0]))
    for hand in (ratios[:5], ratios[5:]):
        drawn = [{(a, b) for a in processes for b in processes if a - b == ratio} for ratio in hand]
        assert all(len(found) == 1 for found in drawn)
        assert sorted(value for found in drawn for pair in found for value in pair) == sorted(processes)


def test_changed_pairs_stay_pairs() -> None:
    measured = numbered(4)
    kept = sorted((measured.head - measured.base)[0].tolist())
    assert sorted(changed(measured, 4, np.random.default_rng(2))[0].tolist()) == kept


def test_cards_come_again_only_after_all_have_come() -> None:
    drawn = dealt(4, 10, np.random.default_rng(1))
    assert [sorted(drawn[start : start + 4]) for start in (0, 4)] == [[0, 1, 2, 3]] * 2
    assert len(set(drawn[8:])) == 2


def summary(rows: list[tuple[str, int, str, str, float]]) -> pd.DataFrame:
    """A record's summary of (stage, pair, side, case, median) with the other columns left at zero."""
    filled = [(stage, pair, side, case, us, us, 0.0, us, us, us, 12) for stage, pair, side, case, us in rows]
    return pd.DataFrame(filled, columns=list(SUMMARY_COLUMNS))


def test_medians_are_of_whole_screening_pairs_and_of_cases_that_some_pair_timed() -> None:
    rows = [("screen", pair, side, "a.b", 10.0) for pair in (0, 1, 2) for side in ("base", "head")]
    rows += [("screen", 0, "base", "a.c", 20.0), ("screen", 0, "head", "a.c", 40.0)]
    rows += [("screen", 0, "base", "a.lost", 5.0), ("screen", 1, "head", "a.lost", 5.0)]
    rows += [("screen", 3, "base", "a.b", 10.0), ("confirm", 4, "base", "a.b", 9.0), ("confirm", 4, "head", "a.b", 9.0)]
    found = medians(summary(rows))
    assert found.cases == ("a.b", "a.c")
    assert found.pairs == 3
    assert (found.head - found.base)[1].tolist() == pytest.approx([math.log(2), math.nan, math.nan], nan_ok=True)
    assert np.exp(found.log_time).tolist() == pytest.approx([10.0, 20.0])


def gate(experiment: Experiment, **verdicts: str) -> Gate:
    named = {name.replace("__", "-"): verdict for name, verdict in verdicts.items()}
    return Gate(experiment, 0, 3, 10, 4, 190.0, named)


def test_whole_runs_are_counted_each_as_one() -> None:
    found = real_gates([gate(Experiment.SAME, a="SLOWER"), gate(Experiment.SAME, a="FASTER", b="INCONCLUSIVE")])
    assert (found.gates, found.alarms, found.faster, found.left_open, found.apart) == (2, 1, 1, 1, 2)
    assert found.rate == 0.5


def test_a_whole_run_of_unchanged_code_that_fails_is_a_false_gate_whatever_failed_it() -> None:
    assert real_gates([Gate(Experiment.SAME, 1, 3, 10, 0, 190.0, {})]).alarms == 1


def test_whole_runs_on_copies_tell_how_many_of_a_cell_were_called() -> None:
    cases = tuple(f"steps.copy_float-150us-10pm-{repeat}" for repeat in (0, 1))
    called = Gate(Experiment.STEPS, 1, 2, 10, 4, 60.0, {cases[0]: "SLOWER", cases[1]: "INCONCLUSIVE"})
    measured = Medians(cases, np.zeros((2, 1)), np.zeros((2, 1)))
    assert real_detection([called, called], measured) == {Cell(150, 10): (2, 4)}


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    none = FalseGates(gates=59, alarms=0, faster=0, left_open=0, apart=1, confirming_pairs=0.0)
    assert none.at_most == pytest.approx(1 - 0.05 ** (1 / 59))
    assert none.surely_at_most == pytest.approx(0.95)
    one = FalseGates(gates=100, alarms=1, faster=0, left_open=0, apart=2, confirming_pairs=0.0)
    assert one.at_most == pytest.approx(0.0466, abs=1e-4)
