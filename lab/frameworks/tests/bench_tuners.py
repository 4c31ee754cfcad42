"""What Triton's autotune chooses."""

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (256, 1024, 4096) for warps in (2, 8)]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def scale_kernel(out, x, n, BLOCK: tl.constexpr):  # noqa: N803  (as its users write it)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def scale(out, x):
    scale_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](out, x, x.numel())


@pytest.mark.peakgate(bytes=lambda out, x: 2 * x.nbytes, reference=lambda out, x: 2 * x)
def bench_autotuned(gpu_benchmark):
    x = torch.randn(1 << 24, device="cuda")
    gpu_benchmark(scale, torch.empty_like(x), x)
