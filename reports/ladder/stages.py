"""Which measured case stands for a stage, beside the stage's other cases of its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from peakgate.case import Case, Family, Scale, Stage, Tier
from peakgate.common.errors import PeakgateError
from peakgate.reports.runs.runfile import CaseResult, Run

Timed = tuple[Case, CaseResult]


@dataclass(frozen=True, slots=True)
class Entry:
    """A stage, the case that stands for it, and the stage's timed cases of the same size and type, itself among them.

    Where the run has no time of it, ``headline`` is None and ``note`` says why.
    """

    stage: Stage
    headline: Timed | None = None
    fellows: tuple[Timed, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A run beside the families that are there now, each by its name."""

    run: Run
    timed: Mapping[str, tuple[Timed, ...]]
    entries: Mapping[str, tuple[Entry, ...]]


def show(run: Run, listed: Sequence[Family]) -> Shown:
    """The run's cases and entries by family; a PeakgateError for emulated times and for a family it has no case of."""
    if run.emulated:
        raise PeakgateError(f"{run.path}: emulated times are no figures; name a run of a GPU")
    timed, entries = {}, {}
    for family in listed:
        cases = list(family.cases(Scale.BENCH))
        timed[family.name] = tuple((case, run.cases[case.id]) for case in cases if case.id in run.cases)
        entries[family.name] = tuple(_entry(stage, family, cases, run) for stage in family.stages)
    absent = [name for name, found in timed.items() if not found]
    if absent:
        raise PeakgateError(f"{run.path}: no case of {', '.join(absent)}; name a run of every family")
    return Shown(run, timed, entries)


def rate(timed: Timed) -> float:
    """TFLOP/s of a case that is held against arithmetic, GB/s of any other."""
    case, result = timed
    return (result.tflops if case.roof == "fma" else result.gbs) or 0.0


def shape(case: Case) -> str:
    """What distinguishes a case from the others of its stage and size."""
    return "-".join(part for part in (case.block, case.variant) if part) or case.size


def _entry(stage: Stage, family: Family, cases: Sequence[Case], run: Run) -> Entry:
    """The family's headline stands for the stage, or else its first gate case of the largest problem there is."""
    own = [case for case in cases if case.stage == stage and (case.id in run.cases or case.id in run.unmeasured)]
    if not own:
        return Entry(stage, note="not in this run")
    candidates = [case for case in own if case.tier is Tier.GATE] or own
    largest = max(candidates, key=lambda case: (case.work.flops, case.work.bytes))
    wanted = f"{family.name}.{stage.name}-{family.headlines.get(stage.name)}"
    headline = next((case for case in own if case.id == wanted), largest)
    if headline.id not in run.cases:
        return Entry(stage, note=f"{headline.id}: {run.unmeasured[headline.id].verdict}")
    alike = [case for case in own if (case.size, case.dtype) == (headline.size, headline.dtype)]
    fellows = tuple((case, run.cases[case.id]) for case in alike if case.id in run.cases)
    return Entry(stage, (headline, run.cases[headline.id]), fellows)
