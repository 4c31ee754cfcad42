"""The sgemm family: its plan against its kernel files."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import pytest
from family_modules import sgemm
from sgemm_builds import BUILDS, FOLDER, all_cases, builds, is_persistent, macros, shape_of, text_of

from peakgate.case import Case, Scale, Tier
from peakgate.spec.recorded import ID_PATTERN

BENCH_SIDES = sgemm.BENCH_SIDES
BEST = sgemm.BEST
BLOCKS_OF_A_FULL_GPU = sgemm.BLOCKS_OF_A_FULL_GPU
FAMILY = sgemm.FAMILY
GATE_SIDES = sgemm.GATE_SIDES
cases = FAMILY.cases
probes = FAMILY.probes


SOURCES = sorted(FOLDER.glob("*.cu"))
SMALLEST_OPT_IN_BYTES = 99 * 1024
"""Dynamic shared memory a block may have on every GPU that has asynchronous copies."""


@pytest.mark.parametrize("path", [*SOURCES, *FOLDER.glob("*.cuh")], ids=lambda path: path.name)
def test_no_address_is_an_int_product(path: Path) -> None:
    products = re.findall(r"^.*\* (?:N|K|cols)\b.*$", path.read_text(), flags=re.MULTILINE)
    code = [line.strip() for line in products if not line.lstrip().startswith("//")]
    assert [line for line in code if "static_cast<size_t>" not in line] == []


@pytest.mark.parametrize("scale", Scale)
def test_ids_are_unique_and_well_formed(scale: Scale) -> None:
    ids = [case.id for case in cases(scale)]
    assert len(set(ids)) == len(ids)
    assert all(ID_PATTERN.fullmatch(case_id) for case_id in ids)


def test_sizes_are_labelled_by_their_side_or_by_m_n_k() -> None:
    ids = {case.id for case in all_cases()}
    assert {"sgemm.double_buffer-4096", "sgemm.naive-65x97x40", "sgemm.cublas-16384"} <= ids


def test_the_grid_covers_c_and_no_block_lies_outside_it() -> None:
    every = [*all_cases(), *(probe for case in builds() for probe in probes(case))]
    for case in every:
        if case.stage.source is None or is_persistent(case):
            continue
        m, n, _ = shape_of(case)
        tile = macros(case)
        rows, cols = tile.get("TILE_ROWS", case.launch.block[1]), tile.get("TILE_COLS", case.launch.block[0])
        assert (case.launch.grid[0] - 1) * cols < n <= case.launch.grid[0] * cols, case.id
        assert (case.launch.grid[1] - 1) * rows < m <= case.launch.grid[1] * rows, case.id


@pytest.mark.parametrize("case", BUILDS)
def test_a_persistent_grid_fills_the_gpu_and_has_scratch_for_every_block(case: Case) -> None:
    if not is_persistent(case):
        assert len(case.buffers) == 3
        return
    tile = macros(case)
    partial, flags = case.buffers[3:]
    assert case.launch.grid == (BLOCKS_OF_A_FULL_GPU, 1, 1)
    assert partial.shape == (case.launch.grid[0], tile["TILE_ROWS"] * tile["TILE_COLS"])
    assert (flags.shape, flags.dtype) == ((case.launch.grid[0] + 1,), "uint32")


@pytest.mark.parametrize("case", BUILDS)
def test_the_launch_fits_the_kernel_and_every_gpu_it_runs_on(case: Case) -> None:
    assert case.stage.source is not None
    tile = macros(case)
    ring_floats = tile.get("RING_FLOATS", tile.get("SLOTS", 0) * tile.get("FLOATS_OF_SLOT", 0))
    assert case.launch.threads_per_block == tile.get("THREADS", case.launch.threads_per_block) <= 1024
    assert case.launch.shared_bytes == 4 * ring_floats <= SMALLEST_OPT_IN_BYTES


@pytest.mark.parametrize("case", BUILDS)
def test_static_shared_memory_stays_within_48_kib(case: Case) -> None:
    assert case.stage.source is not None
    tile = macros(case)
    if "SHARED_FLOATS" in case.stage.source.read_text():
        tile["SHARED_FLOATS"] = tile["WARPS"] * max(tile["FLOATS_OF_WARP"], tile["FLOATS_OF_STRIP"])
    arrays = re.findall(
        r"(?<!extern )__shared__ (?:__align__\(16\) )?float \w+((?:\[\w+\])+);", case.stage.source.read_text()
    )
    floats = sum(prod(eval(size, {}, tile) for size in re.findall(r"\[(\w+)\]", sizes)) for sizes in arrays)
    assert 4 * floats <= 48 * 1024


def test_work_is_two_flops_a_product_and_each_matrix_once() -> None:
    case = next(case for case in cases(Scale.SMALL) if case.size == "65x97x40")
    assert case.work.flops == 2 * 65 * 97 * 40
    assert case.work.bytes == sum(buffer.nbytes for buffer in case.buffers) == 4 * (65 * 40 + 40 * 97 + 65 * 97)


def test_every_stage_is_gated_at_the_gate_sizes_it_is_meant_for() -> None:
    gated = {
        stage.name: {c.size for c in cases(Scale.BENCH) if c.stage == stage and c.tier is Tier.GATE}
        for stage in FAMILY.stages
    }
    everywhere = {str(side) for side in GATE_SIDES}
    assert gated.pop("naive") == gated.pop("split_k") == gated.pop("group_split") == everywhere - {"4096"}
    assert all(sizes == everywhere for sizes in gated.values()), gated


def test_the_best_stage_of_every_side_is_one_of_its_cases() -> None:
    ids = {case.id for case in cases(Scale.BENCH)}
    assert tuple(BEST) == BENCH_SIDES
    assert [side for side, stage in BEST.items() if f"sgemm.{stage}-{side}" not in ids] == []


def test_small_scale_holds_a_tidy_and_a_ragged_case_of_every_stage() -> None:
    sizes = {stage.name: [case.size for case in cases(Scale.SMALL) if case.stage == stage] for stage in FAMILY.stages}
    assert all(found == ["128", "65x97x40"] for found in sizes.values()), sizes


def test_a_stage_needs_more_than_the_oldest_gpu_just_where_it_uses_newer_instructions() -> None:
    newer = re.compile(r"cp\.async|mbarrier")
    needs = {stage.name for stage in FAMILY.stages if stage.min_capability > (7, 5)}
    assert needs == {stage.name for stage in FAMILY.stages if stage.source and newer.search(text_of(stage.source))}
