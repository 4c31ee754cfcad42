"""The tables of the planted-truth page, as Markdown; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from peakgate.reports.ab import decide
from peakgate.reports.ab.schedule import ALPHA, looks
from peakgate.reports.planted import attained
from peakgate.reports.planted.about import Cell, Origin
from peakgate.reports.planted.draw import CONFIRMING_PAIRS, SCREENING_PAIRS, Pairing
from peakgate.reports.planted.findings import Findings
from peakgate.reports.planted.found import table
from peakgate.reports.planted.others import Layout
from peakgate.reports.planted.processes import Experiment
from peakgate.reports.planted.sentences import compared, in_short, our_rate, percent, their_rate

LAYOUTS = {Layout.ONE: "1", Layout.TEN: str(SCREENING_PAIRS)}
OURS = "**`nox -s ab`**"
OUR_PROCESSES = f"{SCREENING_PAIRS} to {SCREENING_PAIRS + looks(CONFIRMING_PAIRS)[-1].pairs}"


def facts(found: Findings) -> str:
    """Where and how much was measured, and the rule's constants."""
    about = found.about
    measured = {
        Experiment.SAME: f"{found.same.pairs} pairs of the gate tier ({len(found.same.cases)} cases), nothing changed",
        Experiment.STEPS: f"{found.steps.pairs} pairs of {len(found.steps.cases)} copies",
        Experiment.MUTANTS: f"{len(found.mutants.mutants)} mutants",
    }
    told = [f"{what} ({_origin(about.origins[each])})" for each, what in measured.items() if each in about.origins]
    return (
        f"{about.gpu}, driver {about.driver}, pairs of processes: {'; '.join(told)}."
        f" The rule: {SCREENING_PAIRS} screening pairs, suspects below p = {decide.SCREEN_P:g} and beyond"
        f" {_shift(decide.SCREEN_SHIFT)}, up to {looks(CONFIRMING_PAIRS)[-1].pairs} confirming pairs, called beyond"
        f" {_shift(decide.SMALLEST_SHIFT)} at {percent(ALPHA)} error of all cases together."
    )


def false_gates(found: Findings) -> str:
    """Our rule with nothing changed: whole runs of ``ab``, and gates drawn from the same processes."""
    rows = [("whole runs of `ab`", found.real)] if found.real else []
    rows += [(f"drawn: {pairing.value}", each) for pairing, each in found.drawn.items()]
    return _table(
        (
            *("gates", "how many", "called something slower", "true rate at most (95 %)"),
            *("at most, by gates that share no process", "called something faster", "left something open"),
            "confirming pairs",
        ),
        (
            (
                name,
                str(each.gates),
                f"{each.alarms} ({percent(each.rate)})",
                percent(each.at_most),
                f"{percent(each.surely_at_most)} ({each.apart})",
                str(each.faster),
                str(each.left_open),
                f"{each.confirming_pairs:.1f}",
            )
            for name, each in rows
        ),
    )


def detected(found: Findings) -> str:
    """Our rule on the planted copies: what whole runs of ``ab`` called slower; in brackets percent of drawn gates."""

    def cell(at: Cell) -> str:
        slower, judged = found.real_found.get(at, (0, 0))
        whole = f"{slower} of {judged}" if judged else "–"
        return f"{whole} ({percent(found.found[at].rate)})" if at in found.found else whole

    drawn = (
        "In brackets the share of drawn gates;"
        f" {found.steps.pairs // attained.gate_pairs()} of them could be drawn that share no process."
        if found.found
        else f"No gates are drawn: one takes {attained.gate_pairs()} pairs, and there are {found.steps.pairs}."
    )
    return f"{_by_cell(found, cell)}\n\n{drawn}"


def shifts(found: Findings) -> str:
    """What the suite measured of each cell, and how far that is from what was planted by the copies' clock."""
    off = attained.accuracy(found.shifts, found.about.planted)

    def cell(at: Cell) -> str:
        if at not in found.shifts:
            return "–"
        told = f"{100 * math.expm1(found.shifts[at]):.2f} %"
        return f"{told} ({100 * off[at]:+.2f})" if at in off else told

    return _by_cell(found, cell)


