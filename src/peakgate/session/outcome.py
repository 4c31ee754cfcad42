"""The outcome of one case: proof, figures, verdict; its entry in the run file, and its times for pytest-benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import to_builtins
from pytest_benchmark.fixture import BenchmarkFixture

from peakgate.base import config
from peakgate.base.errors import PeakgateError
from peakgate.base.verdict import FAILING, Judgement, Verdict
from peakgate.device.expected import ReferenceFault
from peakgate.device.interface import DeviceLost, KernelCrash, KernelFault, KernelTimeout, Unmeasurable
from peakgate.judge.metrics import Metrics
from peakgate.measure.sampling import Samples
from peakgate.runfile.schema import CaseRecord
from peakgate.spec.case import Case, Launch, RefusedCase, TunedChoice
from peakgate.spec.recorded import Energy

if TYPE_CHECKING:
    from peakgate.judge.occupancy import Occupancy, Resources
    from peakgate.session.session import Session

NOT_TIMED = "not timed: --benchmark-disable"

Entry = dict[str, Any]
"""A case in the run file: its ``CaseRecord`` as JSON."""


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
    launch: Launch | None = None
    """The launch with the lowest occupancy, whose ``resources`` and ``occupancy`` are given."""
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


def extra_info(outcome: Outcome) -> Entry:
    """The ``extra_info`` of a case's benchmark."""
    figures, resources, samples, proof = outcome.metrics, outcome.resources, outcome.samples, outcome.proof
    occupancy = outcome.occupancy
    described = _undescribed(outcome.case) if isinstance(outcome.case, RefusedCase) else _described(outcome.case)
    claimed = described["bytes"] is not None
    if outcome.launch is not None:
        described["dynamic_shared_bytes"] = outcome.launch.shared_bytes
    timed = samples if figures else None
    interval = timed.median_interval_us if timed else None
    record = CaseRecord(
        **described,
        time_us=_rounded(figures.time_us if figures else None, 4),
        median_interval_us=(round(interval[0], 4), round(interval[1], 4)) if interval else None,
        trimmed_mean_us=_rounded(timed.trimmed_mean_us if timed else None, 5),
        control_us=_rounded(samples.control_us if samples else None, 5),
        first_us=_rounded(samples.first_us if samples else None, 4),
        footprint_bytes=samples.footprint_bytes if samples else None,
        activity_us=_rounded(samples.activity_us if samples else None, 4),
        gbs=_rounded(figures.gbs if figures and claimed else None, 2),
        tflops=_rounded(figures.tflops if figures and claimed else None, 4),
        peak_fraction=_rounded(figures.peak_fraction if figures else None, 5),
        bound=figures.bound if figures else None,
        roof_fraction=_rounded(figures.roof_fraction if figures else None, 5),
        roof=figures.roof if figures else None,
        floor=outcome.floor,
        verdict=outcome.judgement.verdict,
        reason=outcome.judgement.reason,
        energy=outcome.energy,
        registers=resources.registers if resources else None,
        spill_bytes=resources.spill_bytes if resources else None,
        static_shared_bytes=resources.static_shared_bytes if resources else None,
        shared_bytes=resources.static_shared_bytes + described["dynamic_shared_bytes"] if resources else None,
        occupancy=_rounded(occupancy.fraction if occupancy else None, 4),
        occupancy_limiter="+".join(occupancy.limiters) if occupancy else None,
        fingerprint=outcome.fingerprint,
        kernels=dict(outcome.kernels) if outcome.kernels else None,
        tuned=outcome.tuned or None,
        sm_clock_mhz=_rounded(samples.median_sm_clock_mhz if samples else None, 0),
        power_w=_rounded(samples.power_w if samples else None, 0),
        power_bound=samples.power_bound if samples else False,
        samples=len(samples.times_us) if samples else 0,
        discarded=samples.discarded if samples else 0,
        sampling=samples.method if samples else None,
        pair_ratios=tuple(round(each, 6) for each in samples.pair_ratios) or None if samples else None,
        relative_error=proof.error if proof else None,
        error_over_bound=_rounded(proof.ratio if proof else None, 6),
        varying_elements=proof.varying if proof else None,
        probes=proof.probes if proof else 0,
        timed_launches_checked=proof.timed if proof else 0,
    )
    # msgspec does not accept NumPy's float64.
    entry: Entry = to_builtins(record, enc_hook=float)
    return entry


