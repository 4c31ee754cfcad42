"""What a run writes into pytest-benchmark's JSON, by the run file's schema."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from peakgate.base.config import version
from peakgate.base.formatting import counted
from peakgate.base.verdict import RAN, RIGHT, Verdict, counts
from peakgate.runfile.schema import About, Unmeasured
from peakgate.session.entry import Entry, extra_info
from peakgate.spec.case import CASE_SCHEMA
from peakgate.spec.recorded import ARITHMETIC_ROOFS

if TYPE_CHECKING:
    from peakgate.session.outcome import Outcome
    from peakgate.session.session import Session


def machine_info(session: Session) -> dict[str, Any]:
    """``machine_info.gpu``: the device, its state before the run, and the roofs measured in it."""
    preflight = asdict(session.preflight) if session.preflight else None
    return session.device.describe() | {"preflight": preflight, "roofs": dict(session.roofs)}


def run_info(
    session: Session,
    entries: Sequence[Entry],
    skipped: Mapping[str, str],
    partial: str | None,
    restarts: Sequence[str] = (),
) -> dict[str, Any]:
    """The section ``peakgate`` of the file: request, verdict counts, cases without figures, wall time by step.

    ``entries`` are the ``extra_info`` of all finished cases, ``skipped`` why the device cannot run a case; ``partial``
    is which selected cases are missing, None if none are.
    """
    about = About(
        version=version(),
        device=session.device.kind,
        tier=session.tier,
        seed=session.seed,
        whole=session.whole and partial is None,
        partial=partial,
        verdicts=dict(Counter(entry["verdict"] for entry in entries)),
        not_measured=tuple(Unmeasured(**judged(entry)) for entry in entries if entry["time_us"] is None),
        skipped=dict(skipped),
        wall_s={what: round(seconds, 3) for what, seconds in session.steps.wall_s.items()},
        restarts=tuple(restarts),
    )
    section: dict[str, Any] = to_builtins(about)
    return section


def unsaved(session: Session, outcomes: Sequence[Outcome], commit_info: Mapping[str, Any]) -> dict[str, Any]:
    """A run file of the results so far, for an interim analysis; ``stats`` has only median, iqr and rounds."""
    entries, benchmarks = [extra_info(outcome) for outcome in outcomes], []
    for entry, outcome in zip(entries, outcomes, strict=True):
        if outcome.samples and outcome.metrics:
            times_us = outcome.samples.times_us
            several = len(times_us) > 1
            first, _, third = statistics.quantiles(times_us, n=4, method="inclusive") if several else [0.0] * 3
            stats = {"median": statistics.median(times_us) / 1e6, "iqr": (third - first) / 1e6, "rounds": len(times_us)}
            benchmarks.append({"extra_info": entry, "stats": stats})
    return {
        "peakgate_schema": CASE_SCHEMA,
        "datetime": datetime.now(UTC).isoformat(),
        "machine_info": {"gpu": machine_info(session)},
        "commit_info": dict(commit_info),
        "benchmarks": benchmarks,
        "peakgate": run_info(session, entries, {}, None),
    }


def judged(entry: Entry) -> dict[str, Any]:
    """A case, its verdict and the reason."""
    return {name: entry[name] for name in Unmeasured.__struct_fields__}


def summarised(entry: Entry, place: tuple[str, int] | None) -> dict[str, Any]:
    """A case in the verdict file: its verdict, reason and figures, and the file and line that define it."""
    figures = ("metric", "time_us", "median_interval_us", "gbs", "peak_fraction", "bound", "floor", "relative_error")
    file, line = place or (None, None)
    return {**judged(entry), **{name: entry.get(name) for name in figures}, "file": file, "line": line}


def as_shown(entries: Sequence[Entry], device: str) -> Sequence[Entry]:
    """The entries as a person reads them: of a device whose speed nobody judges RIGHT, or RAN, in place of NO_FLOOR.

    RAN is a case whose result was compared with nothing.
    """
    if device != "cpu":
        return entries
    shown = []
    for entry in entries:
        word = RAN if entry["relative_error"] is None else RIGHT
        shown.append(entry | {"verdict": word} if entry["verdict"] == Verdict.NO_FLOOR else entry)
    return shown


def closing_lines(session: Session, entries: Sequence[Entry], partial: str | None) -> list[str]:
    """The last lines of a run: notes, roofs, the wall time by phase, and the counts."""
    lines = list(session.notes)
    if session.roofs:
        rates = ", ".join(f"{name} {rate:.1f}" for name, rate in session.roofs.items())
        arithmetic = ", ".join(sorted({"fma"} | {*ARITHMETIC_ROOFS} & session.roofs.keys()))
        lines.append(f"roofs of this run (GB/s; {arithmetic} TFLOP/s): {rates}")
    parts = ", ".join(f"{what} {seconds:.1f}" for what, seconds in session.steps.wall_s.items() if what != "total")
    lines.append(f"wall {session.steps.wall_s['total']:.1f} s: {parts}")
    checked = [entry for entry in entries if entry.get("varying_elements") is not None]
    if checked:
        varying = [f"{entry['case']} ({entry['varying_elements']})" for entry in checked if entry["varying_elements"]]
        lines.append(
            f"launched twice on the same data: {counted(len(varying), 'case')} of {len(checked)} differ in some bits"
            + (f" (elements): {', '.join(varying)}" if varying else "")
        )
    verdicts = counts([str(entry["verdict"]) for entry in entries])
    not_judged = "; speed is judged only on a GPU" if session.device.kind == "cpu" else ""
    lines.append(f"{counted(len(entries), 'case')} on {session.device.slug}: {verdicts}{not_judged}")
    if partial is not None:
        lines.append(f"partial run: {partial}")
    return lines
