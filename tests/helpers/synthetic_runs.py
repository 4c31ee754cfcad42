"""Synthetic run files: the shape of real ones, with times a test chooses."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PEAK_GBS = 4814.0
BYTES = 134_217_728

LADDER = {
    f"transpose.{stage}-{size}-32x8": 40.0 * factor * (size / 4096) ** 2
    for size in (4096, 8192, 16384)
    for stage, factor in (("naive_row", 3.4), ("naive_col", 2.1), ("smem", 1.9), ("smem_pad", 1.0), ("hinted", 0.9))
}
"""Fifteen cases from 36 µs up, as {case: median in µs}: enough for a suite-wide line."""


def benchmark(case: str, time_us: float, /, *, samples: int = 40, iqr: float = 0.003, **extra: Any) -> dict[str, Any]:
    """One benchmark entry; ``iqr`` is relative to the median, ``extra`` overrides extra_info.

    Work, rate and fraction of peak agree: each that is given sets those that are not.
    """
    median_s = time_us * 1e-6
    family, _, rest = case.partition(".")
    stage, *labels = rest.split("-")
    fraction = extra.get("peak_fraction") if extra.get("bound", "memory") == "memory" else None
    claimed_gbs = min(extra.get("bytes", BYTES) / median_s / 1e9, 0.9 * PEAK_GBS)
    gbs = extra.get("gbs", claimed_gbs if fraction is None else fraction * PEAK_GBS)
    tflops = extra.get("tflops", 0.0)
    return {
        "group": family,
        "name": f"test_kernel[{case}]",
        "fullname": f"suite/bench_kernels.py::test_kernel[{case}]",
        "params": {"case": case},
        "stats": {
            "min": median_s * 0.99,
            "max": median_s * 1.05,
            "mean": median_s,
            "stddev": median_s * iqr / 1.349,
            "rounds": samples,
            "median": median_s,
            "iqr": median_s * iqr,
            "q1": median_s * (1 - iqr / 2),
            "q3": median_s * (1 + iqr / 2),
        },
        "extra_info": {
            "case": case,
            "family": family,
            "stage": stage,
            "size": labels[0] if labels else "",
            "block": labels[1] if len(labels) > 1 else "",
            "variant": "",
            "dtype": "float32",
            "bytes": _work(gbs, median_s * 1e9),
            "flops": _work(tflops, median_s * 1e12),
            "time_us": time_us,
            "gbs": gbs,
            "tflops": tflops,
            "peak_fraction": None if gbs is None else gbs / PEAK_GBS,
            "bound": "memory",
            "roof_fraction": None,
            "roof": "copy",
            "floor": None,
            "verdict": "PASS",
            "reason": "",
            "registers": 32,
            "spill_bytes": 0,
            "shared_bytes": 4224,
            "occupancy": 1.0,
            "occupancy_limiter": "warps",
            "fingerprint": None,
            "sm_clock_mhz": 1980,
            "samples": samples,
            "discarded": 0,
            "sampling": "flush, hold, event",
            "relative_error": 0.0,
        }
        | extra,
    }


def _work(rate: float | None, factor: float) -> int | None:
    return None if rate is None or not math.isfinite(rate) else round(rate * factor)


def document(
    times_us: Mapping[str, float] = LADDER,
    *,
    day: int = 1,
    commit: str = "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678",
    dirty: bool = False,
    tier: str = "full",
    whole: bool = True,
    not_measured: Sequence[Mapping[str, str]] = (),
    extra: Mapping[str, Mapping[str, Any]] | None = None,
    **gpu: Any,
) -> dict[str, Any]:
    """A whole run taken on that day of November 2026; ``extra`` is keyed by case, ``gpu`` overrides machine_info."""
    reported = extra or {}
    return {
        "machine_info": {
            "gpu": {
                "name": "NVIDIA H200",
                "slug": "nvidia-h200",
                "uuid": "GPU-0001",
                "compute_capability": "9.0",
                "driver": "580.159.04",
                "cuda_driver": "13.0",
                "nvrtc": "13.0",
                "cupy": "14.2.0",
                "vbios": "96.00.A5.00.01",
                "sm_count": 132,
                "sm_clock_max_mhz": 1980,
                "sm_clock_mhz": 1980,
                "memory_clock_max_mhz": 3201,
                "power_limit_w": 700,
                "ecc": True,
                "mig": False,
                "peak_gbs": PEAK_GBS,
            }
            | gpu
        },
        "commit_info": {"id": commit, "time": "2026-11-01T10:00:00+00:00", "dirty": dirty, "branch": "main"},
        "benchmarks": [benchmark(case, time_us, **reported.get(case, {})) for case, time_us in times_us.items()],
        "datetime": f"2026-11-{day:02d}T12:00:00+00:00",
        "version": "5.3.1",
        "peakgate_schema": 1,
        "peakgate": {
            "device": "gpu",
            "tier": tier,
            "whole": whole,
            "not_measured": list(not_measured),
            "wall_s": {"all": 60.0},
        },
    }


def save(folder: Path, name: str, content: Mapping[str, Any]) -> Path:
    """Write a run file and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def slower(case: str, factor: float, times_us: Mapping[str, float] = LADDER) -> dict[str, float]:
    """The same times, but for one case."""
    return {**times_us, case: times_us[case] * factor}
