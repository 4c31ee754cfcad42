"""The tables of the planted-truth page, as Markdown; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reports.ab import decide
from reports.ab.schedule import ALPHA, looks
from reports.planted import attained, others
from reports.planted.about import About, Cell
from reports.planted.attained import FalseGates
from reports.planted.draw import CONFIRMING_PAIRS, SCREENING_PAIRS, Medians, Pairing, medians
from reports.planted.found import Found, table
from reports.planted.others import Layout, Tool
from reports.planted.processes import Experiment, Processes

LAYOUTS = {Layout.ONE: "1", Layout.TEN: str(SCREENING_PAIRS)}
TOOL_GATES = 100
OURS = "**`nox -s ab`**"


@dataclass(frozen=True, slots=True)
class Findings:
    """All that the page shows.

    ``real`` and ``real_found`` are of whole ``ab`` runs, None and empty without any; ``found`` is of drawn gates, empty
    where the pairs are too few. ``sample_pairs`` are those of unchanged code and of copies whose samples the other
    tools' rules had, ``most_samples`` the most of a process and case.
    """

    about: About
    same: Medians
    steps: Medians
    real: FalseGates | None
    drawn: Mapping[Pairing, FalseGates]
    found: Mapping[Cell, attained.Found]
    real_found: Mapping[Cell, tuple[int, int]]
    shifts: Mapping[Cell, float]
    mutants: Found
    tools: Sequence[Tool]
    sample_pairs: tuple[int, int]
    most_samples: int


def findings(about: About, same: Processes, steps: Processes, mutants: Found, gates: int) -> Findings:
    """Draw so many gates of either experiment for our rule, and TOOL_GATES at most for each other rule."""
    measured, planted = medians(same.summary), medians(steps.summary)
    real = {each: [gate for gate in about.gates if gate.experiment is each] for each in Experiment}
    return Findings(
        about=about,
        same=measured,
        steps=planted,
        real=attained.real_gates(real[Experiment.SAME]) if real[Experiment.SAME] else None,
        drawn={pairing: attained.false_gates(measured, gates, pairing) for pairing in Pairing},
        found=attained.detection(planted, gates),
        real_found=attained.real_detection(real[Experiment.STEPS], planted),
        shifts=attained.shifts(planted),
        mutants=mutants,
        tools=others.tools(same, steps, min(gates, TOOL_GATES)),
        sample_pairs=(same.samples["pair"].nunique(), steps.samples["pair"].nunique()),
        most_samples=max(len(samples) for each in (same, steps) for samples in each.samples["samples_ns"]),
    )


def facts(found: Findings) -> str:
    """Where and how much was measured, and the rule's constants."""
    about = found.about
    return (
        f"{about.gpu}, driver {about.driver}, {about.taken[:10]}, commit {about.commit}: {found.same.pairs} pairs"
        f" of processes of the gate tier ({len(found.same.cases)} cases) with nothing changed,"
        f" {found.steps.pairs} pairs of {len(found.steps.cases)} copies."
        f" The rule: {SCREENING_PAIRS} screening pairs, suspects below p = {decide.SCREEN_P:g} and beyond"
        f" {_shift(decide.SCREEN_SHIFT)}, up to {looks(CONFIRMING_PAIRS)[-1].pairs} confirming pairs, called beyond"
        f" {_shift(decide.SMALLEST_SHIFT)} at {_percent(ALPHA)} error of all cases together."
    )


