import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def relu_kernel(out, x, n, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.maximum(tl.load(x + at, mask=at < n), 0.0), mask=at < n)


def relu(x):
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](out, x, x.numel(), BLOCK=1024)
    return out


def bench_relu(gpu_benchmark):
    x = torch.randn(1 << 26, device="cuda")
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(torch.relu)(relu, x)


def bench_softmax(gpu_benchmark):
    x = torch.randn(8192, 1024, device="cuda")
    gpu_benchmark.work(bytes=2 * x.nbytes).expect(lambda x, dim: torch.softmax(x.double(), dim))(torch.softmax, x, 1)
