"""The backward pass of a PyTorch function as a call, and the gradients that it should give.

Every backward pass has a graph of its own, made by a forward pass that is not timed and that reads the arguments as
they are then: a function that stores its gradients, or part of their computation, has nothing to return. The reference
is automatic differentiation of the same function in float64. Where that runs a backward pass of the project's own
(``torch.autograd.Function``, ``torch.compile``), it is itself compared with differences of the function's values along
random directions.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any, ClassVar

from peakgate.base.errors import Code, PeakgateError, described
from peakgate.base.formatting import shown
from peakgate.callables.arrays import arrays_in, copy_of, framework
from peakgate.callables.call import Call, evaluated
from peakgate.callables.values import given, in_members
from peakgate.session.outcome import WrongResult

_SEED = 20_261_130

# A step of the differences relative to the size of an argument's elements. Smaller: fewer elements cross a kink of the
# function, such as that of relu; larger: less rounding.
_STEP = 2.0**-27

# Directions along which every argument's gradient is compared if the first direction disagrees.
_DIRECTIONS = 4

# An error is at least this share of the derivative's expected magnitude, and larger than rounding: this factor times
# the difference between two steps. More rounding than the last share leaves the comparison undecided.
_LEAST, _ROUNDING, _RESOLVED = 1e-6, 16.0, 1e-3

FORWARD = "a forward pass on these inputs before each timed backward pass"
"""The note in ``sampling``."""


@dataclass(frozen=True, slots=True)
class _Derivative:
    """The derivative along a direction: by the gradients, and by differences with one step and with twice that.

    ``size`` is the expected magnitude of a derivative along a random direction.
    """

    claimed: float
    measured: float
    doubled: float
    size: float

    @property
    def error(self) -> float:
        return abs(self.measured - self.claimed)

    @property
    def rounding(self) -> float:
        return _ROUNDING * abs(self.measured - self.doubled)

    @property
    def resolved(self) -> bool:
        return self.rounding <= _RESOLVED * max(self.size, abs(self.measured))


@dataclass
class BackwardCall(Call):
    """The backward pass of ``function``; its outputs are the gradients of every argument that requires one.

    ``prepare`` must be called once before the call is used: it draws the gradients of the outputs, which are then
    among ``arrays``. A reference is a function as the callable; ``function`` itself is confirmed by differences.
    """

    note: ClassVar[str] = FORWARD
    names: list[str] = field(default_factory=list)
    """The arguments that require a gradient, each as a phrase."""
    _drawn: list[Any] = field(default_factory=list)
    """The gradients of the outputs."""
    _leaves: list[Any] = field(default_factory=list)
    _outputs: list[Any] | None = None
    """The differentiable outputs of the last forward pass, until its graph is used."""
    _directions: int = 0
    _repeats: bool = False
    """Whether the function was seen to give the same values again."""

    def __post_init__(self) -> None:
        """Raises PeakgateError if no argument is a tensor of PyTorch that requires a gradient."""
        positions = (f"{at}{name}" for at, name in enumerate(_parameters(self.function, len(self.args)), start=1))
        for key, value in (*zip(positions, self.args, strict=True), *self.kwargs.items()):
            self.names += [f"argument {key}" for each in _tensors(value) if each.requires_grad]
        if not self.names:
            found = [f"{framework(each)}" for each in arrays_in([self.args, self.kwargs])]
            kinds = ", ".join(dict.fromkeys(found)) or "none"
            without = "no argument requires a gradient" if "torch" in found else f"arrays of {kinds} are given"
            raise PeakgateError(
                f"gpu_benchmark.backward: {without}; expected tensors of PyTorch as arguments, one of them with "
                "requires_grad=True",
                Code.BENCHMARK_TEST,
            )
        super().__post_init__()

    def prepare(self) -> None:
        """Run the function forward; the next launch runs the backward pass of this graph, which frees it.

        Raises PeakgateError if no output can be differentiated.
        """
        self._outputs, self._leaves = None, []  # the memory of an unused graph is freed first

        def leaf(value: Any) -> Any:
            if framework(value) != "torch":
                return in_members(value, leaf)
            alias = value.detach().requires_grad_(value.requires_grad)
            self._leaves += [alias] if value.requires_grad else []
            return alias

        args, kwargs = leaf(given(self._arguments))
        with _torch().enable_grad():
            result = self.noted(self.function, *args, **kwargs)
        outputs = [each for each in _tensors(result) if each.requires_grad]
        if not outputs:
            raise PeakgateError(
                f"gpu_benchmark.backward: the function returns {shown(result)}, which cannot be differentiated; "
                "expected a tensor that depends on an argument that requires a gradient",
                Code.BENCHMARK_TEST,
            )
        if not self._drawn:
            self._drawn = [_normal(each, each.dtype, _SEED + at) for at, each in enumerate(outputs)]
            self.arrays += self._drawn
            self.saved += map(copy_of, self._drawn)
            return
        self._outputs = outputs

    def launch(self) -> None:
        """Run the backward pass, after a forward pass if none was prepared."""
        if self._outputs is None:
            self.prepare()
        outputs, self._outputs = self._outputs, None
        self.result = self.noted(_gradients, outputs, self._leaves, self._drawn)

    def output_name(self, index: int) -> str:
        return f"the gradient of {self.names[index]}"

    def _referred(self, reference: Any) -> list[Any]:
        """The gradients of the reference in float64; raises WrongResult if they are not those of its own values."""
        self.ranks.all("its reference")
        if not callable(reference):
            raise PeakgateError(
                f"reference is {shown(reference)}; expected a function of the arguments, which is differentiated",
                Code.REFERENCE,
            )
        self._layout = None
        leaves, outputs = self._in_double(reference)
        try:
            found = _gradients(outputs, leaves, [each.to(_doubled(each)) for each in self._drawn])
        except Exception as error:
            raise _unreferred(f"its backward pass fails in float64: {described(error)}") from error
        if reference is self.function:
            self._confirm(outputs, found)
        return list(found)

    def _in_double(self, function: Callable[..., Any], steps: Sequence[Any] = ()) -> tuple[list[Any], list[Any]]:
        """Float64 copies of what requires a gradient, moved by ``steps``, and a function's outputs for them."""
        leaves: list[Any] = []

        def leaf(value: Any) -> Any:
            if framework(value) != "torch":
                return in_members(value, leaf)
            copied = value.detach().to(_doubled(value), copy=True)
            if value.requires_grad:
                copied = copied + steps[len(leaves)] if steps else copied
                leaves.append(copied.requires_grad_())
            return copied

        name = "its reference" if function is not self.function else "without reference=, itself on float64 copies"
        with _torch().enable_grad():
            result = evaluated(name, Code.REFERENCE, function, leaf(given(self._arguments)))
        outputs = [each for each in _tensors(result) if each.requires_grad]
        shapes, wanted = ([tuple(each.shape) for each in some] for some in (outputs, self._drawn))
        if shapes != wanted:
            raise _unreferred(f"in float64 it gives outputs of the shapes {shapes}, the callable {wanted}")
        return leaves, outputs

    def _confirm(self, outputs: Sequence[Any], found: Sequence[Any]) -> None:
        """Raise WrongResult if gradients are not those of the function's values, PeakgateError if that is not known."""
        if not self._repeats:
            again = [each.detach() for each in self._in_double(self.function)[1]]
            for one, other in zip(again, outputs, strict=True):
                if not _torch().allclose(one, other.detach(), rtol=1e-6, atol=1e-9, equal_nan=True):
                    raise _unreferred("it gives other values for the same arguments, as dropout does")
            self._repeats = True
        if not _has_own_backward(outputs):
            return
        first = self._along(found, range(len(found)))
        doubtful = not first.resolved or first.error > _LEAST * first.size + first.rounding
        if not self.ranks.any("a gradient in doubt", doubtful):
            return
        unresolved = []
        for at, name in enumerate(self.names):
            seen = [self._along(found, [at]) for _ in range(_DIRECTIONS)]
            rounding = max(each.rounding for each in seen)
            if min(each.error - _LEAST * each.size for each in seen) > rounding:
                worst = max(seen, key=lambda each: each.error)
                raise WrongResult(
                    f"the gradient of {name} is not the derivative of the function: along a random direction "
                    f"{worst.claimed:.6g}, expected {worst.measured:.6g} from its values in float64; if that is "
                    "intended, give the function to differentiate as reference="
                )
            if not any(each.resolved for each in seen):
                unresolved.append(name)
        if unresolved:
            raise _unreferred(
                f"its values change too irregularly in float64 to confirm the gradient of {', '.join(unresolved)}"
            )

    def _along(self, found: Sequence[Any], moved: Sequence[int]) -> _Derivative:
        """The derivative along a new random direction of the arguments ``moved``."""
        tensors = [each for each in _tensors([self.args, self.kwargs]) if each.requires_grad]
        directions, claimed, squares = [], 0.0, 0.0
        for at, gradient in enumerate(found):
            self._directions += 1
            direction = _normal(gradient, gradient.dtype, _SEED + 1000 + self._directions).sgn()
            leaf = tensors[at].detach().to(_doubled(tensors[at]))
            direction *= (leaf.abs().square().mean().sqrt().item() or 1.0) if at in moved and leaf.numel() else 0.0
            directions.append(direction)
            claimed += _inner(gradient, direction)
            squares += float((gradient.abs() * direction.abs()).square().sum().item())

        def difference(step: float) -> float:
            ahead, behind = (
                self._in_double(self.function, [sign * step * each for each in directions])[1] for sign in (1.0, -1.0)
            )
            rises = (
                _inner(drawn.to(_doubled(drawn)), one.detach() - other.detach())
                for drawn, one, other in zip(self._drawn, ahead, behind, strict=True)
            )
            return sum(rises) / (2 * step)

        return _Derivative(claimed, difference(_STEP), difference(2 * _STEP), squares**0.5)


