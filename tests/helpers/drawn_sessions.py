"""Sessions whose times a test chooses, as the frame of runs that a history is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pandas as pd

from peakgate.base.verdict import Verdict
from peakgate.runfile.frame import HISTORY_COLUMNS, to_frame
from peakgate.runfile.saved import CaseResult, Run


@dataclass(frozen=True, slots=True)
class DrawnSession:
    """Facts of a run, and of its cases times, and where given fingerprints, kernels of callables and SM clocks."""

    path: str
    taken: datetime
    commit: str
    dirty: bool = False
    slug: str = "nvidia-h200"
    uuid: str | None = "GPU-0001"
    driver: str | None = "580.159.04"
    tier: str | None = "gate"
    whole: bool = True
    times_us: Mapping[str, float] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    kernels: Mapping[str, dict[str, str | None]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    clocks_mhz: Mapping[str, float] = field(default_factory=dict)

    @property
    def run(self) -> Run:
        cases = {
            case: CaseResult(
                case=case,
                verdict=Verdict.PASS,
                time_us=time_us,
                samples=40,
                sampling_error=0.001,
                fingerprint=self.fingerprints.get(case),
                kernels=self.kernels.get(case),
                sm_clock_mhz=self.clocks_mhz.get(case),
            )
            for case, time_us in self.times_us.items()
        }
        return Run(
            path=Path(self.path),
            taken=self.taken,
            commit=self.commit,
            dirty=self.dirty,
            benchmark_version="5.3.1",
            tier=self.tier,
            whole=self.whole,
            device="gpu",
            gpu={"slug": self.slug, "uuid": self.uuid, "driver": self.driver, **self.environment},
            cases=cases,
            unmeasured={},
        )


def of_sessions(sessions: Iterable[DrawnSession]) -> pd.DataFrame:
    return to_frame((each.run for each in sessions), HISTORY_COLUMNS)
