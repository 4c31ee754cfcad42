"""What a reference function is given, and which of its results are expected."""

from types import SimpleNamespace

import numpy as np
import pytest
from synthetic_cases import make_case

from peakgate.device.expected import expected
from peakgate.judge.correctness import check
from peakgate.measure.data import inputs_of
from peakgate.measure.patterns import varied
from peakgate.spec.case import Buffer, Role


def values(outputs, dtype, **bounds):
    """Expected values of a reference that returns the size in bytes of its input's elements, for each output."""
    arguments = (*(Buffer(Role.OUT, (1,), each) for each in outputs), Buffer(Role.IN, (1,), dtype))
    case = make_case(
        arguments=arguments,
        reference=lambda xp, inputs: [xp.full(1, inputs[0].itemsize, each) for each in outputs],
        **bounds,
    )
    launched = SimpleNamespace(case=case, inputs=[np.zeros(1, dtype)])
    return [int(value[0]) for value in expected(np, launched, None).values]


@pytest.mark.parametrize(
    ("outputs", "dtype", "bounds", "bytes_of_inputs"),
    [
        (["float32"], "float32", {"tolerance": 1e-5}, [8]),
        (["int8"], "float32", {}, [4]),
        (["int8"], "float16", {}, [2]),
        (["int8", "float32"], "float32", {"tolerance": 1e-5}, [4, 8]),
        (["float32", "int8"], "float16", {"tolerance": 1e-5}, [8, 4]),
        (["int8", "float32"], "float64", {"tolerance": 1e-5}, [8, 8]),
        (["int8", "float32"], "float32", {"atol": 1.0}, [4, 8]),
    ],
)
def test_integers_are_computed_in_float32_and_others_in_float64(outputs, dtype, bounds, bytes_of_inputs):
    assert values(outputs, dtype, **bounds) == bytes_of_inputs


@pytest.mark.parametrize(
    ("reference", "right"),
    [
        (lambda xp, inputs: [xp.exp(inputs[0]) / xp.exp(inputs[0]).sum(axis=1, keepdims=True)], False),
        (lambda xp, inputs: [xp.log1p(xp.exp(inputs[0]))], False),
        (lambda xp, inputs: [xp.exp(inputs[0]) * 2.0**-30], True),
        (lambda xp, inputs: [xp.cumprod(inputs[0], axis=1)], True),
    ],
    ids=["softmax", "softplus", "scaled", "products"],
)
@np.errstate(all="ignore")
def test_a_references_formula_excuses_no_overflow_of_moderate_results(reference, right):
    arguments = (Buffer(Role.OUT, (40, 60)), Buffer(Role.IN, (40, 60)))
    problems = varied([make_case(arguments=arguments, reference=reference, tolerance=1e-5)]).problems
    (mixed,) = (each for each in problems if each.variant == "mixed")
    inputs = inputs_of(np, mixed)
    launched = SimpleNamespace(case=mixed, inputs=inputs)
    in_float32 = reference(np, inputs)
    assert check(np, mixed, in_float32, expected(np, launched, None)).right == right
