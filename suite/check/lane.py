"""One build of a kernel through the checked emulator: each of its problems, in several orders of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from peakgate.build.sources import read_sources
from peakgate.case import Case
from peakgate.check.workers import Report
from peakgate.device.cpu import ACCESS_BUDGET, CpuLaunchable, not_emulated
from peakgate.device.emulator import KernelBuildError, KernelDefect
from peakgate.device.expected import ReferenceFault, expected
from peakgate.device.interface import KernelFault
from peakgate.judge.correctness import check
from peakgate.project import catalogue, config
from peakgate.project.catalogue import kernel_name, problems, without_problems

WRONG_RESULT = "wrong result"
DIED = "died"

_ASCENDING, _FIRST_SEED = 0, 2  # the emulator's numbers: 0 ascending, 1 descending, from 2 on seeds of a shuffle


@dataclass(frozen=True, slots=True)
class Finding:
    """What one launch showed: the defect in one line with file, line, thread and block, or the first wrong element.

    ``where`` is ``file.cu:12``, None where a result is wrong; ``schedule`` the order of threads it was seen in.
    """

    case: str
    schedule: int
    kind: str
    where: str | None
    what: str


@dataclass(frozen=True, slots=True)
class BuildKey:
    """A build of a stage, so that any process finds it: the records themselves need not be picklable."""

    family: str
    stage: str
    defines: tuple[tuple[str, str], ...]

    @property
    def kernel(self) -> str:
        return f"{self.family}.{self.stage}"


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What came of a build. ``skipped`` says why the emulator is not for it, ``broken`` why it does not compile."""

    kernel: str
    problems: int
    launches: int = 0
    findings: tuple[Finding, ...] = ()
    skipped: str | None = None
    broken: str | None = None


def schedules(count: int) -> tuple[int, ...]:
    """The first ``count`` orders of threads: ascending, then shuffles with seeds that never change."""
    return (_ASCENDING, *range(_FIRST_SEED, _FIRST_SEED + count))[:count]


def builds(text: str = "", family_file: Path | None = None) -> dict[BuildKey, tuple[Case, ...]]:
    """The problems of every build with ``text`` in the id of a small case: of one family file, or of the project."""
    return _builds(text, family_file, config.current().root)


@lru_cache(maxsize=1)
def _builds(text: str, family_file: Path | None, root: Path) -> dict[BuildKey, tuple[Case, ...]]:  # noqa: ARG001  (a key)
    listed = None if family_file is None else [catalogue.family_at(family_file)]
    grouped: dict[BuildKey, list[Case]] = {}
    for case in problems(text, listed):
        grouped.setdefault(BuildKey(case.family, case.stage.name, case.defines), []).append(case)
    return {key: tuple(found) for key, found in grouped.items()}


def not_run(text: str = "", family_file: Path | None = None) -> list[BuildReport]:
    """A report of each kernel that has nothing small to run; none where ``text`` selects among those that have."""
    listed = None if family_file is None else [catalogue.family_at(family_file)]
    reason = "no small problem: give it small_sizes, or edges"
    return [BuildReport(name, 0, skipped=reason) for name in ([] if text else without_problems(listed))]


def text_at(text: str, family_file: Path | None, kernel: str, place: str) -> str:
    """The text of ``file.cu:12`` among a kernel's sources, or its reference kernel's; empty where it has no such."""
    name, _, number = place.rpartition(":")
    for key, cases in builds(text, family_file).items():
        if key.kernel != kernel:
            continue
        references = [case.reference.stage for case in cases if isinstance(case.reference, Case)]
        for stage in (cases[0].stage, *references[:1]):
            for file in read_sources(stage.source, stage.include) if stage.source else ():
                lines = file.text.splitlines()
                if file.path.name == name and number.isdigit() and int(number) <= len(lines):
                    return lines[int(number) - 1].strip()
    return ""


def check_build(
    text: str,
    family_file: Path | None,
    key: BuildKey,
    orders: Sequence[int],
    report: Report,
    *,
    nonfinite: bool = False,
) -> BuildReport:
    """Check a build that ``builds`` lists; a task for a worker."""
    return check_cases(builds(text, family_file)[key], orders, report, nonfinite=nonfinite)


def check_cases(
    cases: Sequence[Case], orders: Sequence[int], report: Report, *, nonfinite: bool = False
) -> BuildReport:
    """Launch the problems of one build in each order; ``nonfinite`` reports NaNs and infinities that are written."""
    kernel = kernel_name(cases[0])
    if reason := not_emulated(cases[0]):
        return BuildReport(kernel, len(cases), skipped=reason)
    found: list[Finding] = []
    launches = 0
    for case in cases:
        report(case.id)
        try:
            launched = check_case(case, orders, nonfinite=nonfinite)
        except KernelBuildError as error:
            return BuildReport(kernel, len(cases), broken=str(error))
        except MemoryError as error:
            return BuildReport(
                kernel, len(cases), broken=f"{case.id}: no room in memory ({error}); check smaller sizes"
            )
        launches += len(launched)
        found += [finding for findings in launched for finding in findings]
    return BuildReport(kernel, len(cases), launches, tuple(found))


def check_case(
    case: Case, orders: Sequence[int], *, access_budget: int = ACCESS_BUDGET, nonfinite: bool = False
) -> list[list[Finding]]:
    """The findings of each launch, up to the first that has any: what it leaves behind may make the next one fail.

    KernelBuildError when the kernel does not compile.
    """
    launchable = CpuLaunchable(case, access_budget, nonfinite=nonfinite)
    launched: list[list[Finding]] = []
    try:
        wanted = expected(np, launchable, CpuLaunchable)
    except ReferenceFault as fault:
        return [_findings(case, orders[0], fault.__cause__, "its reference kernel: ")]
    for order in orders:
        try:
            launchable.run(order)
        except KernelFault as fault:
            launched.append(_findings(case, order, fault))
            break
        result = check(np, case, launchable.outputs, wanted)
        if result.mismatch is not None:
            launched.append([Finding(case.id, order, WRONG_RESULT, None, f"{WRONG_RESULT}: {result.mismatch}")])
            break
        launched.append([])
    return launched


def _findings(case: Case, order: int, fault: BaseException | None, whose: str = "") -> list[Finding]:
    """One finding per defect that the emulator saw."""
    cause = fault.__cause__ if fault else None
    if not isinstance(cause, KernelDefect):
        raise fault or AssertionError("a fault without a cause")
    return [Finding(case.id, order, defect.kind.words, defect.location, f"{whose}{defect}") for defect in cause.defects]
