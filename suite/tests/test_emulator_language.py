"""Device code means what nvcc takes it to mean: constructors, alignment, headers, arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peakgate import emulator
from peakgate.emulator import Compiler, DefectKind, EmulatedKernel, KernelDefect

COMPILERS = emulator.available_compilers()
ONE = (1, 1, 1)

every_compiler = pytest.mark.parametrize("compiler", COMPILERS, ids=lambda compiler: compiler.name)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "kernel.cu"


def loaded(source: Path, text: str, **options: Any) -> EmulatedKernel:
    source.write_text(text)
    return emulator.load(source, "kernel", **options)


CONSTRUCTED = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct Pair { float a, b; __device__ Pair() {} __device__ Pair(float x) : a(x), b(x) {} };
__global__ void kernel(float* out) {
    __shared__ half h[64];
    __shared__ half2 h2[64];
    __shared__ __nv_bfloat16 brain[64];
    __shared__ Pair pairs[64];
    const int t = threadIdx.x;
    if (out[t] == 0) { h[t] = t; h2[t] = __half2half2(h[t]); brain[t] = t; pairs[t] = Pair(t); }
    __syncthreads();
    out[t] = __half2float(h[63 - t]) + __low2float(h2[63 - t]) + __bfloat162float(brain[63 - t]) + pairs[63 - t].a;
}
"""


@every_compiler
def test_shared_objects_with_a_constructor_have_no_guard_that_counts_as_shared_memory(
    source: Path, compiler: Compiler
) -> None:
    kernel = loaded(source, CONSTRUCTED, compiler=compiler)
    out = np.zeros(64, np.float32)
    kernel.launch(ONE, (64, 1, 1), (out,))
    np.testing.assert_array_equal(out, 4 * np.arange(63, -1, -1))
    with pytest.raises(KernelDefect) as caught:  # what the kernel itself leaves unwritten is found all the same
        kernel.launch(ONE, (64, 1, 1), (out,))
    assert {defect.kind for defect in caught.value.defects} == {DefectKind.UNINITIALISED_SHARED}


@every_compiler
def test_a_threads_own_array_is_aligned_for_the_accesses_to_it(source: Path, compiler: Compiler) -> None:
    text = """#include <cuda_fp16.h>
__global__ void kernel(float* out, const float2* in, int n) {
    char before[3];
    half r[4];
    *reinterpret_cast<float2*>(r) = in[0];
    before[n % 3] = 1;
    out[0] = __half2float(r[n]) + before[n % 3];
}
"""
    out, halves = np.zeros(1, np.float32), np.array([1, 2, 3, 4], np.float16)
    loaded(source, text, compiler=compiler).launch(ONE, ONE, (out, halves.view(np.float32), np.int32(2)))
    assert out[0] == 4
