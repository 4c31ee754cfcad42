"""cuda.core: a program of C++ on a stream of its own, on arrays of CuPy."""

import pytest

core = pytest.importorskip("cuda.core", exc_type=ImportError)
cp = pytest.importorskip("cupy", exc_type=ImportError)

SOURCE = """
extern "C" __global__ void scale(float* out, const float* in, size_t n)
{
    const size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (at < n) { out[at] = 2.0f * in[at]; }
}"""


@pytest.mark.peakgate(bytes=lambda stream, out, x: 2 * x.nbytes, reference=lambda stream, out, x: 2 * x)
def bench_scale(gpu_benchmark):
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    options = core.ProgramOptions(arch=f"sm_{device.arch}")
    kernel = core.Program(SOURCE, "c++", options).compile("cubin").get_kernel("scale")
    x = cp.arange(1 << 24, dtype=cp.float32)
    cp.cuda.runtime.deviceSynchronize()

    def launch(stream, out, x):
        config = core.LaunchConfig(grid=x.size // 256, block=256)
        core.launch(stream, config, kernel, out.data.ptr, x.data.ptr, x.size)

    gpu_benchmark(launch, stream, cp.zeros_like(x), x)
