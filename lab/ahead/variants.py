"""Builds of ``rings`` with other macros, beside ``clusters`` and the roof.

``python -m lab.ahead.variants`` prints a line for each on a GPU: microseconds (medians of rounds in drawn order, events
around one launch, after the L2 was overwritten), rate, and share of the best copy of the same size among them.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from typing import Any

from lab.libraries.turns import timed
from lab.pages import ROOT
from peakgate.base.text import say
from peakgate.device.choose import open_device
from peakgate.device.launcher import GpuLaunchable
from peakgate.spec.case import Case, Scale
from peakgate.spec.catalogue import module_at

ROUNDS = 15
SIZES_MIB = (256, 64)
RINGS = ((512, 4, 6, 132), (512, 2, 12, 132), (256, 4, 12, 132), (256, 4, 6, 264))
"""Threads that normalise, vectors of each, parts that a block has room for, blocks at most."""
NORMS = ("softmax-bf16", "layer-bf16", "softmax-f32", "layer-f32")


def family(name: str) -> Any:
    """The module of a family of this repository, whose names no checker knows."""
    return module_at(ROOT / "kernels" / name / "family.py")


def cases_of(made: Any, *texts: str) -> list[Case]:
    """The cases of a family whose id has every text."""
    found = (case for case in made.cases(Scale.BENCH) if isinstance(case, Case))
    return [case for case in found if all(text in f"{case.id}-" for text in texts)]


def rings(mib: int, variant: str) -> Iterator[tuple[str, Case]]:
    """Builds of rings for rows of 65536 elements in a matrix of so many MiB, and clusters."""
    norm = family("norm")
    rows = mib * 2**20 // (norm.LONG * (2 if variant.endswith("bf16") else 4))
    texts = (f"-{rows}x{norm.LONG}-{variant}-",)
    yield from (("clusters", case) for case in cases_of(norm.FAMILY, ".clusters-", *texts))
    for threads, vectors, parts, most in RINGS:
        norm.RINGS = {norm.LONG: norm.Ring(threads, vectors, parts, most)}
        made = norm.family(*norm._rings(7, "rings", "", norm.LONG))  # noqa: SLF001
        label = f"rings: {threads} threads, {vectors} vectors, {parts} parts, at most {most} blocks"
        yield from ((label, case) for case in cases_of(made, *texts))


def main() -> int:
    """Measure all."""
    device, _ = open_device("gpu")
    device.warm_up()
    tried = [(f"{variant} {mib}MiB", mib, [*rings(mib, variant)]) for mib in SIZES_MIB for variant in NORMS]
    device.prebuild([case for *_, named in tried for _, case in named], checked=False)
    for problem, mib, named in tried:
        copies = cases_of(family("roof").FAMILY, ".copy_float4", f"-{mib}MiB-")
        ready: dict[str, GpuLaunchable] = {}
        for label, case in [*named, *((f"roof {case.stage.name}", case) for case in copies)]:
            launchable = device.prepare(case)
            assert isinstance(launchable, GpuLaunchable)
            launchable.run()
            ready[label] = launchable
        taken = timed({label: each.launch for label, each in ready.items()}, ROUNDS)
        us = {label: statistics.median(each) for label, each in taken.items()}
        rate = {label: named[0][1].work.bytes / each / 1e3 for label, each in us.items()}
        roof = max(each for label, each in rate.items() if label.startswith("roof"))
        for label in sorted(us, key=us.__getitem__):
            say(f"{problem:20s} {label:60s} {us[label]:8.1f} us {rate[label]:6.0f} GB/s {rate[label] / roof:7.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
