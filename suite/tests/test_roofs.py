"""The roof kernels: they compile for GPUs and move what they claim to move."""

import numpy as np
import pytest
from peakgate.build.cubin import cubin
from peakgate.device.cpu import CpuLaunchable
from peakgate.device.roofs import copy_case, fma_case, memcpy_case, read_case, roof_cases, write_case

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
