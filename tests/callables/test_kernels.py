"""Which kernels a call launches, and whose machine code is known: the rest is unknown, never unchanged."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from peakgate.callables import kernels
from peakgate.callables.kernels import Launched, launched
from peakgate.judge.activity import Activity


class CompiledKernel:
    """As Triton's, for one build of a kernel."""

    def __init__(self, name, cubin, function):
        self.name, self.asm, self.function = name, {"cubin": cubin}, function


class Hooks(list[Any]):
    add, __call__ = list.append, lambda self, launch: [each(launch) for each in self]


@pytest.fixture
def triton(monkeypatch):
    """A Triton whose kernels have their cubin as their digest."""
    hooks = Hooks()
    made = SimpleNamespace(
        knobs=SimpleNamespace(runtime=SimpleNamespace(launch_enter_hook=hooks)),
        compiler=SimpleNamespace(CompiledKernel=CompiledKernel),
    )
    monkeypatch.setitem(sys.modules, "triton", made)
    monkeypatch.setattr(kernels, "kernel_code", lambda cubin, names: {name: cubin.decode() for name in names})
    return hooks


def activity(name, *work):
    return Activity(name, 0, 1, 7, work)


def observed(hooks, launches, *others, cupti=True):
    """A call that launches these kernels of Triton, and others that only CUPTI sees."""

    def observe():
        for kernel in launches:
            hooks(SimpleNamespace(data={"name": kernel.name, "function": kernel.function}))
        return [activity(kernel.name, 8) for kernel in launches] + list(others) if cupti else None

    return launched(observe)


def test_a_call_of_known_kernels_has_a_fingerprint(triton):
    add, scale = CompiledKernel("add", b"1a", 11), CompiledKernel("scale", b"2b", 12)
    found = observed(triton, [add, scale])
    assert found.codes == {"add": "1a", "scale": "2b"}
    assert found == observed(triton, [add, scale])
    assert found.fingerprint is not None
    assert not triton, "the hook is removed"


def test_other_code_or_another_launch_is_another_fingerprint(triton):
    add = CompiledKernel("add", b"1a", 11)
    seen = {
        observed(triton, [add]).fingerprint,
        observed(triton, [CompiledKernel("add", b"1b", 13)]).fingerprint,
        observed(triton, [add, add]).fingerprint,
        observed(triton, [add], activity("", 4096)).fingerprint,
    }
    assert len(seen) == 4


def test_kernels_that_no_object_holds_are_unknown(triton):
    add = CompiledKernel("add", b"1a", 11)
    found = observed(triton, [add], activity("vectorized_elementwise_kernel", 4))
    assert found == Launched({"add": "1a", "vectorized_elementwise_kernel": None})


def test_a_replayed_launch_beside_a_seen_one_is_unknown(triton):
    add = CompiledKernel("add", b"1a", 11)
    assert observed(triton, [add], activity("add", 8)) == Launched({"add": None})


def test_without_cupti_other_kernels_may_run(triton):
    add = CompiledKernel("add", b"1a", 11)
    assert observed(triton, [add], cupti=False) == Launched({"add": "1a"})


def test_builds_of_one_name_are_told_apart_by_what_is_launched(triton):
    small, large = CompiledKernel("add", b"1a", 11), CompiledKernel("add", b"9f", 12)
    codes = [observed(triton, each).codes["add"] for each in ([small], [large], [small, large], [large, small])]
    assert codes[0] == "1a"
    assert codes[1] == "9f"
    assert codes[2] == codes[3] not in codes[:2]


def test_a_kernel_without_a_cubin_is_unknown(triton):
    kernel = CompiledKernel("add", b"", 11)
    assert observed(triton, [kernel]) == Launched({"add": None})


def test_a_loaded_kernel_is_known_by_its_own_code():
    assert launched(lambda: [activity("scale", 1)], {"scale": "4d"}).codes == {"scale": "4d"}
    assert launched(lambda: [activity("scale", 1), activity("scale", 1)], {"scale": "4d"}).codes == {"scale": None}


def test_a_call_that_launches_nothing_has_no_fingerprint():
    assert launched(lambda: [activity("", 4096)]) == Launched({})
    assert launched(lambda: None) == Launched({})


def test_long_names_are_shortened_and_stay_different():
    names = [f"cutlass<{'T, ' * 100}{last}>" for last in "ab"]
    codes = launched(lambda: [activity(name, 1) for name in names]).codes
    assert len(codes) == 2
    assert all(len(name) <= kernels.LONGEST_KERNEL_NAME and " " not in name for name in codes)
