"""Calls whose time on the host is measured in several sessions of one commit: of CuPy, PyTorch and Triton."""

import cupy
import pytest
import torch
import triton
import triton.language as tl

N, BLOCK = 1 << 20, 1024
KERNEL = cupy.RawKernel(
    """extern "C" __global__ void twice(float* out, const float* x) {
        int at = blockIdx.x * blockDim.x + threadIdx.x;
        out[at] = 2 * x[at] + 1;
    }""",
    "twice",
)
LAUNCH = pytest.mark.peakgate(reference=lambda *arrays: 2 * arrays[-1] + 1, metric="launch")


@triton.jit
def twice(out, x, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, 2 * tl.load(x + at) + 1)


@LAUNCH
def bench_raw_kernel(gpu_benchmark):
    x = cupy.random.random(N, "float32")
    gpu_benchmark(lambda out, x: KERNEL((N // BLOCK,), (BLOCK,), (out, x)), cupy.empty_like(x), x)


@LAUNCH
def bench_cupy(gpu_benchmark):
    gpu_benchmark(lambda x: 2 * x + 1, cupy.random.random(N, "float32"))


@LAUNCH
def bench_pytorch(gpu_benchmark):
    gpu_benchmark(lambda x: 2 * x + 1, torch.rand(N, device="cuda"))


@LAUNCH
def bench_triton(gpu_benchmark):
    x = torch.rand(N, device="cuda")
    gpu_benchmark(lambda out, x: twice[(N // BLOCK,)](out, x, BLOCK), torch.empty_like(x), x)


def layer(x, weight):
    """A product and a normalization."""
    return torch.nn.functional.layer_norm(x @ weight, (1024,))


@pytest.mark.peakgate(reference=layer, tolerance=0.05, metric="launch")
def bench_layer(gpu_benchmark):
    gpu_benchmark(layer, *(torch.rand(1024, 1024, device="cuda") for _ in range(2)))
