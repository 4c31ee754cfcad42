"""PyTorch: eager, autograd, compiled."""

import pytest

torch = pytest.importorskip("torch")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS = 8192 if torch.cuda.is_available() else 64


def inputs():
    return torch.randn(ROWS, 1024, device=DEVICE)


def softmax(x):
    return torch.softmax(x.double(), 1)


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=softmax)
def bench_softmax(gpu_benchmark):
    gpu_benchmark(lambda x: torch.softmax(x, 1), inputs())


@pytest.mark.peakgate(reference=lambda x: 2 * x.detach().double())
def bench_autograd(gpu_benchmark):
    x = inputs().requires_grad_()
    gpu_benchmark(lambda x: torch.autograd.grad((x * x).sum(), x)[0], x)


@pytest.mark.peakgate(bytes=lambda x: 2 * x.nbytes, reference=lambda x: torch.relu(x.double()) + 1)
def bench_compile(gpu_benchmark):
    gpu_benchmark(torch.compile(lambda x: torch.relu(x) + 1), inputs())
