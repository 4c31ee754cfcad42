import ml_dtypes
import numpy as np
import pytest
from family_modules import roof, transpose
from hypothesis import given
from hypothesis import strategies as st

from peakgate.case import Role, Scale, Tier
from peakgate.spec.arguments import value_of
from peakgate.spec.dtypes import storage

THREADS = roof.THREADS
BENCH = list(roof.FAMILY.cases(Scale.BENCH))
SMALL = list(roof.FAMILY.cases(Scale.SMALL))
FLOATS_A_THREAD = {"copy_float": 1, "copy_float4": 4, "copy_float4_x4": 16, "fma_chains": 1}
counts = st.integers(1, 2**31)


@given(n=counts, floats=st.sampled_from([1, 4, 16]))
def test_a_flat_launch_has_a_thread_for_every_element_and_no_idle_block(n: int, floats: int) -> None:
    blocks = roof.blocks(n, floats)
    assert (blocks - 1) * THREADS * floats < n <= blocks * THREADS * floats


def test_a_flat_stage_has_the_blocks_that_its_floats_a_thread_ask_for() -> None:
    for case in BENCH + SMALL:
        if floats := FLOATS_A_THREAD.get(case.stage.name):
            assert case.launch.grid == (roof.blocks(case.buffers[0].shape[0], floats), 1, 1), case.id


@given(n=counts)
def test_a_grid_stride_launch_is_bounded_and_gives_each_block_something_to_do(n: int) -> None:
    blocks = roof.grid_stride(n)
    assert 1 <= blocks <= roof.MAX_GRID_STRIDE_BLOCKS
    assert (blocks - 1) * THREADS * 4 < n


def test_labels_tell_the_bytes_of_the_array() -> None:
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    for case in BENCH + SMALL:
        if case.work.math is not None:
            continue
        nbytes = int(case.size[:-3]) * units[case.size[-3:]]
        measured = [buffer for buffer in case.buffers if buffer.role is Role.IN] or list(case.buffers)
        assert [buffer.nbytes for buffer in measured] == [nbytes], case.id


def test_memory_work_is_what_the_buffers_hold() -> None:
    for case in BENCH + SMALL:
        assert case.work.bytes == case.buffer_bytes, case.id


def test_every_float_copied_counts_twice() -> None:
    (case,) = [case for case in BENCH if case.id == "roof.copy_float4-1GiB"]
    assert case.work.bytes == 2 * 2**30


def test_arithmetic_work_counts_two_operations_a_step_of_every_chain() -> None:
    (case,) = [case for case in BENCH if case.stage.name == "fma_chains"]
    threads = case.work.bytes // 4
    assert case.work.flops == threads * roof.CHAINS * 2 * 1024
    assert case.work.flops / case.work.bytes > 1000


TENSOR = {case.stage.name: case for case in BENCH if case.work.math is not None}


def test_tensor_cores_have_a_stage_by_type_and_instruction_in_the_full_tier() -> None:
    assert {case.math for name, case in TENSOR.items() if name.startswith("mma_")} == {"tf32", "bf16", "fp16", "int8"}
    for instruction, elements in (("wgmma_", roof.ELEMENTS), ("tcgen05_", roof.OF_TCGEN05)):
        assert {case.math for name, case in TENSOR.items() if name.startswith(instruction)} == set(elements)
    assert {case.tier for case in TENSOR.values()} == {Tier.FULL}
    assert all(case.roof == case.math for case in TENSOR.values())


def test_tensor_work_counts_two_operations_for_each_product_of_each_pass() -> None:
    for name, case in TENSOR.items():
        passes = int(value_of(case.arguments[4]))
        rows, depth = case.buffers[0].shape[0], case.buffers[1].shape[1] * (2 if case.math == "fp4" else 1)
        columns = 64 if name.startswith("mma_") else 256
        assert case.work.flops == 2 * rows * columns * depth * passes, name
        assert case.work.flops / case.work.bytes > 10_000, name


