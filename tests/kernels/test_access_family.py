from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulated import defect_is_noticed
from family_modules import access
from hypothesis import given
from hypothesis import strategies as st

from peakgate.case import Scalar, Scale, Stage, Tier

FAMILY = access.FAMILY
tiles_transposed = access.setups.tiles_transposed
SECTOR_BYTES, sector_useful_fraction = access.SECTOR_BYTES, access.setups.sector_useful_fraction
bank_turns, tile_words, warp_useful_fraction = (
    access.setups.bank_turns,
    access.setups.tile_words,
    access.setups.warp_useful_fraction,
)


BENCH = {case.id: case for case in FAMILY.cases(Scale.BENCH)}
SMALL = {case.id: case for case in FAMILY.cases(Scale.SMALL)}
PROBES = {probe.id: probe for case in BENCH.values() for probe in FAMILY.probes(case)}
LARGE_L2_BYTES = 60_000_000
KERNEL_STAGES = [stage for stage in FAMILY.stages if stage.source]


@pytest.mark.parametrize("stage", KERNEL_STAGES, ids=lambda stage: stage.name)
def test_addresses_are_computed_in_size_t(stage: Stage) -> None:
    assert stage.source is not None
    code = [line for line in stage.source.read_text().splitlines() if not line.startswith("//")]

    assert any("(size_t)" in line for line in code)
    assert not [line for line in code if "blockIdx.x * blockDim.x" in line and "(size_t)blockIdx.x" not in line]


def test_ids_are_unique_and_keep_their_form() -> None:
    assert len(BENCH) == len(list(FAMILY.cases(Scale.BENCH)))
    assert len(SMALL) == len(list(FAMILY.cases(Scale.SMALL))) <= 25
    assert {
        "access.stride-f32-s8",
        "access.stride-f64-512-s8",
        "access.offset-f32-o1",
        "access.grid_stride-f32-g1056",
        "access.stride_smem-f32-32x8",
        "access.shared_tile_row_col-f32-32x16-pad2",
        "access.transfer_h2d_pinned-256MiB",
    } <= BENCH.keys()


def test_every_stage_is_in_the_gate_and_the_gate_is_short() -> None:
    gate = [case for case in BENCH.values() if case.tier is Tier.GATE]

    assert {case.stage for case in gate} == {stage for stage in FAMILY.stages if not stage.host_bound}
    assert {case.stage for case in SMALL.values()} == set(FAMILY.stages)
    assert 30 <= len(gate) <= 40


@pytest.mark.parametrize(
    ("case_id", "bytes_", "flops"),
    [
        # 64 Mi floats, 4 bytes, read and written; at stride 8 an eighth as many.
        ("access.offset-f32-o1", 2 * 4 << 26, 1 << 26),
        ("access.stride-f32-s8", 2 * 4 << 23, 1 << 23),
        ("access.stride-f32-s32", 2 * 4 << 23, 1 << 23),
        ("access.stride-f64-s4", 2 * 8 << 23, 1 << 23),
        ("access.aos_one-f32", 2 * 4 << 26, 1 << 26),
        ("access.aos_all-f32", 2 * 16 << 26, 4 << 26),
        ("access.soa_all-f64", 2 * 32 << 25, 4 << 25),
        ("access.stride_column-f32-32x8", 2 * 4 * 8192 * 8192, 8192 * 8192),
        ("access.shared_tile_row_col-f32-32x32-pad0", 2 * 4 << 26, 0),
        ("access.transfer_d2h_pageable-1MiB", 1 << 20, 0),
    ],
)
def test_work_is_the_useful_traffic(case_id: str, bytes_: int, flops: int) -> None:
    assert (BENCH[case_id].work.bytes, BENCH[case_id].work.flops) == (bytes_, flops)


def test_benchmark_launches_outgrow_the_l2_and_stay_under_a_millisecond() -> None:
    for case in BENCH.values():
        if case.stage.source is None:
            continue
        moved = case.work.bytes / dict(case.predicted).get("useful_fraction", 1.0)
        assert moved / 2 >= 4 * LARGE_L2_BYTES, case.id
        assert moved / 4e12 <= 1e-3, case.id


def test_launches_cover_the_problem_within_the_limits_of_a_launch() -> None:
    for case in [*BENCH.values(), *SMALL.values(), *PROBES.values()]:
        if case.stage.source is None:
            continue
        x, y, z = case.launch.grid
        assert 1 <= x < 2**31, case.id
        assert max(y, z) < 2**16, case.id
        assert case.launch.threads_per_block <= 1024, case.id
        if case.stage.name in {"stride_column", "stride_smem"}:
            rows, columns = case.buffers[0].shape
            span = (32, 32) if case.stage.name == "stride_smem" else (8, 32)
            assert (x - 1) * span[0] < columns <= x * span[0], case.id
            assert (y - 1) * span[1] < rows <= y * span[1], case.id
        elif case.stage.name != "grid_stride":
            n = next(argument.value for argument in case.arguments if isinstance(argument, Scalar))
            assert (x - 1) * case.launch.threads_per_block < n <= x * case.launch.threads_per_block, case.id


