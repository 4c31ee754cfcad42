"""Running a family's cases in the emulator, as they are and with a defect injected into the kernel."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
from family_modules import KERNELS

from peakgate.case import Case, Family, Scale
from peakgate.device.cpu import CpuLaunchable
from peakgate.device.interface import KernelFault


def small_of(family: Family, stage: str) -> list[Case]:
    return [case for case in family.cases(Scale.SMALL) if isinstance(case, Case) and case.stage.name == stage]


def is_right(case: Case) -> bool:
    launchable = CpuLaunchable(case)
    launchable.run()
    assert callable(case.reference)
    expected = case.reference(np, launchable.inputs)
    return all(map(np.array_equal, launchable.outputs, expected))


def defect_is_noticed(family: Family, stage: str, right: str, wrong: str, folder: Path) -> bool:
    """Whether the stage fails on its first small case or its probes once ``wrong`` stands in place of ``right``."""
    case = small_of(family, stage)[0]
    assert case.stage.source is not None
    text = case.stage.source.read_text()
    assert right in text
    shutil.copytree(KERNELS / "common", folder / "common")
    source = folder / family.name / case.stage.source.name
    source.parent.mkdir()
    source.write_text(text.replace(right, wrong, 1))
    return any(_fails(replace(c, stage=replace(c.stage, source=source))) for c in (case, *family.probes(case)))


def _fails(case: Case) -> bool:
    try:
        return not is_right(case)
    except KernelFault:
        return True