def test_a_row_in_one_step_of_k_has_32_bytes_of_every_type() -> None:
    for math, elements in roof.STEP_ELEMENTS.items():
        nbytes = elements * storage(roof.OF_TCGEN05[math]).itemsize
        assert (nbytes // 2 if math == "fp4" else nbytes) == 32, math


def test_a_byte_has_two_numbers_of_4_bits() -> None:
    packed = np.array([[0x71, 0x9F], [0x00, 0x8A]], np.uint8)
    assert roof.of_codes(np, packed).tolist() == [[0.5, 6.0, -6.0, -0.5], [0.0, 0.0, -1.0, -0.0]]
    ours = roof.codes(np, (64, 64))
    theirs = np.stack((ours & 15, ours >> 4), axis=-1).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    assert np.array_equal(roof.of_codes(np, ours), theirs.reshape(64, 128))


def test_tiles_are_dealt_in_turn_and_columns_are_summed_in_pairs() -> None:
    left, right = np.eye(2, 16), np.arange(16 * 16, dtype="float64").reshape(16, 16)
    sums = roof.tile_sums(np, left, right, rows=3)
    columns = right.T[:2]
    assert sums[0].tolist() == [columns[0][[2 * t, 2 * t + 1, 2 * t + 8, 2 * t + 9]].sum() for t in range(4)]
    assert np.array_equal(sums[2], sums[0])


def test_inputs_are_normally_distributed_and_fit_tf32() -> None:
    values = roof.normal(np, (2000, 8))
    assert not (values.view("uint32") & 0x1FFF).any()
    assert abs(values.mean()) < 0.05
    assert abs(values.std() - 1) < 0.05


def test_each_kind_of_roof_is_measured_in_the_gate() -> None:
    gate = [case for case in BENCH if case.tier is Tier.GATE]
    assert {case.roof for case in gate} == {"copy", "read", "write", "fma"}
    assert len(gate) <= 20


def test_every_matrix_that_is_transposed_has_a_copy_of_its_own_size() -> None:
    sizes = {case.buffers[1].nbytes for case in BENCH if case.roof == "copy"}
    assert {4 * side * side for side in transpose.BENCH_SIDES} <= sizes


def test_the_gate_has_a_copy_as_large_as_each_matrix_the_gate_transposes() -> None:
    sizes = {case.buffers[1].nbytes for case in BENCH if case.roof == "copy" and case.tier is Tier.GATE}
    assert {4 * side * side for side in transpose.GATE_SIDES} == sizes


def test_memcpy_is_an_operation_of_the_device_from_second_buffer_to_first() -> None:
    (case,) = [case for case in SMALL if case.stage.name == "memcpy"]
    assert (case.stage.source, case.stage.operation) == (None, "memcpy")
    assert [buffer.role for buffer in case.buffers] == [Role.OUT, Role.IN]
    assert len(case.arguments) == 2


@given(n=st.integers(1, 40_000), blocks=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_block_sums_deal_quads_to_threads_as_a_grid_stride_loop_does(n: int, blocks: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-100, 100, n).astype(np.float32)
    expected = [0.0] * blocks
    for quad in range(n // 4):
        expected[quad // THREADS % blocks] += float(values[4 * quad : 4 * quad + 4].sum())
    expected[0] += float(values[n // 4 * 4 :].sum())

    sums = roof.block_sums(np, values, count=blocks)

    assert sums.dtype == np.float64
    assert sums.tolist() == expected


@pytest.mark.parametrize("n", [1, 5, roof.RAMP_PERIOD, roof.RAMP_PERIOD + 3])
def test_a_ramp_counts_up_and_begins_again_where_floats_stop_being_exact(n: int) -> None:
    values = roof.ramp(np, n=n)
    assert values.dtype == np.float32
    assert values.shape == (n,)
    assert values[-1] == (n - 1) % roof.RAMP_PERIOD


def test_chain_sums_equal_the_chains_run_step_by_step_in_float32() -> None:
    n, pairs = 2_000, roof.SMALL_ROUNDS * roof.ROUND_PAIRS
    start = np.arange(n, dtype=np.float32) % 1024
    chains = [start + np.float32(chain) for chain in range(roof.CHAINS)]
    for _ in range(pairs):
        chains = [chain * np.float32(2) + np.float32(2) for chain in chains]
        chains = [chain * np.float32(0.5) + np.float32(2) for chain in chains]

    expected = roof.chain_sums(np, n=n, rounds=roof.SMALL_ROUNDS)

    assert expected.dtype == np.float32
    assert np.array_equal(expected, np.sum(chains, axis=0, dtype=np.float32))


def test_the_longest_chains_stay_where_float32_counts_exactly() -> None:
    pairs = roof.BENCH_ROUNDS * roof.ROUND_PAIRS
    largest = 2 * (1023 + roof.CHAINS - 1 + 3 * pairs) + 2
    assert roof.CHAINS * largest < 2**24


def test_probes_reach_arrays_shorter_than_a_quad_and_every_length_of_tail() -> None:
    tails = {n % 4 for n in roof.MEMORY_PROBES}
    assert min(roof.MEMORY_PROBES) == 1
    assert tails == {0, 1, 2, 3}
