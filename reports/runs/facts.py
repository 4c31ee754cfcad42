"""What else differs between two sides: a shift may come from there and not from the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from peakgate.reports.runs.runfile import Run

Reader = Callable[[Run], Any]


FACTS: Mapping[str, Reader] = {
    "commit": lambda run: run.commit_label,
    "tier": lambda run: run.tier,
    "GPU": lambda run: run.gpu.get("slug"),
    "GPU uuid": lambda run: run.gpu.get("uuid"),
    "driver": lambda run: run.gpu.get("driver"),
    "CUDA driver": lambda run: run.gpu.get("cuda_driver"),
    "NVRTC": lambda run: run.gpu.get("nvrtc"),
    "CuPy": lambda run: run.gpu.get("cupy"),
    "cuBLAS": lambda run: run.gpu.get("cublas"),
    "VBIOS": lambda run: run.gpu.get("vbios"),
    "SM clock, most (MHz)": lambda run: run.gpu.get("sm_clock_max_mhz"),
    "SM clock, applied (MHz)": lambda run: run.gpu.get("sm_clock_mhz"),
    "memory clock, most (MHz)": lambda run: run.gpu.get("memory_clock_max_mhz"),
    "power limit (W)": lambda run: run.gpu.get("power_limit_w"),
    "ECC": lambda run: run.gpu.get("ecc"),
    "MIG": lambda run: run.gpu.get("mig"),
    "pytest-benchmark": lambda run: run.benchmark_version,
}

GPU_FACTS = (
    *("slug", "uuid", "name", "driver", "cuda_driver", "nvrtc", "cupy", "cublas", "vbios", "sm_clock_max_mhz"),
    *("sm_clock_mhz", "memory_clock_max_mhz", "power_limit_w", "ecc", "mig", "peak_gbs", "peak_tflops"),
)
"""What a frame of runs holds of ``machine_info.gpu``, each in a column ``gpu_NAME``."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same in all sessions of both sides; several values on a side are joined by commas."""

    name: str
    base: str
    new: str


def differences(base: tuple[Run, ...], new: tuple[Run, ...]) -> tuple[Difference, ...]:
    """The facts that differ, in the order of ``FACTS``."""
    found = []
    for name, read in FACTS.items():
        values = _values(base, read), _values(new, read)
        if values[0] != values[1] or len(values[0]) > 1:
            found.append(Difference(name, *(", ".join(side) for side in values)))
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


def _values(runs: tuple[Run, ...], read: Reader) -> tuple[str, ...]:
    return tuple(sorted({_text(read(run)) for run in runs}))


def _text(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
