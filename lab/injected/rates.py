"""False-positive rate and power of the rule of ``ab`` (``compare.ab.decide``) on measured processes; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from lab.injected.record import Cell, Gate, cell_of
from lab.injected.resample import Medians, Pairing, as_screened, changed, unchanged
from peakgate.base.verdict import ExitCode, Verdict
from peakgate.compare.ab.decide import CaseStatus, decide, hodges_lehmann, moved_together
from peakgate.compare.ab.schedule import looks
from peakgate.compare.judge import FEWEST_CASES_FOR_SUITE
from peakgate.compare.noise import Floats

SCREENING_PAIRS, CONFIRMING_PAIRS = 10, 20
"""The defaults of ``ab``."""

COLUMNS = ["slower", "faster", "left_open", "confirming_pairs"]
"""For a gate of unchanged code: whether it flagged a case or the suite slower, one faster, left one undecided;
pairs."""


def gate_pairs(pairs: int = SCREENING_PAIRS, confirming: int = CONFIRMING_PAIRS) -> int:
    """The number of pairs of a gate that continues to its last look."""
    return pairs + looks(confirming)[-1].pairs


def resampled_gates(
    measured: Medians,
    gates: int,
    pairing: Pairing,
    *,
    pairs: int = SCREENING_PAIRS,
    confirming: int = CONFIRMING_PAIRS,
    seed: int = 0,
) -> pd.DataFrame:
    """Resample gates from processes of unchanged code and decide each as ``ab`` does: a row of COLUMNS each."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(gates):
        ratios = unchanged(measured, gate_pairs(pairs, confirming), pairing, rng)
        screen = as_screened(ratios[:, :pairs], measured.log_time)
        gate = _decided(measured, screen, ratios[:, pairs:], confirming)
        together = moved_together(screen)
        suite = 0.0  # log ratio of all cases, as judged by `ab`
        if together is not None and together.cases >= FEWEST_CASES_FOR_SUITE and together.moved:
            suite = together.estimate.log_ratio
        rows.append(
            (
                suite > 0 or bool(_flagged(gate, 1).any()),
                suite < 0 or bool(_flagged(gate, -1).any()),
                bool((gate["status"] == CaseStatus.OPEN).any()),
                max(gate.loc[gate["direction"] != 0, "pairs"], default=0),
            )
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def whole_gates(gates: Iterable[Gate]) -> pd.DataFrame:
    """The same columns for whole runs of ``ab``."""
    rows = [
        (
            Verdict.SLOWER in gate.verdicts.values() or gate.exit_code == ExitCode.REGRESSION,
            Verdict.FASTER in gate.verdicts.values(),
            Verdict.INCONCLUSIVE in gate.verdicts.values(),
            gate.confirming_pairs,
        )
        for gate in gates
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def detection(
    measured: Medians, gates: int, *, pairs: int = SCREENING_PAIRS, confirming: int = CONFIRMING_PAIRS, seed: int = 0
) -> dict[Cell, float]:
    """Resample gates from pairs of slowed copies; returns the share of each cell's copies that are flagged slower.

    Empty if there are fewer pairs than one gate needs, since a pair used for screening cannot confirm. All copies of a
    gate are judged together, most of them slowed, which makes Holm's correction stricter than for one slow kernel.
    """
    needed = gate_pairs(pairs, confirming)
    if measured.pairs < needed:
        return {}
    rng = np.random.default_rng(seed)
    judged = []
    for _ in range(gates):
        ratios = changed(measured, needed, rng)
        screen = as_screened(ratios[:, :pairs], measured.log_time)
        gate = _decided(measured, screen, ratios[:, pairs:], confirming)
        judged.append(_flagged(gate, 1).where(gate["pairs"] >= 2))
    flagged = pd.concat(judged, axis=1)
    return {cell: float(np.nanmean(flagged.loc[rows].astype(float))) for cell, rows in _rows(measured).items()}


def whole_detection(gates: Sequence[Gate], measured: Medians) -> dict[Cell, tuple[int, int]]:
    """For whole runs of ``ab``, by cell: the number of copies flagged slower, and of copies judged."""
    return {
        cell: (
            sum(gate.verdicts.get(measured.cases[row]) == Verdict.SLOWER for gate in gates for row in rows),
            len(gates) * len(rows),
        )
        for cell, rows in _rows(measured).items()
    }


def shifts(measured: Medians) -> dict[Cell, float]:
    """ln(head / base) of each cell over all pairs, the mean of its copies."""
    ratios = measured.head - measured.base
    return {
        cell: float(np.mean([hodges_lehmann(ratios[row][np.isfinite(ratios[row])]) for row in rows]))
        for cell, rows in _rows(measured).items()
    }


def _decided(measured: Medians, screen: Floats, confirm: Floats, confirming: int) -> pd.DataFrame:
    """Decide every case of one gate from its screening pairs and at most ``confirming`` confirming pairs."""
    judged = [True] * len(measured.cases)
    return decide(screen, confirm, measured.log_time, looks(confirming), judged)


def _rows(measured: Medians) -> Mapping[Cell, list[int]]:
    """The rows of the slowed copies of each cell."""
    found: dict[Cell, list[int]] = {}
    for row, case in enumerate(measured.cases):
        if cell := cell_of(case):
            found.setdefault(cell, []).append(row)
    return dict(sorted(found.items()))


def _flagged(decided: pd.DataFrame, direction: int) -> pd.Series[bool]:
    return (decided["status"] == CaseStatus.FLAGGED) & (decided["direction"] == direction)
