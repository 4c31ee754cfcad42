"""2 * x as an array expression: what one call must move, and what must come out of it."""

import pytest


@pytest.mark.parametrize("n", [1 << 24])
@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: x + x)
def bench_scale(gpu_benchmark, n):
    x = gpu_benchmark.xp.ones(n, "float32")  # CuPy on a GPU, NumPy without one
    gpu_benchmark(lambda x: 2 * x, x)
