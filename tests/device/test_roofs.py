"""The roof kernels: they compile for GPUs and move what they claim to move."""

import numpy as np
import pytest
from tensor_products import is_product

from peakgate.compile.cubin import cubin
from peakgate.device.cpu import CpuLaunchable
from peakgate.device.roofs import (
    ELEMENTS,
    MMA,
    TCGEN05,
    TCGEN05_OF_10_3,
    WGMMA,
    copy_case,
    fma_case,
    memcpy_case,
    read_case,
    roof_cases,
    tensor_case,
    tensor_roofs,
    write_case,
)
from peakgate.spec.recorded import TENSOR_MATH

KIB = 1 << 10


def launched(case):
    launchable = CpuLaunchable(case)
    launchable.run()
    return launchable


@pytest.mark.parametrize("case", [copy_case("64KiB", 64 * KIB), memcpy_case("64KiB", 64 * KIB)], ids=["copy", "memcpy"])
def test_a_copy_puts_out_its_input(case):
    copied = launched(case)
    assert np.array_equal(copied.outputs[0], copied.inputs[0])


def test_reading_sums_every_float_once():
    read = launched(read_case("64KiB", 64 * KIB))
    assert read.outputs[0].sum(dtype="float64") == pytest.approx(read.inputs[0].sum(dtype="float64"), abs=1e-3)


def test_writing_writes_every_float():
    (written,) = launched(write_case("64KiB", 64 * KIB)).outputs
    assert np.array_equal(written, np.repeat(np.arange(4 * KIB, dtype="float32")[:, None], 4, axis=1))


def test_every_fma_of_every_chain_counts():
    (sums,) = launched(fma_case(512, rounds=2)).outputs
    starts = 8 * (np.arange(512) % 1024) + 28
    assert np.array_equal(sums, starts + 8 * 3 * 32 * 2)


def test_every_roof_compiles_for_every_architecture_generation():
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs NVRTC: the extra nvrtc")
    stages = {case.stage for case in roof_cases() if case.stage.source is not None}
    assert len(stages) == 4
    for stage in stages:
        assert cubin(stage, (), (9, 0)).resources.spill_bytes == 0


@pytest.mark.parametrize(
    ("kernel", "math"),
    [(kernel, math) for kernel in (MMA, WGMMA, TCGEN05, TCGEN05_OF_10_3) for math in kernel.needs],
    ids=lambda given: given if isinstance(given, str) else given.name,
)
def test_the_roofs_of_the_tensor_cores_compile_without_spills(kernel, math):
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs NVRTC: the extra nvrtc")
    case = tensor_case(math, kernel)
    assert cubin(case.stage, case.defines, kernel.needs[math]).resources.spill_bytes == 0


@pytest.mark.parametrize("math", ELEMENTS)
@pytest.mark.parametrize("kernel", [MMA, TCGEN05], ids=["mma", "tcgen05"])
def test_a_roof_multiplies_the_tiles_that_it_claims(kernel, math):
    case = tensor_case(math, kernel, blocks=2, passes=2, tiles=3)
    multiplied = launched(case)
    assert is_product(case, *multiplied.outputs, *multiplied.inputs)
    products = kernel.rows * kernel.columns * case.buffers[1].shape[1] * kernel.tiles_per_block
    assert case.work.flops == 2 * products * 2 * 2


def test_each_gpu_is_asked_for_roofs_it_has_instructions_for():
    def of(capability):
        return [(case.stage.name, case.roof) for case in tensor_roofs(TENSOR_MATH, capability)]

    assert of((7, 5)) == of(None) == []
    assert of((8, 0)) == [("mma_roof", math) for math in ("bf16", "fp16", "int8", "tf32")]
    assert of((8, 9)) == of((12, 0)) == [("mma_roof", math) for math in sorted(ELEMENTS)]
    assert of((9, 0)) == [("wgmma_roof", math) for math in sorted(ELEMENTS)]
    assert of((10, 0)) == [("tcgen05_roof", math) for math in sorted(ELEMENTS)]
    assert of((10, 3)) == [("tcgen05_roof", math) for math in ("bf16", "fp16", "fp8", "tf32")]
