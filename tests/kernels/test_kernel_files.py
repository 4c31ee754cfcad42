"""Rules that the kernel files of the access and the occupancy family keep, and the cases of their stages."""

from __future__ import annotations

import pytest
from emulated import is_right, small_of
from family_modules import access, occupancy

from peakgate.case import Family, Stage

FAMILIES = (access.FAMILY, occupancy.FAMILY)
STAGES = [
    pytest.param(family, stage, id=f"{family.name}.{stage.name}") for family in FAMILIES for stage in family.stages
]
FILES = [pytest.param(stage, id=stage.name) for family in FAMILIES for stage in family.stages if stage.source]


@pytest.mark.parametrize("stage", FILES)
def test_no_barrier_stands_inside_a_condition(stage: Stage) -> None:
    """The emulator lets threads leave early, so a barrier they skip on their way out is found here alone."""
    assert stage.source is not None
    barriers = [line for line in stage.source.read_text().splitlines() if "__syncthreads" in line]

    assert all(line == "    __syncthreads();" for line in barriers)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("family", "stage"), STAGES)
def test_a_stage_is_right_on_its_small_cases_and_their_probes(family: Family, stage: Stage) -> None:
    for case in small_of(family, stage.name):
        assert is_right(case), case.id
        for probe in family.probes(case):
            assert is_right(probe), probe.id
