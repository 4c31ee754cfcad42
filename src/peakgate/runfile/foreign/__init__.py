"""Files of other benchmark tools, read into one form."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class ForeignMeasured:
    """One benchmark of such a file, in seconds and bytes per second; ``problem`` says why there is no time.

    ``median_s`` is the mean if the file has no median; ``how`` says which, and how it was measured.
    """

    family: str
    stage: str
    size: str
    median_s: float | None = None
    rounds: int | None = None
    samples_s: tuple[float, ...] = ()
    iqr_s: float | None = None
    bytes_per_s: float | None = None
    peak_fraction: float | None = None
    sm_clock_hz: float | None = None
    how: str = ""
    problem: str | None = None

    @property
    def case(self) -> str:
        name = f"{self.family}.{self.stage}"
        return f"{name}-{self.size}" if self.size else name


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """The run of one GPU in one file; ``gpu`` has the keys of ``machine_info.gpu`` that the file gives.

    ``device`` is ``cpu`` if host code was timed: ``gpu`` then has the processor's name, and as uuid the host name.
    ``number`` is the GPU's number if the file has several GPUs.
    """

    tool: str
    version: str | None
    taken: str | None
    whole: bool
    gpu: Mapping[str, Any]
    measured: tuple[ForeignMeasured, ...] = field(default=())
    device: str = "gpu"
    number: int | None = None
    commit: str | None = None


def iqr(samples: Sequence[float]) -> float:
    """The difference of the third and the first quartile of at least two samples."""
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return third - first


def spelled(text: object) -> str:
    """The text with characters that case ids cannot have replaced by ``_``."""
    return _FORBIDDEN.sub("_", str(text)).strip("_") or "_"
