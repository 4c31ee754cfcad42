"""CUTLASS: CuTe's C++ headers in a kernel that CuPy compiles. CUTLASS_PATH names their repository."""

import os

import pytest
from doubling import BLOCK, DOUBLES, FLOATS, of_cupy

cupy = pytest.importorskip("cupy")

CODE = """
#include <cute/tensor.hpp>
using namespace cute;

extern "C" __global__ void twice(float* out, const float* x, int n)
{
    auto block = make_coord(blockIdx.x);
    auto all = make_layout(make_shape(n));
    auto from = local_tile(make_tensor(make_gmem_ptr(x), all), make_shape(Int<1024>{}), block);
    auto to = local_tile(make_tensor(make_gmem_ptr(out), all), make_shape(Int<1024>{}), block);
    auto threads = make_layout(Int<256>{});
    auto mine = local_partition(from, threads, threadIdx.x);
    auto values = make_tensor_like(mine);
    copy(mine, values);
    for (int i = 0; i < size(values); i++) { values(i) = 2 * values(i) + 1; }
    auto written = local_partition(to, threads, threadIdx.x);
    copy(values, written);
}"""


def of_cutlass():
    if "CUTLASS_PATH" not in os.environ:
        pytest.skip("CUTLASS_PATH is not set")
    headers = f"{os.environ['CUTLASS_PATH']}/include"
    kernel = cupy.RawKernel(CODE, "twice", options=("-std=c++17", "-default-device", f"-I{headers}"))
    return lambda out, x: kernel((FLOATS // BLOCK,), (256,), (out, x, cupy.int32(FLOATS))), *of_cupy()


@DOUBLES
def bench_cutlass(gpu_benchmark):
    gpu_benchmark(*of_cutlass())
