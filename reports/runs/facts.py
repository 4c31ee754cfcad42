"""What else differs between two sides: a shift may come from there and not from the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peakgate.reports.runs.runfile import Run, RunGpuFacts

GPU_NAMES: Mapping[str, str] = {
    "slug": "GPU",
    "uuid": "GPU uuid",
    "driver": "driver",
    "cuda_driver": "CUDA driver",
    "nvrtc": "NVRTC",
    "cupy": "CuPy",
    "cublas": "cuBLAS",
    "vbios": "VBIOS",
    "sm_clock_max_mhz": "SM clock, most (MHz)",
    "sm_clock_mhz": "SM clock, applied (MHz)",
    "memory_clock_max_mhz": "memory clock, most (MHz)",
    "power_limit_w": "power limit (W)",
    "ecc": "ECC",
    "mig": "MIG",
}
"""What reports call the facts of ``machine_info.gpu`` that a time may depend on."""

GPU_FACTS = tuple(RunGpuFacts.__annotations__)


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same in all sessions of both sides; several values on a side are joined by commas."""

    name: str
    base: str
    new: str


def facts(run: Run) -> dict[str, Any]:
    """What a shift may come from besides the code, by the names of reports; None where the run does not say."""
    of_gpu = {name: run.gpu.get(fact) for fact, name in GPU_NAMES.items()}
    return {"commit": run.commit_label, "tier": run.tier, **of_gpu, "pytest-benchmark": run.benchmark_version}


def differences(base: tuple[Run, ...], new: tuple[Run, ...]) -> tuple[Difference, ...]:
    """The facts that differ, in the order of ``facts``."""
    sides = [[facts(run) for run in side] for side in (base, new)]
    found = []
    for name in sides[0][0]:
        before, after = (sorted({_text(run[name]) for run in side}) for side in sides)
        if before != after or len(before) > 1:
            found.append(Difference(name, ", ".join(before), ", ".join(after)))
    return tuple(found)


def machine_code(base: tuple[Run, ...], new: tuple[Run, ...]) -> str | None:
    """Whether the machine code changed, over the cases whose fingerprints both sides have; None without any."""
    before, after = _cubins(base), _cubins(new)
    known = [case for case in before if case in after]
    changed = [case for case in known if before[case] != after[case]]
    if not known:
        return None
    one = len(known) == 1
    record = "case that records it" if one else "cases that record it"
    if not changed:
        return f"machine code: the same in {'the' if one else f'all {len(known)}'} {record}"
    return f"machine code: changed in {len(changed)} of {len(known)} {record}, first {changed[0]}"


def _cubins(runs: tuple[Run, ...]) -> dict[str, set[str]]:
    """The fingerprints that a side's sessions recorded, by case."""
    found: dict[str, set[str]] = {}
    for run in runs:
        for case, result in run.cases.items():
            if result.fingerprint:
                found.setdefault(case, set()).add(result.fingerprint)
    return found


def _text(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