def false_gates(found: Findings) -> str:
    """Our rule with nothing changed: whole runs of ``ab``, and gates drawn from the same processes."""
    rows = [("whole runs of `ab`", found.real)] if found.real else []
    rows += [(f"drawn: {pairing.value}", each) for pairing, each in found.drawn.items()]
    return _table(
        ("gates", "count", "a false SLOWER", "at most, 95 %", "by gates apart", "a false FASTER", "left open", "pairs"),
        (
            (
                name,
                str(each.gates),
                f"{each.alarms} ({_percent(each.rate)})",
                _percent(each.at_most),
                f"{_percent(each.surely_at_most)} ({each.apart})",
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
        return f"{whole} ({_percent(found.found[at].rate)})" if at in found.found else whole

    drawn = (
        "In brackets the share of drawn gates."
        if found.found
        else f"No gates are drawn: one takes {attained.gate_pairs()} pairs, and there are {found.steps.pairs}."
    )
    return f"{_by_cell(found, cell, 'planted')}\n\n{drawn}"


def shifts(found: Findings) -> str:
    """What the suite measured of each cell in percent, and how far that is from the copies' own timing."""
    off = attained.accuracy(found.shifts, found.about.planted)

    def cell(at: Cell) -> str:
        if at not in found.shifts:
            return "–"
        told = f"{100 * math.expm1(found.shifts[at]):.2f} %"
        return f"{told} ({100 * off[at]:+.2f})" if at in off else told

    return _by_cell(found, cell, "measured")


def tools(found: Findings) -> str:
    """Every rule on the same processes: false gates, and percent found by duration, one number each."""
    durations = _durations(found)
    shares = [share for share in _shares(found) if share]
    ours = found.drawn[Pairing.AS_MEASURED]
    called = {cell: (each.slower, each.judged) for cell, each in found.found.items()} or found.real_found
    rows = [
        (OURS, "pairs", _percent(ours.rate), *(_rates_line(called, durations, share) for share in shares)),
        *(
            (
                tool.rule.name,
                LAYOUTS[tool.layout],
                _percent(tool.rate),
                *(_rates_line(tool.found, durations, share) for share in shares),
            )
            for tool in found.tools
        ),
    ]
    told = " / ".join(f"{duration:g}" for duration in durations)
    head = ("rule", "processes a side", "false gates", *(f"{share / 10:g} %" for share in shares))
    drawn = max((tool.gates for tool in found.tools), default=0)
    return (
        _table(head, rows) + f"\n\nPercent of copies called slower, of {told} µs in this order; ours by"
        f" {'drawn gates' if found.found else 'whole runs'}, the others on up to {drawn} drawings from the pairs whose"
        f" samples were kept, {found.sample_pairs[0]} of unchanged code and {found.sample_pairs[1]} of copies, of each"
        f" process and case the first {found.most_samples}."
    )


def planted_mutants(found: Findings) -> str:
    """Every mutant and what the A/B made of it."""
    return table(found.mutants)


def walls(found: Findings) -> str:
    """How long whole runs of ``ab`` took."""
    return _table(
        ("head is", "cases", "screening pairs", "confirming pairs", "seconds"),
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
    "planted-facts": facts,
    "planted-false": false_gates,
    "planted-found": detected,
    "planted-shifts": shifts,
    "planted-mutants": planted_mutants,
    "planted-walls": walls,
    "planted-tools": tools,
}
"""What each block of the page is filled with."""


def _by_cell(found: Findings, told: Callable[[Cell], str], corner: str) -> str:
    shares = _shares(found)
    return _table(
        (corner, *(f"{share / 10:g} %" for share in shares)),
        ((f"{duration} µs", *(told(Cell(duration, share)) for share in shares)) for duration in _durations(found)),
    )


def _rates_line(found: Mapping[Cell, tuple[int, int]], durations: Sequence[int], share: int) -> str:
    """Percent called slower of those judged, a number a duration."""
    cells = [found.get(Cell(duration, share)) for duration in durations]
    return " / ".join("–" if cell is None else f"{100 * cell[0] / cell[1]:.0f}" for cell in cells)


def _durations(found: Findings) -> list[int]:
    return sorted({cell.duration_us for cell in found.shifts})


def _shares(found: Findings) -> list[int]:
    return sorted({cell.permille for cell in found.shifts})


def _shift(log_shift: float) -> str:
    return f"{100 * math.expm1(log_shift):.2g} %"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