def tools(found: Findings) -> str:
    """Every rule on the same processes: false gates and percent found; below, folded, the same by duration."""
    shares = [share for share in found.permilles if share]
    drawn = max((tool.gates for tool in found.tools), default=0)
    told = " / ".join(f"{duration:g}" for duration in found.durations_us)
    summary = _table(
        (
            "rule",
            "processes a side",
            "unchanged code called slower",
            *(f"found at {share / 10:g} %" for share in shares),
        ),
        (
            (name, processes, percent(rate), *(f"{100 * each:.0f} %" for each in rates))
            for name, processes, rate, rates in _all_rules(found, shares)
        ),
    )
    by_duration = _table(
        ("rule", "processes a side", *(f"{share / 10:g} %" for share in shares)),
        (
            (OURS, OUR_PROCESSES, *(_rates_line(found.called, found, share) for share in shares)),
            *(
                (tool.rule.name, LAYOUTS[tool.layout], *(_rates_line(tool.found, found, share) for share in shares))
                for tool in found.tools
            ),
        ),
    )
    whose = "drawn gates" if found.found else "whole runs"
    return (
        f"{compared(found)} Found are copies called slower, of all durations, by {whose} of ours; the other rules were"
        f" asked up to {drawn} times, of the pairs whose samples were kept: {found.sample_pairs[0]} of unchanged code"
        f" and {found.sample_pairs[1]} of copies, of each process and case the first {found.most_samples}.\n\n"
        f"{summary}\n\n"
        f"<details><summary>By duration: percent of copies of {told} µs, in this order</summary>\n\n"
        f"{by_duration}\n\n</details>"
    )


def _all_rules(found: Findings, shares: Sequence[int]) -> Iterator[tuple[str, str, float, list[float]]]:
    """Each rule with its processes, rate of false gates, and rate found at each share."""
    yield OURS, OUR_PROCESSES, found.drawn[Pairing.AS_MEASURED].rate, [our_rate(found, share) for share in shares]
    for tool in found.tools:
        yield tool.rule.name, LAYOUTS[tool.layout], tool.rate, [their_rate(tool, share) for share in shares]


def planted_mutants(found: Findings) -> str:
    """Every mutant and what the A/B made of it."""
    return table(found.mutants)


def walls(found: Findings) -> str:
    """How long whole runs of ``ab`` took."""
    return _table(
        ("head is", "cases measured", "screening pairs", "confirming pairs", "seconds"),
        (
            (
                HEADS[gate.experiment],
                str(gate.cases),
                str(gate.screening_pairs),
                str(gate.confirming_pairs),
                f"{gate.seconds:.0f}",
            )
            for gate in found.about.gates
        ),
    )


HEADS = {
    Experiment.SAME: "the same, all measured",
    Experiment.STEPS: "slowed copies, nothing else measured",
    Experiment.MUTANTS: "all mutants, all measured",
    Experiment.ONE: "one mutant, the unchanged skipped",
}

BLOCKS = {
    "planted-short": in_short,
    "planted-facts": facts,
    "planted-false": false_gates,
    "planted-found": detected,
    "planted-shifts": shifts,
    "planted-mutants": planted_mutants,
    "planted-walls": walls,
    "planted-tools": tools,
}
"""What each block of the page is filled with."""


def _by_cell(found: Findings, told: Callable[[Cell], str]) -> str:
    shares = found.permilles
    return _table(
        ("duration", *(f"{share / 10:g} %" for share in shares)),
        ((f"{duration} µs", *(told(Cell(duration, share)) for share in shares)) for duration in found.durations_us),
    )


def _rates_line(called: Mapping[Cell, tuple[int, int]], found: Findings, share: int) -> str:
    """Percent called slower of those judged, a number a duration."""
    cells = [called.get(Cell(duration, share)) for duration in found.durations_us]
    return " / ".join("–" if cell is None else f"{100 * cell[0] / cell[1]:.0f}" for cell in cells)


def _origin(origin: Origin) -> str:
    return f"{origin.taken[:10]}, commit {origin.commit}"


def _shift(log_shift: float) -> str:
    return f"{100 * math.expm1(log_shift):.2g} %"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
