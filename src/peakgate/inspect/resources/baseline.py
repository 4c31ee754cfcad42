"""Resource usage of kernels: records, the baseline file, and the differences between a baseline and a survey.

The file is JSON in a fixed order, for readable diffs. The comparison is pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from peakgate.base import records
from peakgate.base.records import Finite, Whole
from peakgate.base.report import Row
from peakgate.base.verdict import ExitCode
from peakgate.judge.occupancy import Resources


def read(path: Path) -> Survey:
    """Read a baseline; PeakgateError if the file is missing, invalid or of another schema."""
    found = records.read(path, Baseline, "write it again with `peakgate inspect resources --update`")
    usage = {
        BuildTarget(kernel, int(name.removeprefix("sm_"))): line.usage
        for kernel, by_architecture in found.kernels.items()
        for name, line in by_architecture.items()
    }
    return Survey(found.nvrtc, found.options, usage, {}, found.architectures)


def render(survey: Survey) -> str:
    """The text of a baseline file; equal surveys give equal texts. Builds that do not compile are left out."""
    kernels = []
    for kernel, targets in groupby(sorted(survey.usage), key=lambda target: target.kernel):
        rows = []
        for target in targets:
            usage = survey.usage[target]
            about = asdict(usage.resources) | {"occupancy": dict(sorted(usage.occupancy.items()))}
            rows.append(f'   "sm_{target.sm}": {json.dumps(about)}')
        kernels.append(f"  {json.dumps(kernel)}: {{\n" + ",\n".join(rows) + "\n  }")
    header = {"schema": 1, "nvrtc": survey.nvrtc, "options": list(survey.options)}
    header |= {"architectures": list(survey.architectures)} if survey.architectures else {}
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in header.items())
    body = "{\n" + ",\n".join(kernels) + "\n }" if kernels else "{}"
    return f'{{\n{head} "kernels": {body}\n}}\n'


class BuildTarget(NamedTuple):
    """One kernel build, ``family.stage`` or ``family.stage+NAME=VALUE+...``, for one architecture.

    ``sm`` is the compute capability as compilers write it: 90 for 9.0, 120 for 12.0.
    """

    kernel: str
    sm: int


class TheoreticalOccupancy(NamedTuple):
    """Theoretical occupancy from 0 to 1, rounded to four digits, and the resources that limit it (``warps+shared``)."""

    fraction: Finite
    limiter: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of one build on one architecture; ``occupancy`` by block, ``256`` or ``32x8``."""

    resources: Resources
    occupancy: Mapping[str, TheoreticalOccupancy]


class BaselineLine(Struct):
    """One build on one architecture in the file."""

    registers: Whole
    stack_bytes: Whole
    spill_bytes: Whole
    static_shared_bytes: Whole
    occupancy: dict[str, TheoreticalOccupancy]

    @property
    def usage(self) -> Usage:
        resources = Resources(self.registers, self.stack_bytes, self.spill_bytes, self.static_shared_bytes)
        return Usage(resources, self.occupancy)


class Baseline(Struct, kw_only=True):
    """The baseline file."""

    schema: Literal[1]
    nvrtc: str
    options: tuple[str, ...]
    architectures: tuple[Whole, ...] | None = None
    kernels: dict[str, dict[Annotated[str, Meta(pattern=r"^sm_[0-9]{1,4}\Z")], BaselineLine]]


@dataclass(frozen=True, slots=True)
class Survey:
    """Resource usage of every build under one NVRTC version and one set of options.

    ``broken`` holds the compiler's messages of builds that do not compile; empty in a baseline. ``architectures`` lists
    those of a baseline, None for all.
    """

    nvrtc: str
    options: tuple[str, ...]
    usage: Mapping[BuildTarget, Usage]
    broken: Mapping[BuildTarget, str]
    architectures: tuple[int, ...] | None = None

    def without(self, kernels: Collection[str], architectures: Collection[int] = ()) -> Survey:
        """A copy without these kernel builds and architectures."""

        def stays(target: BuildTarget) -> bool:
            return target.kernel not in kernels and target.sm not in architectures

        usage = {target: usage for target, usage in self.usage.items() if stays(target)}
        broken = {target: message for target, message in self.broken.items() if stays(target)}
        return Survey(self.nvrtc, self.options, usage, broken, self.architectures)


class ResourceChange(StrEnum):
    """Kinds of findings, the most severe first."""

    NOT_COMPILING = "NOT_COMPILING"
    NEW_SPILLS = "NEW_SPILLS"
    LOST_OCCUPANCY = "LOST_OCCUPANCY"
    CHANGED = "CHANGED"
    VARIES = "VARIES"
    NEW = "NEW"
    REMOVED = "REMOVED"


RESOURCE_REGRESSIONS = frozenset(
    {ResourceChange.NOT_COMPILING, ResourceChange.NEW_SPILLS, ResourceChange.LOST_OCCUPANCY}
)

_ORDER = list(ResourceChange)
_NAMES = {
    "registers": "registers",
    "spill_bytes": "spilled bytes",
    "stack_bytes": "stack bytes",
    "static_shared_bytes": "static shared bytes",
}


