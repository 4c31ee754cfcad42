"""The records the resource gate speaks in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from peakgate.build.cubin import Resources


class Target(NamedTuple):
    """One kernel build, ``family.stage`` or ``family.stage+NAME=VALUE+...``, for one architecture.

    ``sm`` is the compute capability as compilers write it: 90 for 9.0, 120 for 12.0.
    """

    kernel: str
    sm: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Theoretical occupancy, 0 to 1, to four digits, and the limits that allow no further block, ``warps+shared``."""

    fraction: float
    limiter: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What one build takes on one architecture; ``occupancy`` by block, ``256`` or ``32x8``."""

    resources: Resources
    occupancy: Mapping[str, Occupancy]


@dataclass(frozen=True, slots=True)
class Survey:
    """What every build takes under one NVRTC with one set of options.

    ``broken`` holds the compiler's message for builds that do not compile; a baseline has none.
    """

    nvrtc: str
    options: tuple[str, ...]
    usage: Mapping[Target, Usage]
    broken: Mapping[Target, str]

    def without(self, kernels: Collection[str], architectures: Collection[int] = ()) -> Survey:
        """The survey less these kernel builds and these architectures."""

        def stays(target: Target) -> bool:
            return target.kernel not in kernels and target.sm not in architectures

        usage = {target: usage for target, usage in self.usage.items() if stays(target)}
        broken = {target: message for target, message in self.broken.items() if stays(target)}
        return Survey(self.nvrtc, self.options, usage, broken)