def _torch() -> Any:
    return sys.modules["torch"]


def _tensors(value: object) -> list[Any]:
    return [each for each in arrays_in(value) if framework(each) == "torch"]


def _parameters(function: Callable[..., object], count: int) -> list[str]:
    """`` (name)`` of each of the first ``count`` parameters; empty where the function does not name it."""
    try:
        parameters = tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of C++ without a signature
        parameters = ()
    named = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    names = [f" ({each.name})" for each in parameters if each.kind in named][:count]
    return names + [""] * (count - len(names))


def _gradients(outputs: Sequence[Any], leaves: Sequence[Any], weights: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients of the leaves, zeros for one that the outputs do not depend on."""
    found: tuple[Any, ...] = _torch().autograd.grad(outputs, leaves, weights, materialize_grads=True)
    return found


def _has_own_backward(outputs: Sequence[Any]) -> bool:
    """Whether a graph has a node that is not PyTorch's own: of ``torch.autograd.Function`` or a C++ extension."""
    met, ahead = set(), [each.grad_fn for each in outputs]
    while ahead:
        node = ahead.pop()
        if node is None or node in met:
            continue
        met.add(node)
        if isinstance(node, _torch().autograd.function.BackwardCFunction) or type(node).__name__ == "CppFunction":
            return True
        ahead += [following for following, _ in node.next_functions]
    return False


def _doubled(tensor: Any) -> Any:
    """The type of a tensor's copy: float64 or complex128, integers as they are."""
    torch = _torch()
    if tensor.is_complex():
        return torch.complex128
    return torch.float64 if tensor.is_floating_point() else tensor.dtype


def _normal(like: Any, dtype: Any, seed: int) -> Any:
    """Random numbers of a normal distribution, in the shape and on the device of a tensor."""
    torch = _torch()
    generator = torch.Generator(device=like.device).manual_seed(seed)
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=_doubled(like)).to(dtype)


def _inner(one: Any, other: Any) -> float:
    """The sum of the products of two tensors' elements, of complex ones as pairs of reals."""
    torch = _torch()
    first, second = (torch.view_as_real(each) if each.is_complex() else each for each in (one, other))
    return float((first * second).sum().item())


def _unreferred(problem: str) -> PeakgateError:
    return PeakgateError(
        f"the reference of a backward pass: {problem}; give a function to differentiate as reference=", Code.REFERENCE
    )
