"""Runs one build of a kernel in the checked emulator: each of its problems, in several orders of threads.

If a family gives no edge sizes, sizes are chosen (``peakgate.spec.edges``) and run in the first order only.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType

import numpy as np

import peakgate_emulator as emulator
from peakgate.base import config
from peakgate.base.emulated import LaunchNotEnded
from peakgate.base.errors import NOT_OF_A_PROJECT, BuildError, Code, PeakgateError, RefusedSize
from peakgate.base.options import selector
from peakgate.compile.named import named_numbers
from peakgate.device.cpu import CpuLaunchable, load, not_emulated
from peakgate.device.expected import ReferenceFault, computed, expected
from peakgate.device.interface import KernelFault
from peakgate.inspect.problems import BuildKey, build_problems, error_of_family, refused
from peakgate.inspect.workers import TaskProgress
from peakgate.judge.correctness import ExpectedOutputs, NothingCompared, WrongElement, check, refuse_one_number
from peakgate.measure.patterns import PATTERNS, redrawn, varied
from peakgate.spec import catalogue
from peakgate.spec.case import NO_SMALL_PROBLEM, Case, Scale
from peakgate.spec.catalogue import kernel_name
from peakgate.spec.edges import searched
from peakgate_emulator import KernelDefect
from peakgate_emulator.defects import RACES, RaceStep

WRONG_RESULT = "wrong result"
DIED = "died"
NOT_ENDED = "not ended"

CHOSEN_LIMIT_S = 10.0  # processor time for the chosen sizes of one build; skipped ones are reported

_RACES = tuple(kind.words for kind in RACES)

_ASCENDING, _FIRST_SEED = 0, 2  # the emulator's orders: 0 ascending, 1 descending, from 2 seeds of a shuffle


@dataclass(frozen=True, slots=True)
class LaunchFinding:
    """A finding of one launch: a defect with file, line, thread and block, or a wrong result.

    ``where`` is ``file.cu:12``, None for a wrong result; ``schedule`` is the order of threads that showed it, ``order``
    the shortest sequence of steps that shows it, ``values`` the worst element of a wrong result.
    """

    case: str
    schedule: int
    kind: str
    where: str | None
    what: str
    order: tuple[RaceStep, ...] = ()
    values: WrongElement | None = None


@dataclass(frozen=True, slots=True)
class BuildReport:
    """Result of checking one build.

    ``skipped`` says why the emulator cannot run it, ``broken`` what could not be run and why. ``sizes`` holds the size
    of each problem that ran, by case id; ``numbers`` names the numbers of a size. ``refused`` holds chosen sizes that
    the family does not take, with its reason; ``not_reached`` is the number of sizes for which time ran out.
    ``unended``: a launch reached its time limit, and no further launches were started. ``unchecked``: the family gives
    no reference, results were compared with nothing. ``met`` is what ``refuse_one_number`` needs.
    """

    kernel: str
    problems: int
    launches: int = 0
    findings: tuple[LaunchFinding, ...] = ()
    skipped: str | None = None
    broken: str | None = None
    sizes: Mapping[str, str] = field(default_factory=dict)
    numbers: str = "size"
    refused: Mapping[str, str] = field(default_factory=dict)
    not_reached: int = 0
    unended: bool = False
    unchecked: bool = False
    met: frozenset[complex | None] = frozenset()


def schedules(count: int) -> tuple[int, ...]:
    """The first ``count`` orders of threads: ascending, then shuffles with fixed seeds."""
    return (_ASCENDING, *range(_FIRST_SEED, _FIRST_SEED + count))[:count]


def not_run(text: str = "", family_file: Path | None = None) -> list[BuildReport]:
    """A report for each case that is not described, at either scale, and for each kernel without a small problem.

    The latter only without ``text``, which selects among small problems.
    """
    selects, measured = selector(text), catalogue.described(Scale.BENCH, file=family_file)
    missing = [*refused(text, family_file), *(each for each in measured.refused if selects(each.id))]
    reports = {each.id: BuildReport(each.id, 0, broken=each.reason) for each in missing}
    small = catalogue.described(Scale.SMALL, file=family_file)
    without = [] if text or small.refused else catalogue.without_problems(small.cases, measured.cases)
    return [*reports.values(), *(BuildReport(name, 0, skipped=NO_SMALL_PROBLEM) for name in without)]


def check_build(
    text: str,
    family_file: Path | None,
    key: BuildKey,
    orders: Sequence[int],
    report: TaskProgress,
    *,
    nonfinite: bool = False,
    search_s: float = 0.0,
    limit_s: float = math.inf,
) -> BuildReport:
    """Check a build of ``builds``, as a task for a worker. ``search_s``: seconds for trying more sizes.

    After ``limit_s`` of processor time no further problem is begun.
    """
    ends = time.process_time() + limit_s
    build = build_problems(text, family_file, config.current().root)[0][key]
    given = varied(build.given, named_numbers(build.given[0]))
    in_every_order = given.problems[: len(build.given)]
    found = check_cases(in_every_order, orders, report, nonfinite=nonfinite, plain=given.plain, ends=ends)
    further = partial(_continued, orders=orders[:1], report=report, nonfinite=nonfinite)
    if not (found.skipped or found.broken or found.findings):
        found = further(found, given.problems[len(in_every_order) :], ends - time.process_time())
    if found.unchecked and found.launches and not (found.findings or any(map(_accesses, build.given))):
        why = "it accesses no memory at the sizes tried; correct the values, the grid or the block of its family"
        return replace(found, broken=why, unchecked=False)
    if build.sized is None or found.skipped or found.broken:
        return _with_several_numbers(found, build.given[0])
    try:
        refused = {"x".join(map(str, size)): why for size, why in build.chosen.refused.items()}
        whole = replace(found, numbers=" x ".join(build.sized.names), refused=refused)
        whole = further(whole, build.chosen.cases.values(), min(CHOSEN_LIMIT_S, ends - time.process_time()))
        if search_s:
            known, ends = {*whole.sizes.values(), *whole.refused}, time.monotonic() + search_s
            others = (case for case in searched(build.sized, seed=0) if case.size not in known)
            whole = further(whole, takewhile(lambda _: time.monotonic() < ends, others), math.inf)
    except NOT_OF_A_PROJECT:
        raise
    except BaseException as error:  # as in build_problems
        return replace(found, broken=f"no sizes can be chosen: {error_of_family(build.given[0], error)}")
    return _with_several_numbers(whole, build.given[0])


def _with_several_numbers(found: BuildReport, case: Case) -> BuildReport:
    """The report, broken if nothing was found and the reference is one number everywhere."""
    try:
        if not (found.findings or found.broken):
            refuse_one_number(case, found.met)
    except PeakgateError as error:
        return replace(found, broken=str(error))
    return found


def _accesses(case: Case) -> bool:
    """Whether a launch of the case accesses any memory: it spends more than the end of each thread."""
    threads = max(math.prod(each.launch.grid) * each.launch.threads_per_block for each in case.launches)
    try:
        CpuLaunchable(case, access_budget=threads).run()
    except KernelFault:
        return True
    return False


def _continued(
    before: BuildReport,
    cases: Iterable[Case],
    limit_s: float,
    orders: Sequence[int],
    report: TaskProgress,
    *,
    nonfinite: bool,
) -> BuildReport:
    """Run more problems within the time limit and add them to the report; refused sizes are not failures."""
    ends = time.process_time() + limit_s
    for case in cases:
        if before.unended:
            break
        if time.process_time() > ends:
            before = replace(before, not_reached=before.not_reached + 1)
            continue
        try:
            more = check_cases([case], orders, report, nonfinite=nonfinite)
        except RefusedSize as error:
            before = replace(before, refused={**before.refused, case.size: str(error)})
            continue
        before = replace(
            before,
            problems=before.problems + more.problems,
            launches=before.launches + more.launches,
            findings=before.findings + more.findings,
            met=before.met | more.met,
            broken=before.broken or more.broken,
            sizes={**before.sizes, **more.sizes},
            not_reached=before.not_reached + more.not_reached,
            unended=more.unended,
        )
    return before


def check_cases(
    cases: Sequence[Case],
    orders: Sequence[int],
    report: TaskProgress,
    *,
    nonfinite: bool = False,
    plain: Mapping[str, Case] = MappingProxyType({}),
    ends: float = math.inf,
) -> BuildReport:
    """Launch the problems of one build in each order; ``nonfinite`` reports stored NaNs and infinities.

    ``plain`` has, by the id of a case with a pattern of data, the case to launch if its reference refuses the pattern.
    After ``ends``, a time of ``time.process_time``, no further problem is begun.
    """
    kernel = kernel_name(cases[0])
    if reason := not_emulated(cases[0]):
        return BuildReport(kernel, len(cases), skipped=reason)
    found: list[LaunchFinding] = []
    launches = 0
    broken: str | None = None
    blank: str | None = None
    unended = False
    remembered = cache(load)
    left = deque(cases)
    met = set[complex | None]()
    while left and not (launches and time.process_time() > ends):
        case = left.popleft()
        report(case.id)
        try:
            launched = check_case(case, orders, nonfinite=nonfinite, load=remembered, beyond_races=True, met=met.add)
        except BuildError as error:
            return BuildReport(kernel, len(cases), broken=str(error))
        except MemoryError as error:
            return BuildReport(
                kernel, len(cases), broken=f"{case.id}: no room in memory ({error}); check smaller sizes"
            )
        except LaunchNotEnded as error:
            broken, unended = broken or f"{case.id}: {error}", True
            break  # the others would probably take as long
        except PeakgateError as error:
            patterned_data = case.variant.endswith(PATTERNS) and error.code is Code.REFERENCE
            if isinstance(error, NothingCompared) or patterned_data:
                blank = str(error)  # the operation does not support these data; another problem must run
                left.extend(filter(None, [plain.get(case.id)]))
            else:
                broken = broken or str(error)
            continue
        launches += len(launched)
        found += [finding for findings in launched for finding in findings]
    not_reached = 0 if unended else len(left)
    sizes = {case.id: case.size for case in cases if unended or case not in left}
    if not launches and not all(case.variant.endswith(PATTERNS) for case in cases):
        broken = broken or blank
    return BuildReport(
        kernel,
        len(cases) - not_reached,
        launches,
        tuple(found),
        broken=broken,
        sizes=sizes,
        not_reached=not_reached,
        unended=unended,
        unchecked=cases[0].unchecked,
        met=frozenset(met),
    )


def check_case(
    case: Case,
    orders: Sequence[int],
    *,
    access_budget: int | None = None,
    nonfinite: bool = False,
    load: Callable[..., emulator.EmulatedKernel] = load,
    beyond_races: bool = False,
    met: Callable[[complex | None], None] = lambda _: None,
) -> list[list[LaunchFinding]]:
    """The findings of each launch, up to the first launch with any, which may leave data that make later ones fail.

    Every order has inputs of its own, where the family leaves them open; the ascending one those of a GPU.

    With ``beyond_races`` other orders are run after a launch that had races alone; of these, races at other lines are
    findings: a race that every order has would hide, also where it is waived, one that only another order has. ``met``
    is called with what ``refuse_one_number`` needs.

    Raises BuildError if the kernel does not compile, PeakgateError if the case's description is unusable,
    LaunchNotEnded if a launch reaches its time limit.
    """
    launchable = CpuLaunchable(case, access_budget, nonfinite=nonfinite, load=load)
    launched: list[list[LaunchFinding]] = []
    wanted: ExpectedOutputs | None = None
    undecided: PeakgateError | None = None
    raced: set[frozenset[str | None]] = set()  # the lines of each race
    for order in orders:
        others = redrawn(np, case, order)  # so that what an earlier launch left in memory is none of their results
        if others is not None:
            launchable.give(others)
        if order == orders[0] or others is not None:
            try:
                wanted = None if case.unchecked else expected(np, launchable, CpuLaunchable)
            except ReferenceFault as fault:
                return [*launched, _findings(case, order, fault.__cause__, "its reference kernel: ")]
            except PeakgateError as error:
                wanted, undecided = None, error  # a defect can be found without a reference
        try:
            launchable.run(order)
        except KernelFault as fault:
            found, first, new = _findings(case, order, fault), not raced, list[LaunchFinding]()
            cause = fault.__cause__
            assert isinstance(cause, KernelDefect)
            for each, defect in zip(found, cause.defects, strict=True):
                races = (defect, *defect.with_it)
                lines = {frozenset([race.location, *(step.location for step in race.order)]) for race in races}
                if first or (each.kind in _RACES and not lines <= raced):
                    new.append(each)
                raced |= lines
            launched.append(new)
            if not (beyond_races and all(each.kind in _RACES for each in found)):
                break
            continue
        if raced:  # a wrong result may follow from the race
            launched.append([])
            continue
        result = None if wanted is None else check(np, case, computed(np, launchable), wanted)
        met(None if result is None else result.one)
        if result is not None and result.mismatch is not None:
            said = f"{WRONG_RESULT}: {result.mismatch}"
            launched.append([LaunchFinding(case.id, order, WRONG_RESULT, None, said, values=result.worst)])
            break
        launched.append([])
    if undecided is not None and not any(launched):
        raise undecided
    return launched


def _findings(case: Case, order: int, fault: BaseException | None, whose: str = "") -> list[LaunchFinding]:
    """One finding per defect that the emulator reports."""
    cause = fault.__cause__ if fault else None
    if not isinstance(cause, KernelDefect):
        raise fault or AssertionError("a fault without a cause")
    return [
        LaunchFinding(case.id, order, defect.kind.words, defect.location, f"{whose}{defect}", defect.order)
        for defect in cause.defects
    ]
