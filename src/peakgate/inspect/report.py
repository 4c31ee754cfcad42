"""The report of a check: one line per defect, however many launches show it, and the JSON fields."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from peakgate.base.formatting import counted, first_of
from peakgate.base.report import NOT_CHECKED, Annotation, Report, Row, Tone
from peakgate.base.verdict import RAN, ExitCode
from peakgate.inspect.emulate import BuildReport, LaunchFinding
from peakgate.inspect.picture import KINDS
from peakgate.judge.floors import NO_REFERENCE
from peakgate.judge.waivers import Defect, DefectKey, DefectRuling
from peakgate.spec.stage import SourceLine

COMMAND = "check"
MOST_SIZES = 6  # listed in a line
NOT_COMPARED = "result not checked"


SourceAt = Callable[[str, str | None], SourceLine]
"""The line of a kernel's sources at ``file.cu:12``; without a place, where the kernel is defined."""


@dataclass(frozen=True, slots=True)
class KernelReport(BuildReport):
    """All builds of a kernel as one, with its defects, and where it is defined."""

    defects: tuple[Defect, ...] = ()
    source: SourceLine = field(kw_only=True)


def by_kernel(reports: Iterable[BuildReport], source_at: SourceAt, family_file: str = "") -> list[KernelReport]:
    """One report per kernel, sorted by name; ``family_file`` is the command's argument, needed to repeat a defect."""
    of_kernel: dict[str, list[BuildReport]] = {}
    for report in reports:
        of_kernel.setdefault(report.kernel, []).append(report)
    kernels = []
    for kernel, builds in sorted(of_kernel.items()):
        found: dict[tuple[str, str | None], list[LaunchFinding]] = {}
        for build in builds:
            by_size = sorted((_numbers(build.sizes.get(each.case, "")), at) for at, each in enumerate(build.findings))
            for finding in (build.findings[at] for _, at in by_size):
                found.setdefault((finding.kind, finding.where), []).append(finding)
        defects = []
        for (_, where), findings in found.items():
            shown_by = _sizes(builds, {finding.case for finding in findings})
            defects.append(_defect(kernel, findings, source_at(kernel, where), shown_by, family_file))
        kernels.append(
            KernelReport(
                kernel,
                problems=sum(build.problems for build in builds),
                launches=sum(build.launches for build in builds),
                findings=tuple(finding for build in builds for finding in build.findings),
                skipped=next((build.skipped for build in builds if build.skipped), None),
                broken=next((build.broken for build in builds if build.broken), None),
                sizes={case: size for build in builds for case, size in build.sizes.items()},
                numbers=builds[0].numbers,
                refused={size: why for build in builds for size, why in build.refused.items()},
                not_reached=sum(build.not_reached for build in builds),
                unchecked=any(build.unchecked and build.launches for build in builds),
                defects=tuple(defects),
                source=source_at(kernel, None),
            )
        )
    return kernels


def doubted(kernel: KernelReport, guesses: str) -> KernelReport:
    """The kernel as not checked if it has a defect that may follow from one of its family's ``guesses``."""
    if not (guesses and kernel.defects):
        return kernel
    first = kernel.defects[0]
    more = f" (and {len(kernel.defects) - 1} more)" if kernel.defects[1:] else ""
    why = f"{first.where}: {first.what}{more}; may be a guess, so decide first: {guesses}"
    return replace(kernel, defects=(), broken=why, unchecked=False)


def report(
    kernels: Sequence[KernelReport],
    ruling: DefectRuling,
    orders: Sequence[int],
    wall_s: float,
) -> Report:
    """One row per defect and per kernel that was not checked, and a summary.

    The exit code is 1 for a defect or a waiver that matches none, else 3 if a kernel was not checked. A kernel
    without a reference is RAN: it can have a defect, and it is never right.
    """
    rows = ruling.rows()
    rows += _not_checked(kernels)
    rows += [Row(each.kernel, reason=f"skipped: {each.skipped}") for each in kernels if each.skipped]
    rows += [Row(each.kernel, RAN, f"result {NO_REFERENCE}") for each in kernels if each.unchecked]
    for each in kernels:
        if each.refused:
            size, why = next(iter(each.refused.items()))
            sizes = f"{counted(len(each.refused), 'chosen size')}, such as {size} ({why})"
            rows.append(Row(each.kernel, reason=f"its family refuses {sizes}"))
    for each in kernels:
        if each.not_reached:
            sizes = counted(each.not_reached, "chosen size")
            rows.append(Row(each.kernel, reason=f"no time for {sizes}; give it smaller ones as edges"))
    broken = sum(bool(each.broken) for each in kernels)
    code = ExitCode.REGRESSION if ruling.failing else ExitCode.UNDECIDED if broken else ExitCode.OK
    race = next(filter(drawn, ruling.left), None)
    described = [
        {
            "kernel": each.kernel,
            "problems": each.problems,
            "launches": each.launches,
            "skipped": each.skipped,
            "not_checked": each.broken,
            "unchecked": each.unchecked,
            "refused": dict(each.refused),
            "not_reached": each.not_reached,
            **ruling.fields(kernel=each.kernel),
        }
        for each in kernels
    ]
    return Report(
        command=COMMAND,
        exit_code=code,
        rows=rows,
        sentences=[*ruling.complaints, _summary(kernels, ruling, orders, wall_s)],
        fields={
            "schedules": list(orders),
            "wall_s": round(wall_s, 1),
            "kernels": described,
            "complaints": list(ruling.complaints),
        },
        unit="defect",
        next=shlex.join([*race.facts["repeat"], "--html", "race.html"]) if race else "",
    )


