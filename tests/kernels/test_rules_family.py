"""What every family must keep to. A new stage or family is covered by being there; nothing here lists them."""

import re
from collections import Counter
from pathlib import Path

import pytest
from family_modules import KERNELS

from peakgate.case import Case, Family, Role, Scale, Tier
from peakgate.spec import catalogue

FAMILIES = catalogue.families()
STAGES = {stage.source: stage.name for family in FAMILIES for stage in family.stages if stage.source is not None}
SOURCES = sorted(path for path in KERNELS.glob("*/*.cu") if path.parent.name != "common")
ENTRY_POINT = re.compile(
    r'^extern "C" __global__ (?:TOGETHER )?void\s+(?:__(?:cluster_dims|launch_bounds)__\([^()]*\)\s*)*(?P<name>\w+)\(',
    re.MULTILINE,
)
CASE_ID = re.compile(r"[a-z0-9]+\.[a-z0-9_]+(-[A-Za-z0-9_.]+)*")
MAX_THREADS_A_BLOCK = 1024
MAX_GRID = (2**31 - 1, 65535, 65535)

each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
each_source = pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def all_cases(family: Family) -> list[Case]:
    return [case for scale in Scale for case in family.cases(scale) if isinstance(case, Case)]


def one_case_a_build(family: Family) -> list[Case]:
    builds = {(case.stage.name, case.defines, case.launch.block): case for case in all_cases(family)}
    return list(builds.values())


def test_every_folder_of_kernels_has_its_family() -> None:
    assert {path.parent.name for path in SOURCES} <= {family.name for family in FAMILIES}


@each_family
def test_every_kernel_file_is_a_stage_and_every_stage_has_its_file(family: Family) -> None:
    on_disk = {path.name for path in (KERNELS / family.name).glob("*.cu")}
    listed = {stage.source.name for stage in family.stages if stage.source is not None}

    assert on_disk - listed == set(), f"files without a stage in kernels/{family.name}/family.py"
    assert listed - on_disk == set(), f"stages without a file in kernels/{family.name}"


@each_family
def test_a_stage_is_named_once_and_has_a_lesson(family: Family) -> None:
    names = Counter(stage.name for stage in family.stages)
    assert [name for name, count in names.items() if count > 1] == []
    assert all(stage.lesson for stage in family.stages)


@each_family
def test_files_are_numbered_in_the_order_of_the_lesson(family: Family) -> None:
    named = [(stage.source.name, stage.name) for stage in family.stages if stage.source is not None]
    assert [file for file, _ in named] == [f"{number:02}_{name}.cu" for number, (_, name) in enumerate(named, 1)]


@each_source
def test_a_kernel_file_has_one_entry_point_that_carries_its_stages_name(source: Path) -> None:
    assert ENTRY_POINT.findall(source.read_text(encoding="utf-8")) == [STAGES[source]]


@each_source
def test_a_kernel_file_opens_with_its_stages_name_and_what_it_teaches(source: Path) -> None:
    lines = source.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(f"// {STAGES[source]}: ")
    header = lines[: next(number for number, line in enumerate(lines) if not line.startswith("//"))]
    assert len(header) >= 3, "a header comment: what this stage changes, and why it is faster or slower"


