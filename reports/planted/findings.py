"""All that a campaign's page shows, from its processes; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from peakgate.reports.planted import attained, others
from peakgate.reports.planted.about import About, Cell
from peakgate.reports.planted.attained import FalseGates
from peakgate.reports.planted.draw import Medians, Pairing, medians
from peakgate.reports.planted.found import Found
from peakgate.reports.planted.others import Tool
from peakgate.reports.planted.processes import Experiment, Processes

TOOL_GATES = 100


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

    @property
    def called(self) -> Mapping[Cell, tuple[int, int]]:
        """Copies called slower by our rule and copies judged: of drawn gates, without any of whole runs of ``ab``."""
        return {cell: (each.slower, each.judged) for cell, each in self.found.items()} or self.real_found

    @property
    def durations_us(self) -> list[int]:
        """Of the planted copies, the shortest first."""
        return sorted({cell.duration_us for cell in self.shifts})

    @property
    def permilles(self) -> list[int]:
        """The planted shares, the least first; 0 is there where copies without a delay were measured."""
        return sorted({cell.permille for cell in self.shifts})


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
