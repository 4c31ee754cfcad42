"""CuPy: a kernel in CUDA C++, a fused expression, and a kernel in Python; cuda.core."""

import pytest
from doubling import DOUBLES, FLOATS, of_cupy

cupy = pytest.importorskip("cupy")
from cupyx import jit  # noqa: E402

CODE = """extern "C" __global__ void twice(float* out, const float* x)
{
    const size_t at = blockIdx.x * 256ull + threadIdx.x;
    out[at] = 2 * x[at] + 1;
}"""


@jit.rawkernel()
def twice(out, x):
    at = jit.grid(1)
    out[at] = x[at] + x[at] + cupy.float32(1)


@cupy.fuse()
def double_of(x):
    return 2 * x + 1


def raw_kernel():
    kernel = cupy.RawKernel(CODE, "twice")
    return lambda out, x: kernel((FLOATS // 256,), (256,), (out, x)), *of_cupy()


def fused():
    return double_of, of_cupy()[1]


def in_python():
    return lambda out, x: twice((FLOATS // 256,), (256,), (out, x)), *of_cupy()


def cuda_core():
    core = pytest.importorskip("cuda.core")
    device = core.Device()
    device.set_current()
    options = core.ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    kernel = core.Program(CODE, "c++", options).compile("cubin").get_kernel("twice")
    launched = core.LaunchConfig(grid=FLOATS // 256, block=256)

    def call(out, x):
        stream = device.create_stream(cupy.cuda.get_current_stream())
        core.launch(stream, launched, kernel, out.data.ptr, x.data.ptr)

    return call, *of_cupy()


@pytest.mark.parametrize("made", [raw_kernel, fused, in_python, cuda_core], ids=lambda made: made.__name__)
@DOUBLES
def bench_cupy(gpu_benchmark, made):
    gpu_benchmark(*made())
