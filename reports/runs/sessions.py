"""A saved run in short: what choosing runs, a history and the noise between sessions need of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from peakgate.core.errors import PeakgateError
from peakgate.reports.runs.runfile import UNUSABLE, Run, load_run

UUID = re.compile(r"(?P<short>[A-Z]+-[0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

ENVIRONMENT = ("driver", "cuda_driver", "nvrtc", "cupy", "cublas", "vbios", "power_limit_w", "ecc", "mig")
"""Facts of a run's machine that its times may depend on, and that no commit changes."""

SAME_IN_BOTH = ("taken", "commit", "dirty", "slug", "uuid", "driver", "tier", "whole")
"""The facts that a run and its session have under one name."""


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A saved run in short: what choosing runs, a history and the noise between sessions need of it.

    ``times_us`` are the medians of the cases it could decide, but for ``host_bound_us``, of those whose time depends on
    the host as much as on the GPU. Of both, ``fingerprints`` are the cubin hashes and ``clocks_mhz`` the SM clocks
    while they were timed, where known, and ``libraries`` the cases that the driver or a vendor's library did.
    ``whole`` is False for a selection of cases. Unknown texts are None, an unknown commit is ``unknown``.
    ``environment`` are the facts of ``ENVIRONMENT`` that the run knows, as texts.
    """

    path: str
    taken: datetime
    commit: str
    dirty: bool
    slug: str
    uuid: str | None
    driver: str | None
    tier: str | None
    whole: bool
    times_us: Mapping[str, float]
    fingerprints: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    clocks_mhz: Mapping[str, float] = field(default_factory=dict)
    libraries: frozenset[str] = frozenset()
    host_bound_us: Mapping[str, float] = field(default_factory=dict)

    @property
    def timed_us(self) -> Mapping[str, float]:
        """The median of every case that it could decide."""
        return {**self.times_us, **self.host_bound_us}


def shortly(name: str) -> str:
    """A driver as it is, a GPU by the first part of its uuid: ``GPU-820987e0`` is enough to distinguish GPUs."""
    found = UUID.fullmatch(name)
    return found["short"] if found else name


def gpu_label(uuid: str | None) -> str:
    """``GPU-820987e0``, or ``an unknown GPU``."""
    return "an unknown GPU" if uuid is None else shortly(uuid)


def read_session(file: Path) -> SavedSession | str:
    """The session in ``file``, or why there is none."""
    try:
        return in_short(load_run(file))
    except PeakgateError as error:
        return str(error)


def in_short(run: Run | SavedSession) -> SavedSession:
    """Summary of a fully read run for a history and for the noise between sessions."""
    if isinstance(run, SavedSession):
        return run
    usable = [each for case, each in run.cases.items() if each.verdict not in UNUSABLE and case not in run.unmeasured]
    return SavedSession(
        path=str(run.path),
        **{name: getattr(run, name) for name in SAME_IN_BOTH},
        times_us={each.case: each.time_us for each in usable if not each.host_bound},
        fingerprints={each.case: each.fingerprint for each in usable if each.fingerprint},
        environment=environment(run.gpu),
        clocks_mhz={each.case: each.sm_clock_mhz for each in usable if each.sm_clock_mhz},
        libraries=frozenset(each.case for each in usable if each.library),
        host_bound_us={each.case: each.time_us for each in usable if each.host_bound},
    )


def environment(gpu: Mapping[str, Any]) -> dict[str, str]:
    """Values of ``ENVIRONMENT`` in a run's machine record."""
    return {name: str(gpu[name]) for name in ENVIRONMENT if gpu.get(name) is not None}
