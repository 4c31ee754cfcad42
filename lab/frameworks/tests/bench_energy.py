"""Calls whose power differs: a copy, and a product of matrices on tensor cores."""

import pytest

cp = pytest.importorskip("cupy", exc_type=ImportError)
torch = pytest.importorskip("torch")


@pytest.mark.parametrize("mib", [256])
@pytest.mark.peakgate(bytes=lambda out, x: 2 * x.nbytes, reference=lambda out, x: x)
def bench_copy(gpu_benchmark, mib):
    x = cp.arange(mib << 18, dtype=cp.float32)
    gpu_benchmark(lambda out, x: cp.copyto(out, x), cp.zeros_like(x), x)  # noqa: PLW0108  (a function of Python)


@pytest.mark.parametrize("dtype", ["bfloat16"])
@pytest.mark.peakgate(flops=2 * 4096**3, reference=lambda a, b: a.double() @ b.double(), tolerance=0.01)
def bench_product(gpu_benchmark, dtype):
    a, b = (torch.randn(4096, 4096, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
    gpu_benchmark(torch.matmul, a, b)
