"""What other tools' rules attain on the same processes; pure.

``one``: a process a side, as these tools are used. ``ten``: the screening pairs' processes of each side pooled, for the
tools that take several processes of one side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd
from peakgate.reports.ab.schedule import Stage, Which
from peakgate.reports.planted.about import Cell, cell_of
from peakgate.reports.planted.draw import SCREENING_PAIRS
from peakgate.reports.planted.processes import Processes
from peakgate.reports.planted.rules import RULES, Rule, Side


class Layout(Enum):
    """How many processes a side has."""

    ONE = 1
    TEN = SCREENING_PAIRS


@dataclass(frozen=True, slots=True)
class Tool:
    """One rule in one layout.

    Of ``gates`` with nothing changed ``alarms`` flagged a case slower, ``flags`` cases in the mean gate; ``found`` are
    planted copies flagged slower and copies judged, by cell.
    """

    rule: Rule
    layout: Layout
    gates: int
    alarms: int
    flags: float
    found: dict[Cell, tuple[int, int]]

    @property
    def rate(self) -> float:
        return self.alarms / self.gates


@dataclass(frozen=True, slots=True)
class Sampled:
    """Samples in nanoseconds by process (base's and head's of each pair) and case; all processes have all cases."""

    cases: tuple[str, ...]
    base: tuple[tuple[np.ndarray, ...], ...]
    head: tuple[tuple[np.ndarray, ...], ...]


def tools(same: Processes, steps: Processes, gates: int, *, seed: int = 0, rules: Sequence[Rule] = RULES) -> list[Tool]:
    """Every rule on so many pairs of sides, drawn by lot where there are more of them.

    Unchanged sides are any processes of ``same``, changed ones a base and a head of ``steps``.
    """
    unchanged, changed = sampled(same), sampled(steps)
    found = []
    for layout in Layout:
        used = [rule for rule in rules if layout is Layout.ONE or rule.many_processes]
        nothing = list(_unchanged(unchanged, layout, gates, np.random.default_rng(seed)))
        planted = list(_changed(changed, layout, gates, np.random.default_rng(seed)))
        if nothing and planted:
            found += [_tool(rule, layout, nothing, planted, changed.cases) for rule in used]
    return found


def sampled(processes: Processes) -> Sampled:
    """The samples of the pairs that have some on both sides, of the cases that all of these processes have."""
    frame = processes.samples[processes.samples["stage"] == Stage.SCREEN]
    sides = [frame[frame["side"] == which.value] for which in Which]
    pairs = sorted(set(sides[0]["pair"]) & set(sides[1]["pair"]))
    frame = frame[frame["pair"].isin(pairs)]
    complete = frame.groupby("case").size() == 2 * len(pairs)
    cases = tuple(sorted(complete.index[complete]))
    base, head = (tuple(_process(side, pair, cases) for pair in pairs) for side in sides)
    return Sampled(cases, base, head)


def _process(side: pd.DataFrame, pair: int, cases: Sequence[str]) -> tuple[np.ndarray, ...]:
    rows = side[side["pair"] == pair]
    by_case = dict(zip(rows["case"], rows["samples_ns"], strict=True))
    return tuple(by_case[case] for case in cases)


def _unchanged(measured: Sampled, layout: Layout, gates: int, lot: np.random.Generator) -> Iterator[tuple[Side, Side]]:
    """Two sides of unchanged code without a process in common."""
    processes = (*measured.base, *measured.head)
    size = layout.value
    if len(processes) < 2 * size:
        return
    for _ in range(gates):
        drawn = lot.permutation(len(processes))[: 2 * size].tolist()
        yield _pooled(processes, drawn[:size]), _pooled(processes, drawn[size:])


def _changed(measured: Sampled, layout: Layout, gates: int, lot: np.random.Generator) -> Iterator[tuple[Side, Side]]:
    """A side of base's processes and one of head's, the same two sides at most once."""
    size, there = layout.value, len(measured.base)
    if there < size:
        return
    drawn = {tuple(tuple(sorted(lot.permutation(there)[:size].tolist())) for _ in Which) for _ in range(gates)}
    for base, head in sorted(drawn):
        yield _pooled(measured.base, base), _pooled(measured.head, head)


def _pooled(processes: Sequence[Sequence[np.ndarray]], chosen: Sequence[int]) -> Side:
    return Side.of([np.concatenate(samples) for samples in zip(*(processes[index] for index in chosen), strict=True)])


def _tool(
    rule: Rule,
    layout: Layout,
    nothing: Sequence[tuple[Side, Side]],
    planted: Sequence[tuple[Side, Side]],
    cases: Sequence[str],
) -> Tool:
    false = [int(rule.flags(*sides).sum()) for sides in nothing]
    found: dict[Cell, tuple[int, int]] = {}
    flagged = np.sum([rule.flags(*sides) for sides in planted], axis=0)
    for case, count in zip(cases, flagged.tolist(), strict=True):
        cell = cell_of(case)
        if cell:
            slower, judged = found.get(cell, (0, 0))
            found[cell] = slower + count, judged + len(planted)
    return Tool(rule, layout, len(nothing), sum(each > 0 for each in false), float(np.mean(false)), found)
