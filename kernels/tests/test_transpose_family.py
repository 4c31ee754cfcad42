from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from family_modules import transpose
from hypothesis import given
from hypothesis import strategies as st
from peakgate.case import Case, Role, Scale, Tier

BLOCKS = transpose.BLOCKS
ENTRIES = transpose.ENTRIES
tile_side = transpose.tile_side


STATIC_SHARED_LIMIT_BYTES = 48 * 1024
sides = st.integers(1, 20_000)


def shape_of(case: Case) -> tuple[int, int]:
    (matrix,) = [buffer for buffer in case.buffers if buffer.role is Role.IN]
    rows, columns = matrix.shape
    return rows, columns


@given(entry=st.sampled_from(ENTRIES), rows=sides, columns=sides, data=st.data())
def test_a_grid_covers_the_matrix_with_no_block_wholly_outside(
    entry: Any, rows: int, columns: int, data: st.DataObject
) -> None:
    block = data.draw(st.sampled_from(entry.blocks))
    x, y, z = entry.grid(rows, columns, block)
    along, below = (y, x) if entry.down else (x, y)
    span_columns, span_rows = entry.span(block)

    assert z == 1
    assert (along - 1) * span_columns < columns <= along * span_columns
    assert (below - 1) * span_rows < rows <= below * span_rows


def test_every_case_and_probe_launches_enough_blocks_for_its_matrix() -> None:
    for scale in Scale:
        for case in transpose.cases(scale):
            for checked in (case, *transpose.probes(case)):
                entry = next(entry for entry in ENTRIES if entry.stage == checked.stage)
                rows, columns = shape_of(checked)
                block = (checked.launch.block[0], checked.launch.block[1])
                assert checked.launch.grid == entry.grid(rows, columns, block), checked.id


@given(rows=sides, columns=sides)
def test_work_is_each_element_read_once_and_written_once(rows: int, columns: int) -> None:
    case = transpose._case(ENTRIES[0], rows, columns, (32, 8), None)
    assert case.work.bytes == sum(buffer.nbytes for buffer in case.buffers)
    assert case.work.flops == 0


def test_the_output_of_a_transpose_has_the_inputs_columns_as_rows() -> None:
    for case in transpose.cases(Scale.SMALL):
        output, matrix = case.buffers
        expected = matrix.shape if case.stage.name.startswith("copy_") else matrix.shape[::-1]
        assert (output.role, output.shape) == (Role.OUT, expected), case.id


def test_columns_come_before_rows_among_the_arguments() -> None:
    case = next(case for case in transpose.cases(Scale.SMALL) if case.size == "192x256")
    assert [argument.value for argument in case.arguments[2:]] == [256, 192]


def test_references_are_the_exact_transpose_and_the_input_itself() -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    (turned,) = transpose.transposed(np, [matrix])
    (same,) = transpose.copied(np, [matrix])

    assert turned.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert same.tolist() == matrix.tolist()
    assert all(case.tolerance == 0 for case in transpose.cases(Scale.BENCH))


@pytest.mark.parametrize(
    ("block", "side"),
    [((32, 32), 32), ((32, 16), 32), ((16, 32), 32), ((16, 16), 16), ((8, 32), 32), ((32, 8), 32), ((8, 8), 8)],
)
def test_a_tile_is_as_wide_as_the_blocks_longer_side(block: tuple[int, int], side: int) -> None:
    assert tile_side(block) == side


def test_every_block_walks_its_tile_in_whole_steps() -> None:
    assert all(tile_side(block) % threads == 0 for block in BLOCKS for threads in block)


def test_shared_tiles_fit_what_a_block_gets_without_opting_in() -> None:
    for entry in ENTRIES:
        for block in entry.blocks:
            for pad in entry.pads:
                columns, rows = entry.span(block)
                tiles = columns // rows
                assert 4 * tiles * rows * (rows + pad) <= STATIC_SHARED_LIMIT_BYTES, entry.stage.name


def test_a_tile_stage_is_built_for_the_block_it_is_launched_with() -> None:
    tiled = [case for case in transpose.cases(Scale.BENCH) if case.defines]
    assert {case.stage.name for case in tiled} == {entry.stage.name for entry in ENTRIES if entry.pads}
    for case in tiled:
        defined = dict(case.defines)
        assert (int(defined["BLOCK_X"]), int(defined["BLOCK_Y"]), 1) == case.launch.block, case.id


def test_padding_other_than_the_usual_one_is_a_variant_of_the_id() -> None:
    ids = {case.id for case in transpose.cases(Scale.BENCH)}
    assert {"transpose.smem_pad-8192-32x8", "transpose.smem_pad-8192-32x8-pad2"} <= ids
    assert not any(name.endswith(("pad0", "pad1")) for name in ids)


def test_every_stage_that_takes_any_block_is_benched_with_all_of_them_on_all_sizes() -> None:
    for entry in ENTRIES:
        benched = {
            (case.size, case.launch.block[:2]) for case in transpose.cases(Scale.BENCH) if case.stage == entry.stage
        }
        blocks = set(BLOCKS) if len(entry.blocks) > 1 else set(entry.blocks)
        assert benched == {(str(side), block) for side in transpose.BENCH_SIDES for block in blocks}


def test_the_gate_judges_each_stage_at_both_gate_sizes_and_stays_small() -> None:
    gate = [case for case in transpose.cases(Scale.BENCH) if case.tier is Tier.GATE]
    sizes = {str(side) for side in transpose.GATE_SIDES}
    for entry in ENTRIES:
        assert {case.size for case in gate if case.stage == entry.stage} == sizes
    assert len(gate) == len(sizes) * sum(
        min(len(entry.blocks), transpose.GATE_BLOCKS) * max(1, len(entry.pads)) for entry in ENTRIES
    )


def test_probes_reach_every_kind_of_edge_of_a_64_wide_float4_tile() -> None:
    aligned = [(rows, columns) for rows, columns in transpose.PROBE_SHAPES if rows % 4 == 0 and columns % 4 == 0]
    assert any(rows > 64 and columns > 64 and rows % 64 and columns % 64 for rows, columns in aligned)
    for axis in (0, 1):
        assert any(shape[axis] % 4 == 0 and shape[1 - axis] % 4 for shape in transpose.PROBE_SHAPES)
    assert any(rows > columns for rows, columns in transpose.PROBE_SHAPES)


def test_bench_sides_double() -> None:
    assert all(larger == 2 * smaller for smaller, larger in pairwise(transpose.BENCH_SIDES))
