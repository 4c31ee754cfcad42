"""What the rule of ``ab`` attains on measured processes: false gates, and planted slowdowns found; pure.

The rule and its constants are ``reports.ab.decide``'s, so that a change there shows here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from peakgate.reports.ab.decide import Decision, Status, decide, hodges_lehmann, moved_together
from peakgate.reports.ab.schedule import looks
from peakgate.reports.comparison.judge import FEWEST_CASES_FOR_SUITE
from peakgate.reports.comparison.noise import Floats
from peakgate.reports.planted.about import Cell, Gate, cell_of
from peakgate.reports.planted.draw import CONFIRMING_PAIRS, SCREENING_PAIRS, Medians, Pairing, changed, unchanged
from peakgate.reports.selftest.resample import rate_at_most
from peakgate.verdict import ExitCode, Verdict


@dataclass(frozen=True, slots=True)
class FalseGates:
    """Gates of unchanged code.

    ``alarms`` called a case or the suite as a whole slower, ``faster`` called one faster, ``left_open`` left one
    undecided, by number of gates. ``apart`` is how many gates could be drawn that share no process; the drawn ones
    share theirs, so their rate is known no better than from as many. ``confirming_pairs`` are those of the mean gate.
    """

    gates: int
    alarms: int
    faster: int
    left_open: int
    apart: int
    confirming_pairs: float

    @property
    def rate(self) -> float:
        return self.alarms / self.gates

    @property
    def at_most(self) -> float:
        """The rate that is ruled out with 95 % confidence if every gate counts as independent of the others."""
        return rate_at_most(self.rate, self.gates)

    @property
    def surely_at_most(self) -> float:
        """The same for as many gates as share no process."""
        return rate_at_most(self.rate, self.apart) if self.apart else 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """Planted copies of one cell, over all gates: how many were judged, and how many of them called slower."""

    judged: int
    slower: int

    @property
    def rate(self) -> float:
        return self.slower / self.judged


def false_gates(
    measured: Medians,
    gates: int,
    pairing: Pairing = Pairing.AS_MEASURED,
    *,
    pairs: int = SCREENING_PAIRS,
    confirming: int = CONFIRMING_PAIRS,
    seed: int = 0,
) -> FalseGates:
    """Draw so many gates from processes of unchanged code, and decide each as ``ab`` would."""
    lot = np.random.default_rng(seed)
    needed = gate_pairs(pairs, confirming)
    alarms = faster = left_open = confirmed = 0
    for _ in range(gates):
        ratios = unchanged(measured, needed, pairing, lot)
        gate, suite = _decided(measured, ratios, pairs, confirming), _suite(ratios[:, :pairs])
        alarms += suite > 0 or any(_called(case, 1) for case in gate)
        faster += suite < 0 or any(_called(case, -1) for case in gate)
        left_open += any(case.status is Status.OPEN for case in gate if case)
        confirmed += _confirming(gate)
    return FalseGates(gates, alarms, faster, left_open, measured.pairs // needed, confirmed / gates)


def real_gates(gates: Iterable[Gate]) -> FalseGates:
    """The same of gates that were really measured; each has processes of its own. There is at least one."""
    known = list(gates)
    return FalseGates(
        gates=len(known),
        alarms=sum(bool(gate.slower) or gate.exit_code == ExitCode.REGRESSION for gate in known),
        faster=sum(Verdict.FASTER in gate.verdicts.values() for gate in known),
        left_open=sum(Verdict.INCONCLUSIVE in gate.verdicts.values() for gate in known),
        apart=len(known),
        confirming_pairs=float(np.mean([gate.confirming_pairs for gate in known])),
    )


def detection(
    measured: Medians,
    gates: int,
    *,
    pairs: int = SCREENING_PAIRS,
    confirming: int = CONFIRMING_PAIRS,
    seed: int = 0,
) -> dict[Cell, Found]:
    """Draw so many gates from pairs of planted copies, and count what is found, cell by cell.

    Empty where there are fewer pairs than one gate takes: a pair that has screened cannot confirm what it showed, and
    one that confirms twice makes the same luck look like more evidence.

    All copies of a gate are judged together, most of them slowed: the step-down over so many suspects makes a call
    harder than where one kernel of a suite slowed.
    """
    needed = gate_pairs(pairs, confirming)
    if measured.pairs < needed:
        return {}
    lot = np.random.default_rng(seed)
    judged = [_decided(measured, changed(measured, needed, lot), pairs, confirming) for _ in range(gates)]
    found = {}
    for cell, rows in _rows(measured).items():
        decisions = [decision for gate in judged for row in rows if (decision := gate[row])]
        found[cell] = Found(len(decisions), sum(_called(decision, 1) for decision in decisions))
    return found


def shifts(measured: Medians) -> dict[Cell, float]:
    """What the suite measured of each cell over all pairs, as ln(head / base), the mean of its copies."""
    return {cell: float(np.mean([_shift(measured, row) for row in rows])) for cell, rows in _rows(measured).items()}


def real_detection(gates: Iterable[Gate], measured: Medians) -> dict[Cell, tuple[int, int]]:
    """Of gates that were really measured: copies called slower and copies judged, by cell."""
    found: dict[Cell, tuple[int, int]] = {}
    for gate in gates:
        for case in measured.cases:
            cell = cell_of(case)
            if cell:
                slower, judged = found.get(cell, (0, 0))
                found[cell] = slower + (case in gate.slower), judged + 1
    return found


def accuracy(measured: Mapping[Cell, float], planted: Mapping[Cell, float]) -> dict[Cell, float]:
    """How far the suite's shift lies from what was planted by the copies' own clock, as a log ratio; where both are."""
    return {cell: measured[cell] - shift for cell, shift in planted.items() if cell in measured}


def gate_pairs(pairs: int = SCREENING_PAIRS, confirming: int = CONFIRMING_PAIRS) -> int:
    """The pairs of one gate that goes on to its last look."""
    return pairs + looks(confirming)[-1].pairs


def _decided(measured: Medians, ratios: Floats, pairs: int, confirming: int) -> list[Decision | None]:
    """Every case of one gate, its first ``pairs`` screening and the others confirming."""
    judged = [True] * len(measured.cases)
    return decide(ratios[:, :pairs], ratios[:, pairs:], measured.log_time, looks(confirming), judged)


def _suite(screened: Floats) -> int:
    """+1 where the cases moved as one and head was slower, -1 where it was faster, else 0; ``ab`` judges it too."""
    together = moved_together(screened)
    if together is None or together.cases < FEWEST_CASES_FOR_SUITE or not together.moved:
        return 0
    return 1 if together.estimate.shift > 0 else -1


def _rows(measured: Medians) -> dict[Cell, list[int]]:
    """The planted copies of each cell, by row."""
    found: dict[Cell, list[int]] = {}
    for row, case in enumerate(measured.cases):
        if cell := cell_of(case):
            found.setdefault(cell, []).append(row)
    return dict(sorted(found.items()))


def _called(decision: Decision | None, direction: int) -> bool:
    return decision is not None and decision.status is Status.CALLED and decision.direction == direction


def _confirming(gate: Sequence[Decision | None]) -> int:
    """Confirming pairs until the last suspect was decided; 0 without a suspect."""
    return max((case.estimate.pairs for case in gate if case and case.direction), default=0)


def _shift(measured: Medians, row: int) -> float:
    ratios = measured.head[row] - measured.base[row]
    return hodges_lehmann(ratios[np.isfinite(ratios)])
