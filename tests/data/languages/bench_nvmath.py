"""nvmath-python: a matrix product by cuBLASLt."""

import pytest

torch = pytest.importorskip("torch")
advanced = pytest.importorskip("nvmath.linalg.advanced")

N = 8192


def of_nvmath():
    a, b = (torch.rand(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = advanced.Matmul(a, b)
    product.plan()
    return lambda a, b: product.execute(), a, b


@pytest.mark.peakgate(bytes=6 * N * N, flops=2 * N**3, math="bf16", reference=lambda a, b: a.double() @ b.double())
def bench_nvmath(gpu_benchmark):
    gpu_benchmark(*of_nvmath())
