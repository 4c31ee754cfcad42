"""Triton; without a GPU its interpreter (TRITON_INTERPRET=1)."""

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS = 8192 if torch.cuda.is_available() else 16


@triton.jit
def softmax_kernel(out, x, columns, BLOCK: tl.constexpr):  # noqa: N803  (as its users write it)
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + column, values / tl.sum(values, 0), mask=column < columns)


def softmax(out, x):
    softmax_kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK=1024)


@pytest.mark.peakgate(bytes=lambda out, x: 2 * x.nbytes, reference=lambda out, x: torch.softmax(x.double(), 1))
def bench_softmax(gpu_benchmark):
    x = torch.randn(ROWS, 1000, device=DEVICE)
    gpu_benchmark(softmax, torch.empty_like(x), x)
