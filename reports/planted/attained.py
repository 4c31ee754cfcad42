"""What the rule of ``ab`` attains on measured processes: false gates, and planted slowdowns found; pure.

The rule and its constants are ``reports.ab.decide``'s, so that a change there shows here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reports.ab.decide import Decision, Status, decide, hodges_lehmann
from reports.ab.schedule import looks
from reports.noise import Floats
from reports.planted.about import Cell, Gate, cell_of
from reports.planted.draw import CONFIRMING_PAIRS, SCREENING_PAIRS, Medians, Pairing, changed, unchanged
from reports.selftest.resample import rate_at_most


@dataclass(frozen=True, slots=True)
class FalseGates:
    """Gates of unchanged code.

    ``alarms`` called a case slower, ``faster`` called one faster, ``left_open`` left one undecided, by number of
    gates. ``apart`` is how many gates could be drawn that share no process; the drawn ones share theirs, so their rate
    is known no better than from as many. ``confirming_pairs`` are those of the mean gate.
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
    """Planted copies of one cell, over all gates: how many were judged, called slower, called faster, left open.

    ``measured`` is ln(head / base) over all measured pairs, ``copies`` how many there are of it.
    """

    copies: int
    judged: int
    slower: int
    faster: int
    left_open: int
    measured: float

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
    needed = pairs + _last_look(confirming)
    drawn = (unchanged(measured, needed, pairing, lot) for _ in range(gates))
    judged = list(_decided(measured, drawn, pairs, confirming))
    return FalseGates(
        gates=gates,
        alarms=sum(any(_called(case, 1) for case in gate) for gate in judged),
        faster=sum(any(_called(case, -1) for case in gate) for gate in judged),
        left_open=sum(any(case.status is Status.OPEN for case in gate if case) for gate in judged),
        apart=measured.pairs // needed,
        confirming_pairs=float(np.mean([_confirming(gate) for gate in judged])),
    )


def real_gates(gates: Iterable[Gate]) -> FalseGates:
    """The same of gates that were really measured; each has processes of its own. There is at least one."""
    known = list(gates)
    return FalseGates(
        gates=len(known),
        alarms=sum(bool(gate.slower) for gate in known),
        faster=sum("FASTER" in gate.verdicts.values() for gate in known),
        left_open=sum("INCONCLUSIVE" in gate.verdicts.values() for gate in known),
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

    All copies of a gate are judged together, most of them slowed: the step-down over so many suspects makes a call
    harder than where one kernel of a suite slowed.
    """
    lot = np.random.default_rng(seed)
    cells = [cell_of(case) for case in measured.cases]
    drawn = (changed(measured, pairs + _last_look(confirming), lot) for _ in range(gates))
    judged = list(_decided(measured, drawn, pairs, confirming))
    found = {}
    for cell in sorted({cell for cell in cells if cell}):
        rows = [row for row, each in enumerate(cells) if each == cell]
        decisions = [decision for gate in judged for row in rows if (decision := gate[row])]
        found[cell] = Found(
            copies=len(rows),
            judged=len(decisions),
            slower=sum(_called(decision, 1) for decision in decisions),
            faster=sum(_called(decision, -1) for decision in decisions),
            left_open=sum(decision.status is Status.OPEN for decision in decisions),
            measured=float(np.mean([_shift(measured, row) for row in rows])),
        )
    return found


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


def accuracy(found: Mapping[Cell, Found], planted: Mapping[Cell, float]) -> dict[Cell, float]:
    """How far the suite's shift lies from the copies' own timing, as a log ratio, where a campaign has both."""
    return {cell: found[cell].measured - shift for cell, shift in planted.items() if cell in found}


def _decided(
    measured: Medians, drawn: Iterable[Floats], pairs: int, confirming: int
) -> Iterator[list[Decision | None]]:
    planned, log_time = looks(confirming), measured.log_time
    judged = [True] * len(measured.cases)
    for ratios in drawn:
        yield decide(ratios[:, :pairs], ratios[:, pairs:], log_time, planned, judged)


def _last_look(confirming: int) -> int:
    return looks(confirming)[-1].pairs


def _called(decision: Decision | None, direction: int) -> bool:
    return decision is not None and decision.status is Status.CALLED and decision.direction == direction


def _confirming(gate: Sequence[Decision | None]) -> int:
    """Confirming pairs until the last suspect was decided; 0 without a suspect."""
    return max((case.estimate.pairs for case in gate if case and case.direction), default=0)


def _shift(measured: Medians, row: int) -> float:
    ratios = measured.head[row] - measured.base[row]
    return hodges_lehmann(ratios[np.isfinite(ratios)])