def test_tiles_fit_the_shared_memory_every_block_has() -> None:
    for case in BENCH.values():
        tile = dict(case.defines)
        if "TILE_X" in tile:
            assert int(tile["TILE_Y"]) * (int(tile["TILE_X"]) + int(tile["PAD"])) * 4 <= 48 << 10, case.id
        assert case.launch.shared_bytes <= 48 << 10, case.id


def test_probes_run_the_build_the_block_and_the_knob_of_their_case() -> None:
    for case in BENCH.values():
        probes = list(FAMILY.probes(case))
        assert len(probes) >= 5, case.id
        for probe in probes:
            assert (probe.stage, probe.defines, probe.launch.block) == (case.stage, case.defines, case.launch.block)
            assert (probe.variant, probe.dtype, probe.block) == (case.variant, case.dtype, case.block)
            assert probe.buffer_bytes <= 4 << 20, probe.id


@given(st.integers(1, 40), st.sampled_from([4, 8]))
def test_the_sector_model_is_a_count_of_sectors(stride: int, element_bytes: int) -> None:
    n = 8192
    sectors = {i * stride * element_bytes // SECTOR_BYTES for i in range(n)}

    counted = n * element_bytes / (len(sectors) * SECTOR_BYTES)
    assert sector_useful_fraction(stride, element_bytes) == pytest.approx(counted, rel=1e-2)


@pytest.mark.parametrize(
    ("stride", "element_bytes", "fraction"),
    [(1, 4, 1), (2, 4, 1 / 2), (8, 4, 1 / 8), (32, 4, 1 / 8), (4, 8, 1 / 4), (32, 8, 1 / 4), (3, 4, 1 / 3)],
)
def test_useful_fractions_come_out_as_worked_by_hand(stride: int, element_bytes: int, fraction: float) -> None:
    assert sector_useful_fraction(stride, element_bytes) == pytest.approx(fraction)


@given(st.integers(0, 64), st.sampled_from([4, 8]))
def test_an_offset_costs_a_warp_one_sector_unless_it_is_a_whole_one(offset: int, element_bytes: int) -> None:
    sectors = 32 * element_bytes // SECTOR_BYTES
    extra = 0 if offset * element_bytes % SECTOR_BYTES == 0 else 1

    assert warp_useful_fraction(1, element_bytes, offset) == pytest.approx(sectors / (sectors + extra))


@pytest.mark.parametrize(
    ("tile", "pad", "turns"),
    [((32, 32), 0, 32), ((32, 32), 1, 1), ((32, 32), 2, 2), ((32, 16), 0, 16), ((32, 16), 1, 2), ((32, 16), 2, 1)],
)
def test_padding_decides_in_how_many_turns_a_column_is_read(tile: tuple[int, int], pad: int, turns: int) -> None:
    assert bank_turns(tile_words(tile, pad, by="col")) == turns
    assert bank_turns(tile_words(tile, pad, by="row")) == 1


@given(st.integers(1, 300), st.integers(1, 8), st.integers(1, 8))
def test_transposing_tiles_there_and_back_changes_nothing_that_is_whole(n: int, rows: int, columns: int) -> None:
    values = np.arange(1, n + 1, dtype=np.float32)
    there = tiles_transposed(np, values, rows=rows, columns=columns)
    back = tiles_transposed(np, there, rows=columns, columns=rows)

    whole = n // (rows * columns) * rows * columns
    assert there.shape == values.shape
    assert np.array_equal(back[:whole], values[:whole])
    for i in range(whole):
        row, column = divmod(i % (rows * columns), columns)
        assert there[i - i % (rows * columns) + column * rows + row] == values[i]


DEFECTS = [
    ("offset", "if (i < n)", "if (true)"),
    ("offset", "values[i + offset]", "values[i]"),
    ("stride", "i * stride", "i"),
    ("grid_stride", "i += stride", "i += blockDim.x"),
    ("aos_all", "records[i].z += 3", "records[i].w += 3"),
    ("stride_column", "row < rows && column < columns", "row < columns && column < rows"),
    ("stride_column", "row < rows && column < columns", "row < rows"),
    # A barrier inside a bounds test, and none at all.
    ("stride_smem", "__syncthreads();\n", "if (row < rows && column < columns) { __syncthreads(); }\n"),
    ("stride_smem", "__syncthreads();\n", "\n"),
    # The store guarded by other bounds than its own.
    ("stride_smem", "if (row + j < rows && column < columns)", "if (row + j < columns && column < rows)"),
    # Only the first of a thread's elements guarded.
    ("stride_smem", "if (row + j < rows && column < columns)", "if (row < rows && column < columns)"),
    ("shared_tile_row_col", "__syncthreads();", ""),
    ("shared_tile_row_col", "thread / TILE_Y", "thread / TILE_X"),
    ("shared_tile_col_row", "i < n ? in[i] : 0", "in[i]"),
    ("shared_tile_dynamic", "blockDim.x + pad", "blockDim.y + pad"),
]


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("stage", "right", "wrong"), DEFECTS)
def test_an_injected_defect_does_not_pass(stage: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert defect_is_noticed(FAMILY, stage, right, wrong, tmp_path)
