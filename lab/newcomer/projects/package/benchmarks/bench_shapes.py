import pytest

cp = pytest.importorskip("cupy")
shapes = pytest.importorskip("shapes")


@pytest.mark.parametrize("n", [1 << 22, 1 << 26])
def bench_shift(gpu_benchmark, n):
    x = cp.random.rand(n, dtype="float32")
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda x, by: x + by)(shapes.shift, x, 0.5)


@pytest.mark.peakgate(bytes=lambda x, low, high: 2 * x.nbytes, outputs=lambda x, low, high: x)
def bench_clamp(gpu_benchmark):
    x = cp.random.rand(1 << 26, dtype="float32")
    gpu_benchmark.expect(lambda x, low, high: x.clip(low, high))(shapes.clamp, x, 0.25, 0.75)
