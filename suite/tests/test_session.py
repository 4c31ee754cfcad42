"""What a session does before its first case."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from peakgate.case import Buffer, Role, Stage, Tier
from peakgate.judge.floors import Floors
from peakgate.project import catalogue
from peakgate.run.session import Session
from synthetic_cases import make_case

KERNEL = Stage("double", "doubles", source=Path("double.cu"))


@pytest.fixture
def compiled(monkeypatch):
    """The problems whose references a device is asked to compile for."""
    problems = []
    device = SimpleNamespace(
        peaks=None, prebuild=lambda _: None, prebuild_references=problems.extend, warm_up=lambda: None
    )

    def begin(*cases, edge=lambda case: [case], checks=True):
        monkeypatch.setattr(catalogue, "probes", edge)
        Session(device, Floors(Path("none")), Tier.GATE, checks=checks).begin(cases, roofs={})
        return problems

    return begin


def doubled(xp, inputs):
    return [inputs[0] * 2]


def kernel(dtype="float32", **changes):
    arguments = (Buffer(Role.OUT, (8, 4), dtype), Buffer(Role.IN, (8, 4), dtype))
    return make_case(**{"stage": KERNEL, "reference": doubled, "arguments": arguments, **changes})


def test_a_reference_is_compiled_once_for_each_type_it_meets(compiled):
    single, double = kernel(), kernel("float64")
    assert compiled(single, kernel(size="other"), double) == [single, double]


def test_a_reference_is_compiled_for_the_largest_edge_size_problem(compiled):
    small, large = (kernel(arguments=(Buffer(Role.OUT, (n,)), Buffer(Role.IN, (n,)))) for n in (1, 33))
    assert compiled(kernel(), edge=lambda _: [small, large, small]) == [large]


def test_operations_and_unchecked_runs_compile_no_reference(compiled):
    assert compiled(make_case()) == []
    assert compiled(kernel(), checks=False) == []


def test_edge_size_problems_that_cannot_be_made_are_left_to_the_check(compiled):
    def broken(_):
        raise RuntimeError("a family's own mistake")

    assert compiled(kernel(), edge=broken) == []
    assert compiled(kernel(), edge=lambda _: []) == []
