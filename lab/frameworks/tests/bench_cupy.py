"""CuPy: fusion, an elementwise kernel."""

import pytest

cp = pytest.importorskip("cupy", exc_type=ImportError)

N = 1 << 26


@cp.fuse()
def fused(x, y):
    return x * y + 1


@pytest.mark.peakgate(bytes=lambda x, y: 3 * x.nbytes, reference=lambda x, y: x * y + 1)
def bench_fusion(gpu_benchmark):
    x = cp.arange(N, dtype=cp.float32) % 1000
    gpu_benchmark(fused, x, x / 2)


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: 2 * x)
def bench_elementwise(gpu_benchmark):
    double = cp.ElementwiseKernel("float32 x", "float32 y", "y = x + x", "doubled")
    gpu_benchmark(double, cp.arange(N, dtype=cp.float32) % 1000)