def _described(case: Case) -> dict[str, Any]:
    """The fields of the record that follow from the case alone."""
    claimed = case.work.claimed
    return {
        "case": case.id,
        "family": case.family,
        "stage": case.stage.name,
        "size": case.size,
        "block": case.block,
        "variant": case.variant,
        "state": case.state,
        "gpus": case.gpus,
        "metric": case.metric,
        "parts": case.parts or None,
        "dtype": case.dtype,
        "tier": case.tier.value,
        "host_bound": case.stage.host_bound,
        "bytes": case.work.bytes if claimed else None,
        "flops": case.work.flops if claimed else None,
        "peak_tflops": case.work.peak_tflops,
        "math": case.math,
        "math_given": case.work.math is not None,
        "dynamic_shared_bytes": case.launch.shared_bytes,
        "tolerance": case.largest_tolerance,
        "predicted": dict(case.predicted),
    }


def _undescribed(case: RefusedCase) -> dict[str, Any]:
    """The same for a case that its family does not describe: only its name is known."""
    named = {"case": case.id, "family": case.family, "stage": case.name, "size": "", "block": "", "variant": ""}
    judged = {"state": "cold", "gpus": 1, "metric": "gpu", "dtype": "float32", "tier": "gate", "host_bound": False}
    work = {"bytes": None, "flops": None, "peak_tflops": None, "math": "fp32", "math_given": False}
    return named | judged | work | {"dynamic_shared_bytes": 0, "tolerance": 0.0, "predicted": {}}


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def fails(verdict: str, reason: str, session: Session) -> bool:
    """Whether a test with this verdict and reason fails; a case that is right and was not to be timed passes."""
    return verdict in FAILING and not (not session.timed and reason.endswith(NOT_TIMED))


def raise_for(entry: Mapping[str, Any], session: Session) -> None:
    """Fail the current test if the verdict of its case does."""
    if fails(entry["verdict"], entry["reason"], session):
        where = f"; {config.near(session.floors.path)}" if entry["floor"] is not None else ""
        # The verdict first: pytest's short summary has room for little after the test's id.
        reported = f"{entry['verdict']} {entry['case']} on {session.device.slug}: {entry['reason']}{where}"
        raise pytest.fail.Exception(reported, pytrace=False) from None


class ReplayFixture:
    """A fixture that shows the result of a case by pytest-benchmark's, of which it has ``group`` and ``extra_info``."""

    def __init__(self, session: Session, benchmark: BenchmarkFixture, timer: ReplayTimer) -> None:
        self.benchmark = benchmark
        self._session, self._timer = session, timer

    @property
    def group(self) -> str | None:
        group: str | None = self.benchmark.group
        return group

    @group.setter
    def group(self, group: str | None) -> None:
        self.benchmark.group = group

    @property
    def extra_info(self) -> dict[str, Any]:
        info: dict[str, Any] = self.benchmark.extra_info
        return info

    def show(self, entry: Mapping[str, Any], times_us: Sequence[float]) -> None:
        """Show a case's result in pytest-benchmark's table; fail the test if its verdict does.

        What the user put into ``extra_info`` stays beside the entry, and counts where both have it.
        """
        replay(self.benchmark, self._timer, times_us, {**entry, **self.benchmark.extra_info})
        raise_for(entry, self._session)


class ReplayTimer:
    """A timer that plays back durations in seconds to pytest-benchmark, which reads it before and after a round.

    It returns 0 and the next duration alternately, so that an empty round appears to take the time measured on the GPU.
    """

    __name__ = "cuda_events"

    def __init__(self) -> None:
        self._durations: Sequence[float] = ()
        self._reading = -1

    def load(self, durations_s: Sequence[float]) -> None:
        """Set the durations of the next rounds."""
        self._durations, self._reading = durations_s, -1

    def __call__(self) -> float:
        self._reading += 1
        return 0.0 if self._reading % 2 == 0 else self._durations[self._reading // 2]


def replay(
    benchmark: BenchmarkFixture, timer: ReplayTimer, times_us: Sequence[float], entry: Mapping[str, Any] | None = None
) -> None:
    """Give the benchmark one round per measured time, and a case's entry as ``extra_info``; nothing without times."""
    if not times_us:
        return
    benchmark.extra_info.update(entry or {})
    timer.load([time_us / 1e6 for time_us in times_us])
    benchmark.pedantic(lambda: None, rounds=len(times_us))  # type: ignore[no-untyped-call]
