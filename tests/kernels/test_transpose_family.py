from itertools import pairwise

import numpy as np
import pytest
from family_modules import transpose
from hypothesis import given
from hypothesis import strategies as st

from peakgate.case import Role, Scale, Tier

BLOCKS = transpose.BLOCKS
FAMILY = transpose.FAMILY
BENCH = list(FAMILY.cases(Scale.BENCH))
SMALL = list(FAMILY.cases(Scale.SMALL))
RECTANGULAR = "smem_rectangular"
STATIC_SHARED_LIMIT_BYTES = 48 * 1024
sides = st.integers(1, 20_000)


@given(rows=sides, columns=sides, span=st.tuples(st.integers(1, 128), st.integers(1, 128)), down=st.booleans())
def test_a_grid_covers_the_matrix_with_no_block_wholly_outside(
    rows: int, columns: int, span: tuple[int, int], down: bool
) -> None:
    x, y = transpose.covering(rows, columns, span, down=down)
    along, below = (y, x) if down else (x, y)

    assert (along - 1) * span[0] < columns <= along * span[0]
    assert (below - 1) * span[1] < rows <= below * span[1]


def test_work_is_each_element_read_once_and_written_once() -> None:
    for case in BENCH + SMALL:
        assert case.work.bytes == sum(buffer.nbytes for buffer in case.buffers), case.id
        assert case.work.flops == 0


def test_the_output_of_a_transpose_has_the_inputs_columns_as_rows() -> None:
    for case in SMALL:
        output, matrix = case.buffers
        expected = matrix.shape if case.stage.name.startswith("copy_") else matrix.shape[::-1]
        assert (output.role, output.shape) == (Role.OUT, expected), case.id


def test_columns_come_before_rows_among_the_arguments() -> None:
    case = next(case for case in SMALL if case.size == "192x256")
    assert [argument.value for argument in case.arguments[2:]] == [256, 192]


def test_references_are_the_exact_transpose_and_the_input_itself() -> None:
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert transpose.transposed(np, matrix).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert transpose.copied(np, matrix).tolist() == matrix.tolist()
    assert all(case.tolerance == 0 for case in BENCH)


@pytest.mark.parametrize(
    ("block", "side"),
    [((32, 32), 32), ((32, 16), 32), ((16, 32), 32), ((16, 16), 16), ((8, 32), 32), ((32, 8), 32), ((8, 8), 8)],
)
def test_a_tile_is_as_wide_as_the_blocks_longer_side(block: tuple[int, int], side: int) -> None:
    assert transpose.tile(*block) == (side, side)


def test_every_block_walks_its_tile_in_whole_steps() -> None:
    assert all(transpose.tile(*block)[0] % threads == 0 for block in BLOCKS for threads in block)


def test_shared_tiles_fit_what_a_block_gets_without_opting_in() -> None:
    for case in BENCH:
        if "PAD" in (defined := dict(case.defines)):
            (side, _), tiles = transpose.tile(*case.launch.block[:2]), 2 if "unroll2" in case.stage.name else 1
            assert 4 * tiles * side * (side + int(defined["PAD"])) <= STATIC_SHARED_LIMIT_BYTES, case.id


def test_a_tile_stage_is_built_for_the_block_it_is_launched_with() -> None:
    tiled = [case for case in BENCH if case.defines]
    assert {case.stage.name for case in tiled} == {"smem", "smem_pad", RECTANGULAR, "smem_unroll2", "smem_unroll2_pad"}
    for case in tiled:
        defined = dict(case.defines)
        assert (int(defined["BLOCK_X"]), int(defined["BLOCK_Y"]), 1) == case.launch.block, case.id


def test_padding_other_than_the_usual_one_is_a_variant_of_the_id() -> None:
    ids = {case.id for case in BENCH if case.stage.name != RECTANGULAR}
    assert {"transpose.smem_pad-8192-32x8", "transpose.smem_pad-8192-32x8-pad2"} <= ids
    assert not any(name.endswith(("pad0", "pad1")) for name in ids)


def test_a_rectangular_tile_is_built_with_each_padding() -> None:
    paddings = {(case.block, case.variant) for case in BENCH if case.stage.name == RECTANGULAR}
    blocks = {f"{x}x{y}" for x, y in transpose.RECTANGULAR_BLOCKS}
    assert paddings == {(block, f"pad{pad}") for block in blocks for pad in (0, 1, 2, 4)}


def test_every_stage_is_benched_with_all_of_its_blocks_on_all_sizes() -> None:
    sides = {str(side) for side in transpose.BENCH_SIDES}
    for stage in FAMILY.stages:
        benched = {(case.size, case.launch.block[:2]) for case in BENCH if case.stage == stage}
        blocks = {block for _, block in benched}
        assert blocks in (set(BLOCKS), set(transpose.RECTANGULAR_BLOCKS), {(256, 1)}), stage.name
        assert benched == {(side, block) for side in sides for block in blocks}


def test_the_gate_judges_each_stage_at_both_gate_sizes_with_its_first_blocks() -> None:
    gate = [case for case in BENCH if case.tier is Tier.GATE]
    sizes = {str(side) for side in transpose.GATE_SIDES}
    assert RECTANGULAR not in {case.stage.name for case in gate}
    for stage in (stage for stage in FAMILY.stages if stage.name != RECTANGULAR):
        mine = [case for case in gate if case.stage == stage]
        assert {case.size for case in mine} == sizes
        assert len({case.block for case in mine}) <= transpose.GATE_BLOCKS, stage.name


def test_probes_reach_every_kind_of_edge_of_a_64_wide_float4_tile() -> None:
    aligned = [(rows, columns) for rows, columns in transpose.PROBE_SHAPES if rows % 4 == 0 and columns % 4 == 0]
    assert any(rows > 64 and columns > 64 and rows % 64 and columns % 64 for rows, columns in aligned)
    for axis in (0, 1):
        assert any(shape[axis] % 4 == 0 and shape[1 - axis] % 4 for shape in transpose.PROBE_SHAPES)
    assert any(rows > columns for rows, columns in transpose.PROBE_SHAPES)


def test_bench_sides_double() -> None:
    assert all(larger == 2 * smaller for smaller, larger in pairwise(transpose.BENCH_SIDES))
