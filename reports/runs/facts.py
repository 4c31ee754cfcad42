"""Other differences between two sides, which may cause a shift instead of the code.

Everything is read from frames of runs (``runs.frame``), of which the facts of a run need one row only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from peakgate.reports.runs.frame import records
from peakgate.reports.runs.runfile import commit_label

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
"""Names in reports of the facts of ``machine_info.gpu`` that a time may depend on."""

UUID = re.compile(r"(?P<short>[A-Z]+-[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

RUN_FACTS: Mapping[str, str] = {
    "tier": "run_tier",
    **{name: f"gpu_{fact}" for fact, name in GPU_NAMES.items()},
    "pytest-benchmark": "benchmark_version",
}
"""The facts of a run that a time may depend on besides the commit, and their columns."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same in all sessions of both sides; several values on a side are joined by commas."""

    name: str
    base: str
    new: str


def shortly(name: str) -> str:
    """A driver as it is, a GPU by the first part of its uuid: ``GPU-820987e0`` is enough to distinguish GPUs."""
    found = UUID.fullmatch(name)
    return found["short"] if found else name


def gpu_label(uuid: str | None) -> str:
    """``GPU-820987e0``, or ``an unknown GPU``."""
    return "an unknown GPU" if uuid is None else shortly(uuid)


def facts(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Of each run what a shift may come from besides the code, by the names of reports; None where unknown."""
    runs = records(rows.loc[~rows["run"].duplicated(), ["commit", "dirty", *RUN_FACTS.values()]])
    return [
        {"commit": commit_label(run.commit, run.dirty)}
        | {name: getattr(run, column) for name, column in RUN_FACTS.items()}
        for run in runs
    ]


def differences(base: pd.DataFrame, new: pd.DataFrame) -> tuple[Difference, ...]:
    """The facts that differ, in the order of ``facts``."""
    sides, found = [facts(rows) for rows in (base, new)], []
    for name in sides[0][0]:
        before, after = (sorted({_text(run[name]) for run in side}) for side in sides)
        if before != after or len(before) > 1:
            found.append(Difference(name, ", ".join(before), ", ".join(after)))
    return tuple(found)


def machine_code(base: pd.DataFrame, new: pd.DataFrame) -> str | None:
    """Whether the machine code changed, over the cases whose fingerprints both sides have; None without any."""
    before, after = (_fingerprints(rows) for rows in (base, new))
    known = [case for case in before if case in after]
    changed = [case for case in known if before[case] != after[case]]
    if not known:
        return None
    one = len(known) == 1
    record = "case that records it" if one else "cases that record it"
    if not changed:
        return f"machine code: the same in {'the' if one else f'all {len(known)}'} {record}"
    return f"machine code: changed in {len(changed)} of {len(known)} {record}, first {changed[0]}"


def _fingerprints(rows: pd.DataFrame) -> Mapping[str, set[str]]:
    """Of each case the fingerprints of its machine code that runs recorded."""
    found: dict[str, set[str]] = defaultdict(set)
    recorded = rows["fingerprint"].notna().to_numpy()
    for case, fingerprint in zip(rows["case"][recorded], rows["fingerprint"][recorded], strict=True):
        if fingerprint:
            found[case].add(fingerprint)
    return found


def _text(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
