"""The report of a check: one line a defect, however many launches show it, and a record of it all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Any

from peakgate.check.emulate import BuildReport, LaunchFinding
from peakgate.common.text import counted, one_line
from peakgate.judge.waivers import DefectKey, Waiver, set_apart
from peakgate.verdict import ExitCode

COMMAND = "check"
SOME = 6
"""Sizes that a line names."""


@dataclass(frozen=True, slots=True)
class RepeatedFinding:
    """The same complaint at the same line of a kernel: its first finding, and in how many launches it showed."""

    kernel: str
    first: LaunchFinding
    launches: int
    line: str = ""
    """The text of the line, without indentation."""
    sizes: str = ""
    """With which sizes it showed, and with which it did not; empty where only one was run."""

    @property
    def key(self) -> DefectKey:
        """The defect as a waiver names it."""
        file = (self.first.where or "").rpartition(":")[0]
        return DefectKey(COMMAND, self.kernel, self.first.kind, file, self.line)

    def __str__(self) -> str:
        often = f" (in {self.launches} launches)" if self.launches > 1 else ""
        often += f"; {self.sizes}" if self.sizes else ""
        order = f", threads in shuffled order {self.first.schedule}" if self.first.schedule else ""
        return f"{self.first.case}{order}: {self.first.what}{often}"


@dataclass(frozen=True, slots=True)
class KernelReport:
    """All builds of a kernel together."""

    kernel: str
    problems: int
    launches: int
    defects: tuple[RepeatedFinding, ...]
    skipped: str | None
    broken: str | None
    waived: tuple[tuple[RepeatedFinding, Waiver], ...] = ()
    """The defects that the project accepts; they are not among ``defects``."""
    refused: Mapping[str, str] = field(default_factory=dict)
    not_reached: int = 0


def by_kernel(reports: Iterable[BuildReport], text_at: Callable[[str, str], str]) -> list[KernelReport]:
    """One report a kernel, in order of name; ``text_at(kernel, place)`` is the text of a line, as waivers name it."""
    builds: dict[str, list[BuildReport]] = {}
    for report in reports:
        builds.setdefault(report.kernel, []).append(report)
    return [_together(kernel, builds[kernel], text_at) for kernel in sorted(builds)]


def waived(reports: Sequence[KernelReport], defects: Mapping[DefectKey, Waiver], today: date) -> list[KernelReport]:
    """The reports with the defects that are accepted today set apart."""
    judged = []
    for report in reports:
        left, accepted = set_apart(((defect.key, defect) for defect in report.defects), defects, today)
        judged.append(replace(report, defects=left, waived=accepted))
    return judged


def exit_code(reports: Sequence[KernelReport], complaints: Sequence[str] = ()) -> ExitCode:
    """A defect, or a waiver of none, outranks a kernel that the emulator could not compile, that outranks a pass."""
    if complaints or any(report.defects for report in reports):
        return ExitCode.REGRESSION
    return ExitCode.UNDECIDED if any(report.broken for report in reports) else ExitCode.OK


def lines(reports: Sequence[KernelReport], orders: Sequence[int], wall_s: float) -> list[str]:
    """A line for each defect and for each kernel that was not checked, then one for all."""
    said = [str(defect) for report in reports for defect in report.defects]
    accepted_ones = [each for report in reports for each in report.waived]
    said += [f"{defect}: waived until {waiver.expires}: {waiver.reason}" for defect, waiver in accepted_ones]
    said += [f"{report.kernel}: not checked: {report.broken}" for report in reports if report.broken]
    said += [f"{report.kernel}: skipped: {report.skipped}" for report in reports if report.skipped]
    said += [f"{report.kernel}: {_refused(report.refused)}" for report in reports if report.refused]
    said += [
        f"{report.kernel}: no time for {counted(report.not_reached, 'chosen size')}; give it edges, smaller ones"
        for report in reports
        if report.not_reached
    ]
    defects = sum(len(report.defects) for report in reports)
    problems, launches = (sum(getattr(report, what) for report in reports) for what in ("problems", "launches"))
    verdict = counted(defects, "defect") if defects else "no defect"
    if accepted_ones:
        verdict += f", {len(accepted_ones)} waived"
    broken = sum(bool(report.broken) for report in reports)
    if broken:
        verdict += f", {broken} not checked"
    tried = f"{counted(problems, 'problem')} in {counted(len(orders), 'order')} of threads"
    counts = f"{counted(len(reports), 'kernel')}, {tried}, {counted(launches, 'launch')}"
    said.append(f"{counts}: {verdict} ({wall_s:.0f} s)")
    return [one_line(line) for line in said]


def _refused(refused: Mapping[str, str]) -> str:
    size, why = next(iter(refused.items()))
    return f"its family refuses {counted(len(refused), 'chosen size')}, such as {size} ({why})"


def described(reports: Sequence[KernelReport], orders: Sequence[int], wall_s: float) -> dict[str, Any]:
    """The reports as they go into the verdict file."""
    return {
        "schedules": list(orders),
        "wall_s": round(wall_s, 1),
        "kernels": [
            {
                "kernel": report.kernel,
                "problems": report.problems,
                "launches": report.launches,
                "skipped": report.skipped,
                "not_checked": report.broken,
                "refused": dict(report.refused),
                "not_reached": report.not_reached,
                "defects": [_described(defect) for defect in report.defects],
                "waived": [
                    {**_described(defect), "reason": waiver.reason, "expires": waiver.expires.isoformat()}
                    for defect, waiver in report.waived
                ],
            }
            for report in reports
        ],
    }


def _described(defect: RepeatedFinding) -> dict[str, Any]:
    return {**asdict(defect.first), "launches": defect.launches, "sizes": defect.sizes}


def _together(kernel: str, builds: Sequence[BuildReport], text_at: Callable[[str, str], str]) -> KernelReport:
    found: dict[tuple[str, str | None], list[LaunchFinding]] = {}
    for build in builds:
        for finding in sorted(build.findings, key=lambda each: _numbers(build.sizes.get(each.case, ""))):
            found.setdefault((finding.kind, finding.where), []).append(finding)
    return KernelReport(
        kernel,
        problems=sum(build.problems for build in builds),
        launches=sum(build.launches for build in builds),
        defects=tuple(
            RepeatedFinding(
                kernel,
                findings[0],
                len(findings),
                text_at(kernel, where) if where else "",
                _sizes(builds, {finding.case for finding in findings}),
            )
            for (_, where), findings in found.items()
        ),
        skipped=next((build.skipped for build in builds if build.skipped), None),
        broken=next((build.broken for build in builds if build.broken), None),
        refused={size: why for build in builds for size, why in build.refused.items()},
        not_reached=sum(build.not_reached for build in builds),
    )


def _sizes(builds: Sequence[BuildReport], shown_by: Set[str]) -> str:
    """Which sizes show a defect and which do not, of builds that it shows in."""
    ran = {case: size for build in builds if shown_by & build.sizes.keys() for case, size in build.sizes.items()}
    bad = dict.fromkeys(size for case, size in ran.items() if case in shown_by)
    good = dict.fromkeys(size for case, size in ran.items() if case not in shown_by and size not in bad)
    if len(bad) + len(good) < 2:
        return ""
    numbers = next(build.numbers for build in builds if build.sizes)
    return f"with {numbers} = {_some(bad)}" + (f", not with {_some(good)}" if good else ", every one tried")


def _some(sizes: Iterable[str]) -> str:
    """The smallest few."""
    ordered = sorted(sizes, key=_numbers)
    return ", ".join(ordered[:SOME]) + (f" and {len(ordered) - SOME} more" if len(ordered) > SOME else "")


def _numbers(size: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", size)]