def drawn(defect: Defect) -> bool:
    """Whether `check --html` draws it: a race for shared memory in a case of a family."""
    case: str = defect.facts["case"]
    return defect.key.kind in KINDS and case.startswith(defect.key.kernel)


def placed(kernels: Sequence[KernelReport], ruling: DefectRuling, waivers_file: Path) -> list[Annotation]:
    """The defects that are left, complaints about waivers, and the kernels that were not checked."""
    unchecked = [
        Annotation(NOT_CHECKED, f"{each.kernel}: not checked: {each.broken}", *each.source[:2], tone=Tone.OPEN)
        for each in kernels
        if each.broken
    ]
    return [*ruling.annotations(waivers_file), *unchecked]


def _not_checked(kernels: Sequence[KernelReport]) -> list[Row]:
    """One row per reason, with the number of cases if several of a family share it."""
    alike: dict[tuple[str, str], list[KernelReport]] = {}
    for each in kernels:
        if each.broken:
            alike.setdefault((each.kernel.partition(".")[0], each.broken), []).append(each)
    return [
        Row(same[0].kernel, reason=f"not checked: {why}")
        if len(same) == 1
        else Row(family, reason=f"not checked: {why} ({counted(len(same), 'case')}, first {same[0].kernel})")
        for (family, why), same in alike.items()
    ]


def _summary(kernels: Sequence[KernelReport], ruling: DefectRuling, orders: Sequence[int], wall_s: float) -> str:
    problems, launches = (sum(getattr(each, what) for each in kernels) for what in ("problems", "launches"))
    broken = sum(bool(each.broken) for each in kernels)
    verdicts = [f"{broken} not checked"] if broken else []
    if ruling.left:
        verdicts.insert(0, counted(len(ruling.left), "defect"))
    elif broken < len(kernels):
        verdicts.append("no defect in the others" if broken else "no defect")
    if ruling.waived:
        verdicts.append(f"{len(ruling.waived)} waived")
    if unchecked := sum(each.unchecked for each in kernels):
        verdicts.append(f"{unchecked} {RAN} ({NOT_COMPARED})")
    if skipped := sum(bool(each.skipped) for each in kernels):
        verdicts.append(f"{skipped} skipped")
    ran = dict.fromkeys(filter(None, kernels[0].sizes.values())) if len(kernels) == 1 else ()
    sizes = f" ({kernels[0].numbers} = {_some(ran)})" if ran else ""
    up_to = "up to " if len(orders) > 1 else ""  # chosen sizes run in the first order alone
    tried = f"{counted(launches, 'launch')} in {up_to}{counted(len(orders), 'order')} of threads"
    counts = f"{counted(len(kernels), 'kernel')}, {counted(problems, 'problem')}{sizes}, {tried}"
    return f"{counts}: {', '.join(verdicts)} ({wall_s:.0f} s)"


def _defect(kernel: str, findings: Sequence[LaunchFinding], source: SourceLine, sizes: str, family_file: str) -> Defect:
    """A defect from the findings of one kind at one line; ``sizes`` says which sizes show it."""
    # how many launches show a defect; one may show it several times, as races with two other lines
    alike = Counter((each.case, each.schedule, tuple(step.location for step in each.order)) for each in findings)
    found: dict[tuple[str, int], int] = {}
    for (case, schedule, _), launches in alike.items():
        found[case, schedule] = max(launches, found.get((case, schedule), 0))
    first, launches = findings[0], sum(found.values())
    file, number = _place(first.where)
    repeat = [
        "peakgate",
        "check",
        *([family_file] if family_file else []),
        "-k",
        kernel if first.case.startswith(kernel) else first.case,
        "--seed",
        str(first.schedule),
    ]
    values = None
    if first.values is not None:  # NaN and infinities as strings
        of_worst = asdict(first.values).items()
        values = {name: str(x) if isinstance(x, float) and not math.isfinite(x) else x for name, x in of_worst}
    facts = {
        **asdict(first),
        "order": [
            {**asdict(step), **dict(zip(("file", "line"), _place(step.location), strict=True))} for step in first.order
        ],
        "values": values,
        "file": file,
        "line": number,
        "text": source.text or None,
        "seed": first.schedule,
        "repeat": repeat,
        "launches": launches,
        "sizes": sizes,
    }
    order = f", threads in shuffled order {first.schedule}" if first.schedule else ""
    often = f" (in {launches} launches)" if launches > 1 else ""
    return Defect(
        key=DefectKey(COMMAND, kernel, first.kind, (first.where or "").rpartition(":")[0], source.text),
        where=f"{first.case}{order}",
        what=f"{first.what}{often}{f'; {sizes}' if sizes else ''}",
        facts=facts,
        count=launches,
        source=source,
    )


def _place(where: str | None) -> tuple[str | None, int | None]:
    """``file.cu:12`` as file and line."""
    file, _, number = (where or "").rpartition(":")
    return (file, int(number)) if number.isdigit() else (None, None)


def _sizes(builds: Sequence[BuildReport], shown_by: Set[str]) -> str:
    """The sizes that show a defect and those that do not, over the builds that show it."""
    ran = {case: size for build in builds if shown_by & build.sizes.keys() for case, size in build.sizes.items()}
    bad = dict.fromkeys(size for case, size in ran.items() if case in shown_by)
    good = dict.fromkeys(size for case, size in ran.items() if case not in shown_by and size not in bad)
    if len(bad) + len(good) < 2:
        return ""
    numbers = next(build.numbers for build in builds if build.sizes)
    return f"with {numbers} = {_some(bad)}" + (f", not with {_some(good)}" if good else ", every one tried")


def _some(sizes: Iterable[str]) -> str:
    """The first MOST_SIZES sizes in order."""
    return first_of(sorted(sizes, key=_numbers), MOST_SIZES)


def _numbers(size: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", size)]
