"""What differs between a baseline and a survey, and whether that is a regression: pure judgement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from peakgate.build.cubin import Resources
from peakgate.common.text import one_line
from peakgate.resources.baseline import BuildTarget, Survey, TheoreticalOccupancy, Usage
from peakgate.verdict import ExitCode


class ResourceChange(StrEnum):
    """What a finding says, the gravest first."""

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
    """One thing to say of one kernel build, on every architecture it is equally true of."""

    kind: ResourceChange
    kernel: str
    architectures: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        where = ", ".join(f"sm_{sm}" for sm in self.architectures)
        return one_line(f"{self.kernel} on {where}: {self.kind.value}, {self.text}")


def compare(baseline: Survey, current: Survey) -> list[ResourceFinding]:
    """Every difference, the gravest first.

    A build that does not compile is a regression whether or not the baseline knows it; so are spilled bytes above the
    baseline's (a new build's are 0) and occupancy below it at any block. Other differences
    are reported and never fail.
    """
    found = [(ResourceChange.NOT_COMPILING, target, message) for target, message in current.broken.items()]
    for target, usage in current.usage.items():
        before = baseline.usage.get(target)
        reported = _new(usage) if before is None else _moved(before, usage)
        if reported is not None:
            found.append((reported[0], target, reported[1]))
    gone = baseline.usage.keys() - current.usage.keys() - current.broken.keys()
    found += [(ResourceChange.REMOVED, target, "in the baseline, no longer built") for target in gone]
    return _merged(found)


def differing(baseline: Survey, current: Survey) -> list[BuildTarget]:
    """What compiles on both sides and takes something else."""
    return [target for target, usage in current.usage.items() if baseline.usage.get(target, usage) != usage]


def varying(seen: Mapping[BuildTarget, tuple[Usage, Usage]]) -> list[ResourceFinding]:
    """What the compiler gives differently from call to call, (the baseline's, the other): reported and never failed."""
    found = []
    for target, (before, other) in seen.items():
        moved = _moved(before, other)
        if moved is not None:
            text = f"the compiler gives the same source what the baseline has in one build, in another {moved[1]}"
            found.append((ResourceChange.VARIES, target, text))
    return _merged(found)


def incomparable(baseline: Survey, current: Survey) -> str | None:
    """Why the kernels cannot be blamed for differences: another compiler or other options; None where they can."""
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
    """UNDECIDED when the two cannot be compared, else REGRESSION when a finding is one."""
    if incomparable(baseline, current):
        return ExitCode.UNDECIDED
    return ExitCode.REGRESSION if any(finding.kind in RESOURCE_REGRESSIONS for finding in findings) else ExitCode.OK


def _new(usage: Usage) -> tuple[ResourceChange, str]:
    if usage.resources.spill_bytes:
        return (
            ResourceChange.NEW_SPILLS,
            f"not in the baseline and spills {usage.resources.spill_bytes} bytes per thread",
        )
    return ResourceChange.NEW, "not in the baseline"


def _moved(before: Usage, after: Usage) -> tuple[ResourceChange, str] | None:
    """The gravest kind of difference and all differences in words; None where there is none."""
    kinds, parts = [ResourceChange.CHANGED], []
    for field in fields(Resources):
        old, new = getattr(before.resources, field.name), getattr(after.resources, field.name)
        if old != new:
            parts.append(f"{_NAMES[field.name]} {old} -> {new}")
    if after.resources.spill_bytes > before.resources.spill_bytes:
        kinds.append(ResourceChange.NEW_SPILLS)
    occupancy, lost = _occupancy_moved(before.occupancy, after.occupancy)
    if lost:
        kinds.append(ResourceChange.LOST_OCCUPANCY)
    parts = occupancy + parts
    return (min(kinds, key=_ORDER.index), "; ".join(parts)) if parts else None


def _occupancy_moved(
    before: Mapping[str, TheoreticalOccupancy], after: Mapping[str, TheoreticalOccupancy]
) -> tuple[list[str], bool]:
    """What differs at which blocks, and whether occupancy was lost at any; new and dropped blocks lose none."""
    parts, lost = [], False
    for block in sorted(before.keys() | after.keys()):
        old, new = before.get(block), after.get(block)
        if old is None:
            parts.append(f"block {block} is new")
        elif new is None:
            parts.append(f"block {block} is no longer launched")
        elif new.fraction != old.fraction:
            limit = f"limited by {new.limiter}" if new.fraction else f"no block fits, {new.limiter}"
            parts.append(
                f"occupancy {100 * old.fraction:.1f} % -> {100 * new.fraction:.1f} % at block {block} ({limit})"
            )
            lost = lost or new.fraction < old.fraction
        elif new.limiter != old.limiter:
            parts.append(f"occupancy at block {block} is now limited by {new.limiter}, was by {old.limiter}")
    return parts, lost


def _merged(found: Sequence[tuple[ResourceChange, BuildTarget, str]]) -> list[ResourceFinding]:
    """One finding for architectures that share kind, kernel and text, ordered by gravity, then name."""
    together: dict[tuple[ResourceChange, str, str], list[int]] = {}
    for kind, target, text in found:
        together.setdefault((kind, target.kernel, text), []).append(target.sm)
    findings = [
        ResourceFinding(kind, kernel, tuple(sorted(sms)), text) for (kind, kernel, text), sms in together.items()
    ]
    return sorted(findings, key=lambda finding: (_ORDER.index(finding.kind), finding.kernel, finding.architectures))
