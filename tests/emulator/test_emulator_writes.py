"""What is written, and what is not: values of races, outputs left out, numbers that are not finite, the whole grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulating import ONE, every_compiler, loaded

import peakgate_emulator as emulator
from peakgate_emulator import DefectKind, EmulatedKernel, EmulatorError, KernelDefect


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "kernel.cu"


def kernel_of(source: Path, body: str) -> EmulatedKernel:
    source.write_text(f'extern "C" __global__ void kernel(float* out, const float* in) {{\n{body}\n}}\n')
    return emulator.load(source, "kernel")


GLOBAL_RACE, SAME = DefectKind.GLOBAL_RACE, DefectKind.SAME_VALUE_RACE


@pytest.mark.parametrize(
    ("body", "grid", "said", "kinds"),
    [
        ("out[0] = in[threadIdx.x];", ONE, "the bits 0x40000000 replace 0x3f800000", {GLOBAL_RACE}),
        ("out[0] = in[0];", (2, 1, 1), "by another block", {SAME}),
        (
            "out[0] = in[threadIdx.x];\nout[9 * threadIdx.x] = 1;",
            ONE,
            "1 more",
            {GLOBAL_RACE, DefectKind.OUT_OF_BOUNDS},
        ),
    ],
    ids=["values that differ", "equal values of two blocks", "a race just before what ends the launch"],
)
def test_a_race_for_global_memory_is_named_with_its_values(
    source: Path, body: str, grid: tuple[int, int, int], said: str, kinds: set[DefectKind]
) -> None:
    block = (2 if grid == ONE else 1, 1, 1)
    with pytest.raises(KernelDefect, match=said) as caught:
        kernel_of(source, body).launch(grid, block, (np.zeros(1, np.float32), np.array([1, 2], np.float32)))
    assert {defect.kind for defect in caught.value.defects} == kinds


def test_an_output_written_in_part_says_how_much_is_missing(source: Path) -> None:
    kernel = kernel_of(source, "if (threadIdx.x != 5) out[threadIdx.x] = in[0];")
    arrays = np.zeros(8, np.float32), np.ones(1, np.float32)
    with pytest.raises(KernelDefect, match=r"argument 1 \(out\), which is an output: 4 of its 32 bytes, byte 20 first"):
        kernel.launch(ONE, (8, 1, 1), arrays, outputs=(0,))
    kernel.launch(ONE, (8, 1, 1), arrays)


def test_an_output_may_be_read_only_after_it_is_written(source: Path) -> None:
    kernel = kernel_of(source, "out[0] += in[0];")
    with pytest.raises(KernelDefect, match=r"kernel\.cu:2: uninitialised global: read of global memory .byte 0. that"):
        kernel.launch(ONE, ONE, (np.zeros(1, np.float32), np.ones(1, np.float32)), outputs=(0,))
    kernel_of(source, "out[0] = in[0];\nout[0] += in[0];").launch(
        ONE, ONE, (np.zeros(1, np.float32), np.ones(1, np.float32)), outputs=(0,)
    )


STORED = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        ("float32", "float"),
        ("float64", "double"),
        ("float16", "__half"),
        ("bfloat16", "__nv_bfloat16"),
        ("float8_e4m3fn", "__nv_fp8_e4m3"),
        ("float8_e5m2", "__nv_fp8_e5m2"),
    ],
)
def test_numbers_that_are_not_finite_are_reported_on_request(source: Path, dtype: str, element: str) -> None:
    signature = f'extern "C" __global__ void kernel({element}* out, float d)'
    source.write_text(f"#include <cuda_fp8.h>\n{signature} {{\n    out[1] = {element}((d - d) / d);\n}}\n")
    kernel = emulator.load(source, "kernel")
    out = np.zeros(2, STORED.get(dtype, dtype))
    kernel.launch(ONE, ONE, (out, np.float32(2)), nonfinite={0: dtype})
    kernel.launch(ONE, ONE, (out, np.float32(0)))
    with pytest.raises(KernelDefect, match=r"kernel\.cu:3: nonfinite: NaN or infinity is written to byte"):
        kernel.launch(ONE, ONE, (out, np.float32(0)), nonfinite={0: dtype})


def grid_sum(barrier: str) -> EmulatedKernel:
    return loaded("grid_sum", {"GRID_BARRIER": barrier})


def arrays(blocks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(blocks, np.int32), np.zeros(blocks, np.int32), np.arange(1, blocks + 1, dtype=np.int32)


def test_blocks_of_a_cooperative_launch_wait_for_each_other() -> None:
    given = arrays(5)
    kernel = grid_sum("if (threadIdx.x == 0) cooperative_groups::this_grid().sync()")
    kernel.launch((5, 1, 1), ONE, given, cooperative=True)
    np.testing.assert_array_equal(given[0], 15 + given[2])


def test_a_missing_barrier_of_the_grid_is_a_race_between_blocks() -> None:
    with pytest.raises(KernelDefect, match=r"of the same global word .* by another block"):
        grid_sum("").launch((5, 1, 1), ONE, arrays(5), cooperative=True)


def test_a_block_that_ends_while_the_grid_waits_is_a_defect() -> None:
    kernel = grid_sum("if (blockIdx.x) cooperative_groups::this_grid().sync()")
    with pytest.raises(KernelDefect) as caught:
        kernel.launch((5, 1, 1), ONE, arrays(5), cooperative=True)
    assert caught.value.defects[-1].message.startswith("4 blocks ")


def test_a_cooperative_launch_has_a_limit() -> None:
    with pytest.raises(EmulatorError, match="20000 blocks of 1 threads, expected at most 16384"):
        grid_sum("").launch((20000, 1, 1), ONE, arrays(20000), cooperative=True)


@every_compiler
def test_a_variable_left_through_a_pointer_is_out_of_bounds(compiler: emulator.Compiler) -> None:
    kernel = loaded("variables", compiler=compiler)
    for which, size in enumerate((64, 16, 8, 1)):
        for at in (0, size - 1, size, size + 7, -1):
            arguments = (np.zeros(1, np.float32), np.int32(which), np.int32(at))
            if 0 <= at < size:
                kernel.launch(ONE, ONE, arguments)
                continue
            with pytest.raises(KernelDefect, match=r"of variable (table|counts|weights|last)") as caught:
                kernel.launch(ONE, ONE, arguments)
            assert caught.value.kind is DefectKind.OUT_OF_BOUNDS


def test_variables_keep_their_first_values_behind_gaps() -> None:
    out = np.zeros(1, np.float32)
    loaded("variables").launch(ONE, ONE, (out, np.int32(1), np.int32(2)))
    assert out[0] == 3


@pytest.mark.parametrize("call", ["fetch_add(5)", "exchange(7 - in[0])"])
def test_a_race_of_atomics_has_the_values_of_both(call: str, source: Path) -> None:
    source.write_text(
        "#include <cuda/atomic>\n__global__ void kernel(int* out, const int* in) {\n    in += blockIdx.x;\n"
        f"    cuda::atomic_ref<int, cuda::thread_scope_block>(out[0]).{call};\n}}\n"
    )
    with pytest.raises(KernelDefect) as caught:
        emulator.load(source, "kernel").launch((2, 1, 1), ONE, (np.zeros(1, np.int32), np.array([1, 2], np.int32)))
    assert {defect.kind for defect in caught.value.defects} == {GLOBAL_RACE}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("float best[2]; best[0] = in[0]; out[threadIdx.x] = best[(int)in[threadIdx.x]];", True),
        ("float best[2]; best[0] = in[0]; out[threadIdx.x] = best[0];", False),
        ("out[threadIdx.x] = __shfl_down_sync(3, in[threadIdx.x], 2);", True),
        ("const float v = __shfl_down_sync(3, in[threadIdx.x], 2); out[threadIdx.x] = in[0] > 9 ? v : 1;", False),
    ],
)
def test_a_value_that_nobody_has_set_is_found_in_an_output(body: str, found: bool, source: Path) -> None:
    arrays = np.zeros(2, np.float32), np.array([0, 1], np.float32)
    if not found:
        kernel_of(source, body).launch(ONE, (2, 1, 1), arrays, schedule=2, outputs=(0,))
        return
    with pytest.raises(KernelDefect, match=r"\.cu:\d+: unset value: argument 1 \(out\)") as caught:
        kernel_of(source, body).launch(ONE, (2, 1, 1), arrays, schedule=2, outputs=(0,))
    assert caught.value.kind is DefectKind.UNSET_VALUE
