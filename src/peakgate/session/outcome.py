"""The outcome of one case: proof, figures, verdict; and the verdict of a case that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from peakgate.base.errors import PeakgateError
from peakgate.base.verdict import Judgement, Verdict
from peakgate.compile.cubin import Resources
from peakgate.device.expected import ReferenceFault
from peakgate.device.interface import DeviceLost, KernelCrash, KernelFault, KernelTimeout, Unmeasurable
from peakgate.judge.metrics import Metrics
from peakgate.judge.occupancy import Occupancy
from peakgate.measure.sampling import Samples
from peakgate.spec.case import Case, RefusedCase, TunedChoice

if TYPE_CHECKING:  # few runs measure it
    from peakgate.spec.recorded import Energy


class WrongResult(Exception):
    """A kernel with a wrong output; the message says where."""


FAILURES = (WrongResult, KernelFault, DeviceLost, MemoryError, PeakgateError, Unmeasurable)
"""Exceptions that end a case without figures; any other is a defect of Peakgate."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A case that was right, and the number of edge-size problems (``probes``) on which its build was right.

    ``error`` is ``max|out - ref| / max|ref|``, ``ratio`` the largest error of an element over its bound. ``varying`` is
    the number of elements that differ in a second launch on the same data, None if unknown. ``timed`` is the number of
    timed launches that were compared.
    """

    error: float
    probes: int
    ratio: float | None = None
    varying: int | None = None
    timed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one case. Steps that were not reached are None."""

    case: Case | RefusedCase
    judgement: Judgement
    proof: Proof | None = None
    samples: Samples | None = None
    metrics: Metrics | None = None
    floor: float | None = None
    resources: Resources | None = None
    fingerprint: str | None = None
    occupancy: Occupancy | None = None
    kernels: Mapping[str, str | None] | None = None
    tuned: tuple[TunedChoice, ...] = ()
    energy: Energy | None = None


def verdict_of(error: Exception) -> Verdict:
    """The verdict on a case that failed: WRONG, CRASHED or TIMEOUT if the kernel is at fault, else INCONCLUSIVE."""
    match error:
        case KernelCrash():
            return Verdict.CRASHED
        case KernelTimeout():
            return Verdict.TIMEOUT
        case ReferenceFault():
            return Verdict.INCONCLUSIVE
        case WrongResult() | KernelFault():
            return Verdict.WRONG
    return Verdict.INCONCLUSIVE
