"""What a campaign's tables come to, in sentences; every figure is computed from the findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from peakgate.reports.planted.about import Cell
from peakgate.reports.planted.attained import FalseGates
from peakgate.reports.planted.draw import Pairing
from peakgate.reports.planted.findings import Findings
from peakgate.reports.planted.others import Tool
from peakgate.reports.planted.processes import Experiment

FOUND = 0.95
"""From this share of copies on a slowdown counts as found."""

QUIET = 0.05
"""A rule that fails unchanged code in more gates than this is no gate."""


def in_short(found: Findings) -> str:
    """False gates, the least slowdown that is found, mutants, time: a line each."""
    lines = [
        f"- **Nothing changed.** {_silent(found)}",
        f"- **Known slowdowns.** {_found_by(found)}: {_least_found(found)}.",
        f"- **Mistakes.** {_mistakes(found)}",
    ]
    if found.about.gates:
        lines.append(f"- **Time.** {_time(found)}")
    return "\n".join(lines)


def compared(found: Findings) -> str:
    """Our rule against the others: false gates, and what is found all durations taken together."""
    shares = [share for share in found.permilles if share]
    largest = shares[-1]
    ours = " / ".join(f"{100 * our_rate(found, share):.0f}" for share in shares)
    planted = " / ".join(f"{share / 10:g}" for share in shares)
    silent = f"With nothing changed `nox -s ab` called a case slower in {percent(_drawn(found).rate)} of gates"
    told = [f"{silent}; of copies slowed by {planted} % it found {ours} %."]
    quiet = [tool for tool in found.tools if tool.rate <= QUIET]
    loud = [tool.rate for tool in found.tools if tool.rate > QUIET]
    if quiet:
        best = max(quiet, key=lambda tool: their_rate(tool, largest))
        told.append(
            f"Of the other {len(found.tools)} (a rule that takes several processes counts twice) {len(quiet)} did so in"
            f" {percent(QUIET)} of gates or fewer, and found {100 * their_rate(best, largest):.0f} % of the copies"
            f" slowed by {largest / 10:g} %{' at best' if len(quiet) > 1 else ''}."
        )
    if loud:
        rest = f"The remaining {len(loud)}" if quiet else f"The other {len(loud)} rules"
        told.append(f"{rest} called unchanged code slower in {_range(100 * rate for rate in loud)} % of gates.")
    return " ".join(told)


def our_rate(found: Findings, permille: int) -> float:
    """The share of copies so much slower that our rule called slower, over all durations."""
    return _rate(found.called, permille)


def their_rate(tool: Tool, permille: int) -> float:
    """The same of another tool's rule."""
    return _rate(tool.found, permille)


def _rate(called: Mapping[Cell, tuple[int, int]], permille: int) -> float:
    cells = [counts for cell, counts in called.items() if cell.permille == permille]
    return sum(slower for slower, _ in cells) / max(1, sum(judged for _, judged in cells))


def percent(share: float) -> str:
    """Three digits at most: ``0.4 %``."""
    return f"{100 * share:.3g} %"


def _drawn(found: Findings) -> FalseGates:
    return found.drawn[Pairing.AS_MEASURED]


def _silent(found: Findings) -> str:
    drawn = _drawn(found)
    whole = f"{found.real.alarms} of {found.real.gates} whole runs of `ab`, and in " if found.real else ""
    return f"A case was called slower in {whole}{drawn.alarms} of {drawn.gates} gates drawn from their processes."


def _found_by(found: Findings) -> str:
    if found.found:
        return f"Copies of these durations were called slower in {percent(FOUND)} of drawn gates or more"
    whole = sum(gate.experiment is Experiment.STEPS for gate in found.about.gates)
    runs = f"{whole} whole run" if whole == 1 else f"{whole} whole runs"
    return f"Of copies of these durations {percent(FOUND)} or more were called slower, in {runs} of `ab`"


def _least_found(found: Findings) -> str:
    return ", ".join(f"{duration} µs {_from(found, duration)}" for duration in found.durations_us)


def _from(found: Findings, duration_us: int) -> str:
    """The least planted share from which on every one was found."""
    least = None
    for share in sorted((share for share in found.permilles if share), reverse=True):
        slower, judged = found.called.get(Cell(duration_us, share), (0, 0))
        if not judged or slower < FOUND * judged:
            break
        least = share
    return "at no share that was planted" if least is None else f"from {least / 10:g} %"


def _mistakes(found: Findings) -> str:
    caught = [mutant for mutant in found.mutants.mutants if mutant.caught]
    told = f"{len(caught)} of {len(found.mutants.mutants)} planted mistakes were called slower"
    if caught:
        told += f", the least of them by {min(mutant.cases[0].percent_slower for mutant in caught):.1f} %"
    return f"{told}; of {found.mutants.untouched} untouched cases {len(found.mutants.flagged)} were flagged."


def _time(found: Findings) -> str:
    told = [
        f"{_range(seconds)} s {what}"
        for experiment, what in (
            (Experiment.ONE, "where one kernel changed"),
            (Experiment.MUTANTS, "where all mutants had changed"),
            (Experiment.SAME, "with everything measured though nothing changed"),
        )
        if (seconds := [gate.seconds for gate in found.about.gates if gate.experiment is experiment])
    ]
    return f"A whole run of `ab` took {', '.join(told)}." if told else "No whole run of unchanged code was timed."


def _range(values: Iterable[float]) -> str:
    known: Sequence[float] = sorted(values)
    least, most = f"{known[0]:.0f}", f"{known[-1]:.0f}"
    return least if least == most else f"{least} to {most}"
