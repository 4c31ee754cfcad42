"""What torch.compile chooses with max-autotune, among its own kernels and the library's."""

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.peakgate(flops=lambda a, b: 2 * 2048**3, math="bf16", reference=lambda a, b: a.double() @ b.double())
def bench_max_autotune(gpu_benchmark):
    a, b = (torch.randn(2048, 2048, device="cuda").bfloat16() for _ in range(2))
    gpu_benchmark(torch.compile(torch.matmul, mode="max-autotune-no-cudagraphs"), a, b)


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=torch.relu)
def bench_after_it(gpu_benchmark):
    gpu_benchmark(torch.relu, torch.randn(1 << 24, device="cuda"))
