"""PyTorch: eager, compiled, captured in a CUDA graph, and behind an operator of one's own."""

import pytest
from doubling import DOUBLES, of_torch

torch = pytest.importorskip("torch")


def eager():
    return lambda x: 2 * x + 1, of_torch()[1]


def compiled():
    return torch.compile(lambda x: 2 * x + 1), of_torch()[1]


def graph():
    out, x = of_torch()
    captured = torch.cuda.CUDAGraph()
    torch.mul(x, 2, out=out).add_(1)
    torch.cuda.synchronize()
    with torch.cuda.graph(captured):
        torch.mul(x, 2, out=out).add_(1)
    return lambda out, x: captured.replay(), out, x


@torch.library.custom_op("peakgate_tests::double", mutates_args={"out"})
def double(out: torch.Tensor, x: torch.Tensor) -> None:
    torch.mul(x, 2, out=out).add_(1)


def custom_operator():
    return double, *of_torch()


@pytest.mark.parametrize("made", [eager, compiled, graph, custom_operator], ids=lambda made: made.__name__)
@DOUBLES
def bench_pytorch(gpu_benchmark, made):
    gpu_benchmark(*made())


def normalised():
    """A function and its arguments: the rows of a matrix, with a weight and a bias for each column."""
    x, weight, bias = (torch.rand(shape, device="cuda", requires_grad=True) for shape in ((1 << 14, 4096), 4096, 4096))
    return torch.nn.functional.layer_norm, x, (4096,), weight, bias


def of_backward():
    function, *arguments = normalised()
    out, leaves = function(*arguments), [each for each in arguments if isinstance(each, torch.Tensor)]
    return lambda given: torch.autograd.grad(out, leaves, given, retain_graph=True), torch.rand_like(out)


@pytest.mark.peakgate(bytes=lambda x, *_: 3 * x.nbytes)
def bench_backward(gpu_benchmark):
    gpu_benchmark.backward(*normalised())
