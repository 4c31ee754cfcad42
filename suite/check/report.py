"""What a run of the lane says: one line a defect, however many launches show it, and a record of it all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from peakgate.check.lane import BuildReport, Finding
from peakgate.verdict import ExitCode


@dataclass(frozen=True, slots=True)
class Defect:
    """The same complaint at the same line of a kernel: its first finding, and in how many launches it showed."""

    kernel: str
    first: Finding
    launches: int

    def __str__(self) -> str:
        often = f" (in {self.launches} launches)" if self.launches > 1 else ""
        return f"{self.first.case}, schedule {self.first.schedule}: {self.first.what}{often}"


@dataclass(frozen=True, slots=True)
class KernelReport:
    """All builds of a kernel together."""

    kernel: str
    problems: int
    launches: int
    defects: tuple[Defect, ...]
    skipped: str | None
    broken: str | None


def by_kernel(reports: Iterable[BuildReport]) -> list[KernelReport]:
    """One report a kernel, in order of name."""
    builds: dict[str, list[BuildReport]] = {}
    for report in reports:
        builds.setdefault(report.kernel, []).append(report)
    return [_together(kernel, builds[kernel]) for kernel in sorted(builds)]


def exit_code(reports: Sequence[KernelReport]) -> ExitCode:
    """A defect outranks a kernel that the emulator could not compile, that outranks a pass."""
    if any(report.defects for report in reports):
        return ExitCode.REGRESSION
    return ExitCode.UNDECIDED if any(report.broken for report in reports) else ExitCode.OK


def lines(reports: Sequence[KernelReport], orders: Sequence[int], wall_s: float) -> list[str]:
    """A line for each defect and for each kernel that was not checked, then one for all."""
    said = [str(defect) for report in reports for defect in report.defects]
    said += [f"{report.kernel}: not checked: {report.broken}" for report in reports if report.broken]
    said += [f"{report.kernel}: skipped: {report.skipped}" for report in reports if report.skipped]
    defects = sum(len(report.defects) for report in reports)
    problems, launches = (sum(getattr(report, what) for report in reports) for what in ("problems", "launches"))
    verdict = _many(defects, "defect") if defects else "no defect"
    broken = sum(bool(report.broken) for report in reports)
    if broken:
        verdict += f", {broken} not checked"
    counts = (
        f"{_many(len(reports), 'kernel')}, {_many(problems, 'problem')} in {_many(len(orders), 'order')} of threads"
    )
    said.append(f"{counts}, {_many(launches, 'launch', 'launches')}: {verdict} ({wall_s:.0f} s)")
    return said


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


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
                "defects": [{**asdict(defect.first), "launches": defect.launches} for defect in report.defects],
            }
            for report in reports
        ],
    }


def _together(kernel: str, builds: Sequence[BuildReport]) -> KernelReport:
    found: dict[tuple[str, str | None], list[Finding]] = {}
    for build in builds:
        for finding in build.findings:
            found.setdefault((finding.kind, finding.where), []).append(finding)
    return KernelReport(
        kernel,
        problems=sum(build.problems for build in builds),
        launches=sum(build.launches for build in builds),
        defects=tuple(Defect(kernel, findings[0], len(findings)) for findings in found.values()),
        skipped=next((build.skipped for build in builds if build.skipped), None),
        broken=next((build.broken for build in builds if build.broken), None),
    )
