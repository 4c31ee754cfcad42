"""What a kernel uses, as records and as the baseline file: JSON in a fixed order, for diffs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct
from peakgate.build.cubin import Resources
from peakgate.common import records
from peakgate.common.files import write_whole
from peakgate.common.records import Finite, Whole


def read(path: Path) -> Survey:
    """Read a baseline; PeakgateError names a file that is missing, broken or of another schema."""
    found = records.read(path, Baseline, f"write it anew with `peakgate resources --baseline {path} --update`")
    usage = {
        BuildTarget(kernel, int(name.removeprefix("sm_"))): line.usage
        for kernel, by_architecture in found.kernels.items()
        for name, line in by_architecture.items()
    }
    return Survey(found.nvrtc, found.options, usage, {})


def render(survey: Survey) -> str:
    """A survey as the text of a baseline; equal surveys give equal texts. Builds that do not compile are left out."""
    kernels = []
    for kernel, targets in groupby(sorted(survey.usage), key=lambda target: target.kernel):
        rows = [f'   "sm_{target.sm}": {json.dumps(_line(survey.usage[target]))}' for target in targets]
        kernels.append(f"  {json.dumps(kernel)}: {{\n" + ",\n".join(rows) + "\n  }")
    header = {"schema": 1, "nvrtc": survey.nvrtc, "options": list(survey.options)}
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in header.items())
    body = "{\n" + ",\n".join(kernels) + "\n }" if kernels else "{}"
    return f'{{\n{head} "kernels": {body}\n}}\n'


def write(path: Path, survey: Survey) -> None:
    """Write a baseline whole or not at all."""
    write_whole(path, render(survey))


def _line(usage: Usage) -> dict[str, Any]:
    occupancy = {block: [filled.fraction, filled.limiter] for block, filled in sorted(usage.occupancy.items())}
    return asdict(usage.resources) | {"occupancy": occupancy}


class BuildTarget(NamedTuple):
    """One kernel build, ``family.stage`` or ``family.stage+NAME=VALUE+...``, for one architecture.

    ``sm`` is the compute capability as compilers write it: 90 for 9.0, 120 for 12.0.
    """

    kernel: str
    sm: int


@dataclass(frozen=True, slots=True)
class TheoreticalOccupancy:
    """Theoretical occupancy, 0 to 1, to four digits, and the limits that allow no further block, ``warps+shared``."""

    fraction: float
    limiter: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What one build takes on one architecture; ``occupancy`` by block, ``256`` or ``32x8``."""

    resources: Resources
    occupancy: Mapping[str, TheoreticalOccupancy]


class BaselineLine(Struct):
    """One build on one architecture as the file has it."""

    registers: Whole
    stack_bytes: Whole
    spill_bytes: Whole
    static_shared_bytes: Whole
    occupancy: dict[str, tuple[Finite, str]]

    @property
    def usage(self) -> Usage:
        resources = Resources(self.registers, self.stack_bytes, self.spill_bytes, self.static_shared_bytes)
        return Usage(resources, {block: TheoreticalOccupancy(*filled) for block, filled in self.occupancy.items()})


class Baseline(Struct):
    """The file."""

    schema: Literal[1]
    nvrtc: str
    options: tuple[str, ...]
    kernels: dict[str, dict[Annotated[str, Meta(pattern=r"^sm_[0-9]{1,4}\Z")], BaselineLine]]


@dataclass(frozen=True, slots=True)
class Survey:
    """What every build takes under one NVRTC with one set of options.

    ``broken`` holds the compiler's message for builds that do not compile; a baseline has none.
    """

    nvrtc: str
    options: tuple[str, ...]
    usage: Mapping[BuildTarget, Usage]
    broken: Mapping[BuildTarget, str]

    def without(self, kernels: Collection[str], architectures: Collection[int] = ()) -> Survey:
        """The survey less these kernel builds and these architectures."""

        def stays(target: BuildTarget) -> bool:
            return target.kernel not in kernels and target.sm not in architectures

        usage = {target: usage for target, usage in self.usage.items() if stays(target)}
        broken = {target: message for target, message in self.broken.items() if stays(target)}
        return Survey(self.nvrtc, self.options, usage, broken)
