"""A launch takes what fits the kernel and refuses the rest in one line."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import peakgate_emulator as emulator
from peakgate_emulator import EmulatedKernel, EmulatorError
from peakgate_emulator.errors import ArgumentsError

ONE = (1, 1, 1)

SCALE = """
extern "C" __global__ void scale(float* out, const float* in, float factor, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * in[i];
}
"""


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> EmulatedKernel:
    source = tmp_path_factory.mktemp("launch") / "scale.cu"
    source.write_text(SCALE)
    return emulator.load(source, "scale")


def arguments(**changed: Any) -> tuple[Any, ...]:
    given_ones = {
        "out": np.zeros(8, np.float32),
        "source": np.arange(8, dtype=np.float32),
        "factor": np.float32(2),
        "n": np.int32(8),
    }
    return tuple({**given_ones, **changed}.values())


@settings(max_examples=25, deadline=None)
@given(count=st.integers(0, 300), threads=st.integers(1, 64), schedule=st.integers(0, 2**32 - 1))
def test_every_element_is_computed_and_none_behind_them(
    scale: EmulatedKernel, count: int, threads: int, schedule: int
) -> None:
    out = np.full(count + 1, -1, np.float32)
    source = np.arange(count, dtype=np.float32)
    blocks = max(1, -(-count // threads))
    scale.launch((blocks, 1, 1), (threads, 1, 1), (out, source, np.float32(3), np.int32(count)), schedule=schedule)
    np.testing.assert_array_equal(out, [*(3 * source), -1])


def test_one_array_may_be_input_and_output(scale: EmulatedKernel) -> None:
    values = np.arange(8, dtype=np.float32)
    scale.launch(ONE, (8, 1, 1), arguments(out=values, source=values))
    np.testing.assert_array_equal(values, 2 * np.arange(8))


def test_an_input_may_be_read_only(scale: EmulatedKernel) -> None:
    source = np.arange(8, dtype=np.float32)
    source.flags.writeable = False
    out = np.zeros(8, np.float32)
    scale.launch(ONE, (8, 1, 1), arguments(out=out, source=source))
    np.testing.assert_array_equal(out, 2 * source)


def test_an_array_of_any_address_is_aligned_as_device_memory_is(tmp_path: Path) -> None:
    source = tmp_path / "sum.cu"
    source.write_text(
        'extern "C" __global__ void sum(float* out, const float4* in) {\n'
        "    out[threadIdx.x] = in[threadIdx.x].x + in[threadIdx.x].w;\n"
        "}\n"
    )
    values = np.arange(9, dtype=np.float32)[1:]
    out = np.zeros(2, np.float32)
    emulator.load(source, "sum").launch(ONE, (2, 1, 1), (out, values))
    np.testing.assert_array_equal(out, [1 + 4, 5 + 8])


def test_a_python_integer_fits_integers_of_any_size(tmp_path: Path) -> None:
    source = tmp_path / "sum.cu"
    source.write_text(
        'extern "C" __global__ void sum(long long* out, int a, unsigned b, char c, size_t d, const int* none) {\n'
        "    out[0] = a + (long long)b + c + (long long)d + (none == nullptr);\n"
        "}\n"
    )
    out = np.zeros(1, np.int64)
    emulator.load(source, "sum").launch(ONE, ONE, (out, -1, 2**32 - 1, -128, 2**40, 0))
    assert out[0] == 2**40 + 2**32 - 129


def test_launches_from_several_threads_do_not_meet(scale: EmulatedKernel) -> None:
    def launch(factor: int) -> float:
        out = np.zeros(8, np.float32)
        scale.launch(ONE, (8, 1, 1), arguments(out=out, factor=np.float32(factor)))
        return float(out[7])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(launch, range(20))) == [7.0 * factor for factor in range(20)]


@pytest.mark.parametrize(
    ("parameter", "header", "fit", "misfit"),
    [
        ("__half", "cuda_fp16.h", ("float16", "uint16", "int16"), ("float32", "uint8", "int32")),
        ("__nv_bfloat16", "cuda_bf16.h", ("uint16",), ("float16", "float32", "uint32")),
        ("__nv_fp8_e4m3", "cuda_fp8.h", ("uint8",), ("float32", "float16", "uint16", "bool")),
    ],
)
def test_arrays_for_types_that_numpy_lacks_have_their_size(
    tmp_path: Path, parameter: str, header: str, fit: tuple[str, ...], misfit: tuple[str, ...]
) -> None:
    source = tmp_path / "copy.cu"
    source.write_text(
        f"#include <{header}>\n"
        f'extern "C" __global__ void copy({parameter}* out, const {parameter}* in) {{ out[0] = in[0]; }}\n'
    )
    copy = emulator.load(source, "copy")
    for dtype in fit:
        out = np.zeros(1, dtype)
        copy.launch(ONE, ONE, (out, np.ones(1, dtype)))
        assert out[0] == 1
    for dtype in misfit:
        with pytest.raises(EmulatorError, match=rf"argument 2 \(in\): {dtype} given"):
            copy.launch(ONE, ONE, (np.zeros(1, fit[0]), np.ones(1, dtype)))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"n": np.int64(8)}, "argument 4 (n): int64 given, expected int32 or uint32"),
        ({"n": np.float32(8)}, "argument 4 (n): float32 given, expected int32 or uint32"),
        ({"factor": np.float64(2)}, "argument 3 (factor): float64 given, expected float32"),
        ({"n": 8.0}, "argument 4 (n): float given for a value, expected a NumPy scalar"),
        ({"n": 1 << 32}, "argument 4 (n): 4294967296 given, expected an integer of 4 bytes"),
        ({"factor": 2}, "argument 3 (factor): int given for a value, expected a NumPy scalar"),
        ({"n": np.zeros(8, np.int32)}, "argument 4 (n): ndarray given for a value, expected a NumPy scalar"),
        ({"out": np.float32(1)}, "argument 1 (out): float32 given for a pointer, expected a NumPy array"),
        ({"out": np.zeros(8)}, "argument 1 (out): float64 given, expected float32"),
        ({"source": np.zeros(8, np.int32)}, "argument 2 (in): int32 given, expected float32"),
        (
            {"source": np.zeros(16, np.float32)[::2]},
            "argument 2 (in): array of strides (8,) given, expected",
        ),
        ({"extra": np.int32(1)}, "5 arguments given, expected 4: out, in, factor, n"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(scale: EmulatedKernel, changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(EmulatorError, match=re.escape(f"scale: {complaint}")) as caught:
        scale.launch(ONE, (8, 1, 1), arguments(**changed))
    assert "\n" not in str(caught.value)


def test_a_flag_that_has_an_integers_type_is_likely_a_bool(tmp_path: Path) -> None:
    source = tmp_path / "flag.cu"
    source.write_text('extern "C" __global__ void flag(int* out, bool on) { out[0] = on; }')
    kernel, out = emulator.load(source, "flag"), np.zeros(1, np.int32)
    for value, likely in ((1, "bool"), (0, "bool"), (2, "int8")):
        with pytest.raises(ArgumentsError) as refused:
            kernel.launch(ONE, ONE, (out, np.int32(value)))
        assert refused.value.value_type == likely
    kernel.launch(ONE, ONE, (out, np.bool_(True)))
    assert out[0] == 1


def test_a_read_only_array_is_no_output(scale: EmulatedKernel) -> None:
    out = np.zeros(8, np.float32)
    out.flags.writeable = False
    with pytest.raises(EmulatorError, match=r"argument 1 \(out\): read-only array given for a pointer to non-const"):
        scale.launch(ONE, (8, 1, 1), arguments(out=out))


def test_arrays_that_overlap_in_part_are_refused(scale: EmulatedKernel) -> None:
    values = np.zeros(12, np.float32)
    with pytest.raises(EmulatorError, match=r"argument 2 \(in\): array overlaps argument 1 \(out\)"):
        scale.launch(ONE, (8, 1, 1), arguments(out=values[:8], source=values[4:]))


@pytest.mark.parametrize(
    ("grid", "block", "complaint"),
    [
        ((0, 1, 1), ONE, r"grid \(0, 1, 1\) given"),
        ((1, 65536, 1), ONE, r"grid \(1, 65536, 1\) given, expected three sizes of 1 to \(2147483647, 65535, 65535\)"),
        ((1, 1), ONE, r"grid \(1, 1\) given"),
        (ONE, (1, 1, 65), r"block \(1, 1, 65\) given, expected three sizes of 1 to \(1024, 1024, 64\)"),
        (ONE, (1024, 2, 1), r"block \(1024, 2, 1\) has 2048 threads, at most 1024 are possible"),
    ],
)
def test_a_shape_that_no_gpu_takes_is_refused(scale: EmulatedKernel, grid: Any, block: Any, complaint: str) -> None:
    with pytest.raises(EmulatorError, match=complaint):
        scale.launch(grid, block, arguments())


@pytest.mark.parametrize("shared_bytes", [-1, 227 * 1024 + 1])
def test_more_dynamic_shared_memory_than_any_gpu_has_is_refused(scale: EmulatedKernel, shared_bytes: int) -> None:
    with pytest.raises(
        EmulatorError, match=f"{shared_bytes} bytes of dynamic shared memory given, expected 0 to 232448"
    ):
        scale.launch(ONE, (8, 1, 1), arguments(), shared_bytes=shared_bytes)
