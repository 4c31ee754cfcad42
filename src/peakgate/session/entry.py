"""One case as the run file keeps it: names and units are part of the schema."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from msgspec import to_builtins

from peakgate.session.outcome import Outcome

Entry = dict[str, Any]
"""One case as the run file keeps it: its ``extra_info``."""


def extra_info(outcome: Outcome) -> dict[str, Any]:
    """One benchmark's ``extra_info``; None where a figure is not known or not claimed."""
    case, figures, resources, samples = outcome.case, outcome.metrics, outcome.resources, outcome.samples
    claimed = case.work.claimed
    interval = samples.median_interval_us if figures and samples else None
    return {
        "case": case.id,
        "family": case.family,
        "stage": case.stage.name,
        "size": case.size,
        "block": case.block,
        "variant": case.variant,
        "state": case.state,
        "gpus": case.gpus,
        "dtype": case.dtype,
        "tier": case.tier.value,
        "host_bound": case.stage.host_bound,
        "bytes": case.work.bytes if claimed else None,
        "flops": case.work.flops if claimed else None,
        "peak_tflops": case.work.peak_tflops,
        "math": case.math,
        "math_given": case.work.math is not None,
        "time_us": _rounded(figures.time_us if figures else None, 4),
        "median_interval_us": [round(each, 4) for each in interval] if interval else None,
        "trimmed_mean_us": _rounded(samples.trimmed_mean_us if figures and samples else None, 5),
        "control_us": _rounded(samples.control_us if samples else None, 5),
        "first_us": _rounded(samples.first_us if samples else None, 4),
        "footprint_bytes": samples.footprint_bytes if samples else None,
        "activity_us": _rounded(samples.activity_us if samples else None, 4),
        "gbs": _rounded(figures.gbs if figures and claimed else None, 2),
        "tflops": _rounded(figures.tflops if figures and claimed else None, 4),
        "peak_fraction": _rounded(figures.peak_fraction if figures else None, 5),
        "bound": figures.bound if figures else None,
        "roof_fraction": _rounded(figures.roof_fraction if figures else None, 5),
        "roof": figures.roof if figures else None,
        "floor": outcome.floor,
        "verdict": outcome.judgement.verdict.value,
        "reason": outcome.judgement.reason,
        "energy": asdict(outcome.energy) if outcome.energy else None,
        "registers": resources.registers if resources else None,
        "spill_bytes": resources.spill_bytes if resources else None,
        "static_shared_bytes": resources.static_shared_bytes if resources else None,
        "dynamic_shared_bytes": case.launch.shared_bytes,
        "shared_bytes": resources.static_shared_bytes + case.launch.shared_bytes if resources else None,
        "occupancy": _rounded(outcome.occupancy.fraction if outcome.occupancy else None, 4),
        "occupancy_limiter": "+".join(outcome.occupancy.limiters) if outcome.occupancy else None,
        "fingerprint": outcome.fingerprint,
        "tuned": to_builtins(outcome.tuned) if outcome.tuned else None,
        "sm_clock_mhz": _rounded(samples.median_sm_clock_mhz if samples else None, 0),
        "power_w": _rounded(samples.power_w if samples else None, 0),
        "power_bound": samples.power_bound if samples else False,
        "samples": len(samples.times_us) if samples else 0,
        "discarded": samples.discarded if samples else 0,
        "sampling": samples.method if samples else None,
        "pair_ratios": [round(each, 6) for each in samples.pair_ratios] if samples and samples.pair_ratios else None,
        "relative_error": outcome.proof.error if outcome.proof else None,
        "tolerance": case.largest_tolerance,
        "error_over_bound": _rounded(outcome.proof.ratio if outcome.proof else None, 6),
        "varying_elements": outcome.proof.varying if outcome.proof else None,
        "probes": outcome.proof.probes if outcome.proof else 0,
        "timed_launches_checked": outcome.proof.timed if outcome.proof else 0,
        "predicted": dict(case.predicted),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
