"""What a run leaves in pytest-benchmark's JSON: names and units are part of the schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from peakgate.common.text import counted
from peakgate.run.session import Outcome, Session
from peakgate.verdict import Verdict, counts

Entry = dict[str, Any]
"""One case as the run file keeps it: its ``extra_info``."""


def extra_info(outcome: Outcome) -> dict[str, Any]:
    """One benchmark's ``extra_info``; None where a figure is not known or not claimed."""
    case, figures, resources, samples = outcome.case, outcome.metrics, outcome.resources, outcome.samples
    claimed = case.work.claimed
    return {
        "case": case.id,
        "family": case.family,
        "stage": case.stage.name,
        "size": case.size,
        "block": case.block,
        "variant": case.variant,
        "dtype": case.dtype,
        "tier": case.tier.value,
        "host_bound": case.stage.host_bound,
        "bytes": case.work.bytes if claimed else None,
        "flops": case.work.flops if claimed else None,
        "peak_tflops": case.work.peak_tflops,
        "time_us": _rounded(figures.time_us if figures else None, 4),
        "trimmed_mean_us": _rounded(samples.trimmed_mean_us if figures and samples else None, 5),
        "control_us": _rounded(samples.control_us if samples else None, 5),
        "gbs": _rounded(figures.gbs if figures and claimed else None, 2),
        "tflops": _rounded(figures.tflops if figures and claimed else None, 4),
        "peak_fraction": _rounded(figures.peak_fraction if figures else None, 5),
        "bound": figures.bound if figures else None,
        "roof_fraction": _rounded(figures.roof_fraction if figures else None, 5),
        "roof": figures.roof if figures else None,
        "floor": outcome.floor,
        "verdict": outcome.judgement.verdict.value,
        "reason": outcome.judgement.reason,
        "registers": resources.registers if resources else None,
        "spill_bytes": resources.spill_bytes if resources else None,
        "static_shared_bytes": resources.static_shared_bytes if resources else None,
        "dynamic_shared_bytes": case.launch.shared_bytes,
        "shared_bytes": resources.static_shared_bytes + case.launch.shared_bytes if resources else None,
        "occupancy": _rounded(outcome.occupancy.fraction if outcome.occupancy else None, 4),
        "occupancy_limiter": "+".join(outcome.occupancy.limiters) if outcome.occupancy else None,
        "fingerprint": outcome.fingerprint,
        "sm_clock_mhz": _rounded(samples.median_sm_clock_mhz if samples else None, 0),
        "samples": len(samples.times_us) if samples else 0,
        "discarded": samples.discarded if samples else 0,
        "sampling": samples.method if samples else None,
        "relative_error": outcome.proof.error if outcome.proof else None,
        "tolerance": case.largest_tolerance,
        "error_over_bound": _rounded(outcome.proof.ratio if outcome.proof else None, 6),
        "varying_elements": outcome.proof.varying if outcome.proof else None,
        "probes": outcome.proof.probes if outcome.proof else 0,
        "predicted": dict(case.predicted),
    }


def machine_info(session: Session) -> dict[str, Any]:
    """``machine_info.gpu``: the device, its state before the run, and the roofs measured in it."""
    preflight = asdict(session.preflight) if session.preflight else None
    return session.device.describe() | {"preflight": preflight, "roofs": dict(session.roofs)}


def run_info(session: Session, entries: Sequence[Entry], skipped: Mapping[str, str], partial: str | None) -> Entry:
    """The file's own section: what was asked for, verdict counts, cases without figures, where the time went.

    ``entries`` are the ``extra_info`` of all finished cases, ``skipped`` why the device cannot run a case; ``partial``
    says what the run lacks of what it was to measure, None where it lacks nothing.
    """
    return {
        "device": session.device.kind,
        "tier": session.tier.value,
        "whole": session.whole and partial is None,
        "partial": partial,
        "verdicts": dict(Counter(entry["verdict"] for entry in entries)),
        "not_measured": [judged(entry) for entry in entries if entry["time_us"] is None],
        "skipped": dict(skipped),
        "wall_s": {what: round(seconds, 3) for what, seconds in session.wall_s.items()},
    }


def judged(entry: Entry) -> dict[str, str]:
    """A case, its verdict and the reason."""
    return {name: entry[name] for name in ("case", "verdict", "reason")}


def closing_lines(session: Session, entries: Sequence[Entry], partial: str | None) -> list[str]:
    """What a run says last: notes, roofs, where the wall time went, and the counts."""
    lines = list(session.notes)
    if session.roofs:
        rates = ", ".join(f"{name} {rate:.1f}" for name, rate in session.roofs.items())
        lines.append(f"roofs of this run (GB/s; fma TFLOP/s): {rates}")
    parts = ", ".join(f"{what} {seconds:.1f}" for what, seconds in session.wall_s.items() if what != "total")
    lines.append(f"wall {session.wall_s['total']:.1f} s: {parts}")
    checked = [entry for entry in entries if entry.get("varying_elements") is not None]
    if checked:
        varying = [f"{entry['case']} ({entry['varying_elements']})" for entry in checked if entry["varying_elements"]]
        lines.append(
            f"launched twice on the same data: {counted(len(varying), 'case')} of {len(checked)} differ in some bits"
            + (f" (elements): {', '.join(varying)}" if varying else "")
        )
    verdicts = [Verdict(entry["verdict"]) for entry in entries]
    lines.append(f"{counted(len(entries), 'case')} on {session.device.slug}: {counts(verdicts)}")
    if partial is not None:
        lines.append(f"partial run: {partial}")
    return lines


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
