"""``gpu_benchmark.backward``: gradients against float64, against differences, and traps of which none is right."""

import json
import re

import numpy as np
import pytest
from expecting import refuses
from runs import plain_pytest

from peakgate.base.errors import Code
from peakgate.callables.backward import FORWARD, BackwardCall
from peakgate.callables.output_check import OutputCheck
from peakgate.callables.settings import Given
from peakgate.session.outcome import WrongResult

torch = pytest.importorskip("torch")


def proven(function, *args, **given_values):
    """As the fixture does without a GPU."""
    call = BackwardCall(function, args, {})
    call.prepare()
    found = OutputCheck(call, Given(**{"reference": function, **given_values}))
    call.run()
    call.learn()
    proof = found.first()
    found.on_fresh_inputs(call.run)
    return call, proof


def tensors(*shapes, dtype=torch.float32):
    made = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=made).to(dtype).requires_grad_() for shape in shapes]


class Product(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """x * w, with a backward pass of its own that a trap spoils."""

    @staticmethod
    def forward(ctx, x, w, spoil):
        ctx.save_for_backward(x, w)
        ctx.spoil = spoil
        return x * w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return *ctx.spoil(gradient * w, gradient * x), None


def product(spoil):
    return lambda x, w: Product.apply(x, w, spoil)


def by_factor(of_x, of_w):
    return of_x, 2 * of_w


def at_one_element(of_x, of_w):
    of_x = of_x.clone()
    of_x.reshape(-1)[17] *= 1.5
    return of_x, of_w


def without_one(of_x, of_w):
    return of_x, None


class Stored:
    """Stores the gradients of the first call, as a cheat would."""

    def __init__(self):
        self.first = None

    def __call__(self, of_x, of_w):
        self.first = self.first or (of_x, of_w)
        return self.first


class RightOnlyAtFirst:
    def __init__(self, right):
        self.right = right

    def __call__(self, of_x, of_w):
        self.right -= 1
        return (of_x, of_w) if self.right >= 0 else (of_x, of_w * 1.01)


def test_gradients_of_every_argument_are_compared():
    call, proof = proven(lambda x, w, b: torch.tanh(x @ w + b), *tensors((8, 16), (16, 4), (4,)))
    assert [tuple(each.shape) for each in call.result] == [(8, 16), (16, 4), (4,)]
    assert 0 < proof.ratio < 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64])
def test_gradients_of_other_types_are_right(dtype):
    proven(lambda x, w: x * w, *tensors((64, 16), (16,), dtype=dtype), tolerance=0.02)


def test_an_own_backward_pass_that_is_right_is_right():
    proven(product(lambda of_x, of_w: (of_x, of_w)), *tensors((64, 64), (64, 64)))


def test_a_kink_is_no_wrong_gradient():
    class Relu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * (ctx.saved_tensors[0] > 0)

    proven(Relu.apply, *tensors((300, 1000)))


@pytest.mark.parametrize("spoil", [by_factor, at_one_element, without_one, Stored(), RightOnlyAtFirst(1)])
def test_a_wrong_own_backward_pass_is_wrong(spoil):
    with pytest.raises(WrongResult):
        proven(product(spoil), *tensors((100, 100), (100, 100)))


@pytest.mark.parametrize("spoil", [by_factor, at_one_element, without_one, Stored(), RightOnlyAtFirst(1)])
def test_it_is_wrong_by_a_declared_reference_too(spoil):
    with pytest.raises(WrongResult):
        proven(product(spoil), *tensors((100, 100), (100, 100)), reference=lambda x, w: x * w)


def test_one_wrong_element_of_a_million_is_found_by_differences():
    with pytest.raises(WrongResult, match=r"gradient of argument 1 \(x\) is not the derivative"):
        proven(product(at_one_element), *tensors((1000, 1000), (1000, 1000)))


def test_a_wrong_gradient_is_named_by_its_argument():
    x, w = tensors((10, 10), (10, 10))
    with pytest.raises(WrongResult, match="the gradient of argument 2"):
        proven(product(by_factor), x, w, reference=lambda x, w: x * w)