@each_source
def test_a_kernel_file_needs_no_header_of_the_host_and_keeps_ptx_in_shared_headers(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert re.findall(r"^\s*#\s*include\s*<(?!mma\.h>).*", text, re.MULTILINE) == []
    assert re.findall(r"\basm\b", text) == [], "inline PTX goes behind a header"


@each_source
def test_every_file_a_kernel_includes_exists(source: Path) -> None:
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', source.read_text(encoding="utf-8"), re.MULTILINE):
        assert (source.parent / name).is_file(), name


@each_family
def test_case_ids_are_unique_and_well_formed(family: Family) -> None:
    for scale in Scale:
        ids = [case.id for case in family.cases(scale)]
        assert [name for name, count in Counter(ids).items() if count > 1] == []
        assert [name for name in ids if not CASE_ID.fullmatch(name)] == []
        assert all(name.startswith(f"{family.name}.") for name in ids)


@each_family
def test_every_stage_has_cases_at_both_scales_and_in_the_gate(family: Family) -> None:
    names = {stage.name for stage in family.stages}
    emulated = {stage.name for stage in family.stages if not stage.specific}
    small, bench = (
        [case for case in family.cases(scale) if isinstance(case, Case)] for scale in (Scale.SMALL, Scale.BENCH)
    )
    assert emulated <= {case.stage.name for case in small}
    assert {case.stage.name for case in bench} == names
    gate = {case.stage.name for case in bench if case.tier is Tier.GATE}
    of_tensor_cores = {case.stage.name for case in bench if family.name == "roof" and case.work.math}
    # A gate measures the roofs of the types that its cases compute in anyway; a gate without such cases stays fast.
    tables = {"smem_rectangular"}  # measured for a page; its work is that of smem_pad
    without_floor = {"tcgen05", "tcgen05_overlapped", "tcgen05_pairs"}  # no GPU of Blackwell has measured them
    outside = of_tensor_cores | tables | without_floor
    assert gate == {stage.name for stage in family.stages if not stage.host_bound} - outside


@each_family
def test_every_launch_is_one_the_hardware_takes(family: Family) -> None:
    for case in all_cases(family):
        assert 1 <= case.launch.threads_per_block <= MAX_THREADS_A_BLOCK, case.id
        assert all(1 <= count <= limit for count, limit in zip(case.launch.grid, MAX_GRID, strict=True)), case.id


@each_family
def test_every_case_has_an_output_and_work_to_do(family: Family) -> None:
    for case in all_cases(family):
        assert any(buffer.role in {Role.OUT, Role.INOUT} for buffer in case.buffers), case.id
        assert case.work.bytes > 0 or case.work.flops > 0, case.id


@each_family
def test_probes_run_the_build_of_the_case_they_vouch_for(family: Family) -> None:
    for case in one_case_a_build(family):
        probes = list(family.probes(case))
        assert probes, case.id
        for probe in probes:
            assert probe.stage == case.stage
            assert probe.defines == case.defines, probe.id
            assert probe.launch.block == case.launch.block, probe.id


TILE = 64
"""Of the usual tiles the largest but one: with four of 128 some problems would take the emulator seconds."""

NOT_DIVIDED = {
    "attention": {0: "a head is a problem of its own"},
    "attention.two_pass": {1: "tiles of 8 queries, of which longer problems take seconds"},
    "attention.online": {1: "tiles of 8 queries, of which longer problems take seconds"},
    "norm": {0: "some builds have a block for each row"},
    "norm.registers": {1: "a row is held whole, in one build of 128 elements at most"},
    "roof.mma": {0: "a block is a problem of its own", 1: "passes are the same work again"},
    "roof.wgmma": {0: "a block is a problem of its own", 1: "passes are the same work again"},
    "roof.tcgen05": {0: "a block is a problem of its own", 1: "passes are the same work again"},
}
"""Extents without tiles that could end inside one, of families, or of stages whose names begin so."""


def extents_of(case: Case) -> tuple[int, ...]:
    """The numbers of a size; one alone where all are equal."""
    return tuple(map(int, re.sub(r"^\w*n(?=\d)", "", case.size).split("x")))


@each_family
def test_each_extent_of_a_build_ends_inside_a_tile_beyond_four(family: Family) -> None:
    for case in one_case_a_build(family):
        given = [extents_of(probe) for probe in family.probes(case)]
        dimensions = max(map(len, given))
        sizes = [size * (dimensions // len(size)) for size in given]
        undivided = [at for name, at in NOT_DIVIDED.items() if f"{family.name}.{case.stage.name}".startswith(name)]
        for at in set(range(dimensions)).difference(*undivided):
            assert any(size[at] > 4 * TILE and size[at] % TILE for size in sizes), (case.id, at)