@dataclass(frozen=True, slots=True)
class ResourceFinding:
    """One finding on a kernel build, with all architectures that share it."""

    kind: ResourceChange
    kernel: str
    architectures: tuple[int, ...]
    text: str

    @property
    def row(self) -> Row:
        """The finding as a report's row."""
        where = ", ".join(f"sm_{sm}" for sm in self.architectures)
        return Row(f"{self.kernel} on {where}", reason=f"{self.kind.value}, {self.text}")


def compare(baseline: Survey, current: Survey) -> list[ResourceFinding]:
    """All differences, the most severe first.

    Regressions are a build that does not compile, more spilled bytes than in the baseline (0 for a new build), and a
    lower occupancy at any block. Other differences are reported and never fail.
    """
    found = [(ResourceChange.NOT_COMPILING, target, message) for target, message in current.broken.items()]
    for target, usage in current.usage.items():
        before = baseline.usage.get(target)
        if before is not None:
            if moved := _moved(before, usage):
                found.append((moved[0], target, moved[1]))
        elif spilled := usage.resources.spill_bytes:
            text = f"not in the baseline and spills {spilled} bytes per thread"
            found.append((ResourceChange.NEW_SPILLS, target, text))
        else:
            found.append((ResourceChange.NEW, target, "not in the baseline"))
    gone = baseline.usage.keys() - current.usage.keys() - current.broken.keys()
    found += [(ResourceChange.REMOVED, target, "in the baseline, no longer built") for target in gone]
    return _merged(found)


def differing(baseline: Survey, current: Survey) -> list[BuildTarget]:
    """Builds that compile on both sides and differ in resource usage."""
    return [target for target, usage in current.usage.items() if baseline.usage.get(target, usage) != usage]


def varying(seen: Mapping[BuildTarget, tuple[Usage, Usage]]) -> list[ResourceFinding]:
    """Findings on usage that varies between compilations (the baseline's, the other): reported, never failed."""
    found = []
    for target, (before, other) in seen.items():
        moved = _moved(before, other)
        if moved is not None:
            text = f"varies between compilations of the same source: once as in the baseline, once {moved[1]}"
            found.append((ResourceChange.VARIES, target, text))
    return _merged(found)


def incomparable(baseline: Survey, current: Survey) -> str | None:
    """Why differences cannot be attributed to the kernels: another compiler or other options; None if they can."""
    if baseline.nvrtc != current.nvrtc:
        return (
            f"the baseline was made with NVRTC {baseline.nvrtc}, this is NVRTC {current.nvrtc}: "
            "the differences may come from the compiler"
        )
    if baseline.options != current.options:
        return (
            f"the baseline was made with the options {' '.join(baseline.options)}, "
            f"these are {' '.join(current.options)}: the differences may come from them"
        )
    return None


def exit_code(baseline: Survey, current: Survey, findings: Iterable[ResourceFinding]) -> ExitCode:
    """UNDECIDED if the two cannot be compared, else REGRESSION if a finding is one."""
    if incomparable(baseline, current):
        return ExitCode.UNDECIDED
    return ExitCode.REGRESSION if any(finding.kind in RESOURCE_REGRESSIONS for finding in findings) else ExitCode.OK


def _moved(before: Usage, after: Usage) -> tuple[ResourceChange, str] | None:
    """The most severe kind of difference and a text on all; None without a difference.

    Occupancy is lost if it fell at any block; new and removed blocks do not count.
    """
    kinds, parts = [ResourceChange.CHANGED], []
    if after.resources.spill_bytes > before.resources.spill_bytes:
        kinds.append(ResourceChange.NEW_SPILLS)
    for block in sorted(before.occupancy.keys() | after.occupancy.keys()):
        old, new = before.occupancy.get(block), after.occupancy.get(block)
        if old is None:
            parts.append(f"block {block} is new")
        elif new is None:
            parts.append(f"block {block} is no longer launched")
        elif new.fraction != old.fraction:
            limit = f"limited by {new.limiter}" if new.fraction else f"no block fits, {new.limiter}"
            parts.append(
                f"occupancy {100 * old.fraction:.1f} % -> {100 * new.fraction:.1f} % at block {block} ({limit})"
            )
            kinds += [ResourceChange.LOST_OCCUPANCY] if new.fraction < old.fraction else []
        elif new.limiter != old.limiter:
            parts.append(f"occupancy at block {block} is now limited by {new.limiter}, was by {old.limiter}")
    for field in fields(Resources):
        had, has = getattr(before.resources, field.name), getattr(after.resources, field.name)
        if had != has:
            parts.append(f"{_NAMES[field.name]} {had} -> {has}")
    return (min(kinds, key=_ORDER.index), "; ".join(parts)) if parts else None


def _merged(found: Sequence[tuple[ResourceChange, BuildTarget, str]]) -> list[ResourceFinding]:
    """Merge findings that differ only in architecture; sort by severity, then name."""
    together: dict[tuple[ResourceChange, str, str], list[int]] = {}
    for kind, target, text in found:
        together.setdefault((kind, target.kernel, text), []).append(target.sm)
    findings = [
        ResourceFinding(kind, kernel, tuple(sorted(sms)), text) for (kind, kernel, text), sms in together.items()
    ]
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.kind), finding.kernel, finding.architectures))