def test_a_declared_reference_may_differ_from_the_derivative():
    class StraightThrough(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    with pytest.raises(WrongResult):
        proven(StraightThrough.apply, *tensors((64,)))
    proven(StraightThrough.apply, *tensors((64,)), reference=lambda x: x * 1)


def test_an_unused_argument_has_a_gradient_of_zeros():
    call, _ = proven(lambda x, w: x * 2 + 0 * w.detach(), *tensors((8,), (8,)))
    assert not call.result[1].any()


def test_integers_lists_and_buffers_are_arguments():
    x, w = tensors((8, 4), (6, 4))
    index, mean = torch.tensor([5, 0, 3, 1, 2, 4, 1, 0]), torch.zeros(4)

    def function(pair, index, mean):
        mean.add_(pair[0].detach().mean(0))
        return {"out": pair[0] * pair[1][index]}

    call, _ = proven(function, [x, w], index, mean)
    assert call.names == ["argument 1 (pair)", "argument 1 (pair)"]
    assert not mean.any()


def test_every_backward_pass_has_a_forward_pass_of_its_own():
    passes = []

    def function(x):
        passes.append(x.dtype)
        return torch.sin(x)

    call = BackwardCall(function, tuple(tensors((8,))), {})
    call.prepare()
    call.prepare()
    call.launch()
    call.launch()
    assert passes == [torch.float32] * 3


@pytest.mark.parametrize(
    ("function", "args", "names"),
    [
        (torch.sin, [torch.ones(3)], "no argument requires a gradient"),
        (np.sin, [np.ones(3)], "arrays of numpy"),
        (abs, [3], "arrays of none"),
    ],
)
def test_arguments_without_a_gradient_are_refused(function, args, names):
    with refuses(Code.BENCHMARK_TEST, names):
        BackwardCall(function, tuple(args), {})


@pytest.mark.parametrize(
    "function", [torch.argmax, lambda x: x.detach(), lambda x: None, lambda x: x.numpy(force=True)]
)
def test_outputs_that_cannot_be_differentiated_are_refused(function):
    call = BackwardCall(function, tuple(tensors((3,))), {})
    with refuses(Code.BENCHMARK_TEST, "cannot be differentiated"):
        call.prepare()


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: x @ torch.eye(4), "float64 copies fails"),
        (torch.nn.functional.dropout, "other values for the same arguments"),
        (lambda x: product(lambda a, b: (a, b))(x.float(), x.float()).double(), "too irregularly"),
    ],
)
def test_a_function_without_a_usable_float64_is_undecided(function, names):
    with refuses(Code.REFERENCE, names):
        proven(function, *tensors((4, 4)))


TESTS = """
import pytest
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


@pytest.mark.parametrize("factor", [3, 4])
@pytest.mark.peakgate(bytes=lambda x, factor: 8 * x.numel())
def test_scale(gpu_benchmark, factor):
    found, = gpu_benchmark.backward(Scale.apply, torch.randn(1000, requires_grad=True), factor)
    assert found.shape == (1000,)


def test_nothing(gpu_benchmark):
    gpu_benchmark.backward(torch.sin, torch.randn(1000))


def test_constant(gpu_benchmark):
    gpu_benchmark.backward(torch.argmax, torch.randn(1000, requires_grad=True))


@pytest.mark.peakgate(outputs=lambda x: x)
def test_outputs(gpu_benchmark):
    gpu_benchmark.backward(torch.sin, torch.randn(1000, requires_grad=True))


@pytest.mark.peakgate(metric="launch")
def test_launched(gpu_benchmark):
    gpu_benchmark.backward(torch.sin, torch.randn(1000, requires_grad=True))


def test_raises(gpu_benchmark):
    def function(x):
        raise RuntimeError("no such mode")

    gpu_benchmark.backward(function, torch.randn(1000, requires_grad=True))
"""


def test_a_benchmark_test_of_a_backward_pass_has_a_verdict(benchmarks, tmp_path):
    saved = tmp_path / "run.json"
    done = plain_pytest(benchmarks(TESTS), f"--benchmark-json={saved}")
    assert done.returncode == 1
    (entry,) = [each["extra_info"] for each in json.loads(saved.read_text())["benchmarks"]]
    assert (entry["case"], entry["verdict"]) == ("benchmarks-bench_ops.test_scale-3", "NO_FLOOR")
    assert FORWARD in entry["sampling"]
    assert "WRONG benchmarks-bench_ops.test_scale-4" in done.stdout
    for test in ("nothing", "constant", "outputs", "launched-launch"):
        assert re.search(rf"INCONCLUSIVE benchmarks-bench_ops.test_{test}: .*\[PG306\]", done.stdout)
    assert "no such mode" in done.stdout
