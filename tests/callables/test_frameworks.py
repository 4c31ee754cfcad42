"""Frameworks by the standard: DLPack, the array API, the array interfaces; with arrays that implement them."""

import re
import sys

import numpy as np
import pytest

from peakgate.callables import arrays
from peakgate.callables.call import Call
from peakgate.callables.output_check import OutputCheck
from peakgate.callables.settings import Given
from peakgate.help import page
from peakgate.session.outcome import WrongResult


class Frozen:
    """An array of the array API standard that cannot be changed, as JAX's are; its namespace is this module."""

    def __init__(self, values):
        self._values = np.array(values) if not isinstance(values, np.ndarray) else values

    dtype = property(lambda self: self._values.dtype)
    shape = property(lambda self: self._values.shape)

    def __array_namespace__(self):
        return sys.modules[__name__]

    def __dlpack__(self, **keywords):
        return self._values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()

    def __add__(self, other):
        return Frozen(self._values + other)

    def sum(self):
        return Frozen(self._values.sum(keepdims=True))


def from_dlpack(array):
    view = np.from_dlpack(array)
    view.flags.writeable = False
    return Frozen(view)


def asarray(value, *, copy):
    assert copy
    return Frozen(np.from_dlpack(value).copy())


class Viewed:
    """An array whose memory its interface shows, as Warp's do."""

    def __init__(self, values):
        self.values = values

    __array_interface__ = property(lambda self: self.values.__array_interface__)

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)


def proven(call, **given):
    found = OutputCheck(call, Given(**given))
    call.run()
    call.learn()
    found.first()
    return found


def test_a_right_function_of_frozen_arrays_is_right_on_fresh_inputs_too():
    x = Frozen(np.linspace(-1, 1, 1000, dtype=np.float32))
    call = Call(lambda a, more: (a + 1, {"sum": more["b"][0].sum()}), (x, {"b": [x]}), {})
    found = proven(call, reference=lambda a, more: (a + 1, more["b"][0].sum()))
    assert found.on_fresh_inputs(call.run).startswith("checked")
    assert len(call.arrays) == 1
    assert x._values[0] == np.float32(-1)


def test_a_wrong_function_of_frozen_arrays_and_one_that_keeps_its_result_are_found():
    x, kept = Frozen(np.linspace(-1, 1, 1000, dtype=np.float32)), {}
    with pytest.raises(WrongResult):
        proven(Call(lambda a: a + 2, (x,), {}), reference=lambda a: a + 1)
    call = Call(lambda a: kept.setdefault("it", a + 1), (x,), {})
    found = proven(call, reference=lambda a: a + 1)
    with pytest.raises(WrongResult, match="on fresh inputs"):
        found.on_fresh_inputs(call.run)


def test_what_is_expected_does_not_change_with_the_arguments_that_a_reference_gives_back():
    x = Frozen(np.arange(1.0, 9.0))
    found = proven(Call(lambda a: a + 0, (x,), {}), reference=lambda a: a)
    found.on_fresh_inputs(found._call.run)
    found._call.run()
    found.check("afterwards: ")


def test_arrays_with_an_interface_are_written_and_read_through_it():
    x, out = Viewed(np.arange(8.0)), Viewed(np.zeros(8))

    def double(target, source):
        target.values[:] = 2 * source.values

    call = Call(double, (out, x), {})
    found = proven(call, reference=lambda target, source: 2 * source.values)
    assert found.outputs() == [out]
    assert found.on_fresh_inputs(call.run).startswith("checked")
    assert arrays.dtype_name(x) == "float64"
    assert arrays.overlap(x, x)
    assert not arrays.overlap(x, out)


@pytest.mark.parametrize("value", [np.float32(1), np.zeros(3).view(type("Lazy", (np.ndarray,), {})), [1], object()])
def test_scalars_subclasses_and_objects_are_no_arrays(value):
    assert arrays.framework(value) is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_jax_is_right_and_wrong(dtype):
    jax = pytest.importorskip("jax")
    x = (jax.numpy.arange(4096) * 37 % 4099).astype(dtype)
    found = proven(Call(jax.jit(lambda a: a + a), (x,), {}), reference=lambda a: 2 * a)
    assert found.on_fresh_inputs(found._call.run).startswith("checked")
    with pytest.raises(WrongResult):
        proven(Call(jax.jit(lambda a: a + 1), (x,), {}), reference=lambda a: 2 * a)


def test_warp_is_right_and_wrong():
    warp = pytest.importorskip("warp")
    x = warp.array(np.arange(64, dtype=np.float32), device="cpu")
    out = warp.zeros_like(x)

    def copy(target, source):
        warp.copy(target, source)

    found = proven(Call(copy, (out, x), {}), reference=lambda target, source: source.numpy())
    assert found.on_fresh_inputs(found._call.run).startswith("checked")
    with pytest.raises(WrongResult):
        proven(Call(copy, (out, x), {}), reference=lambda target, source: 2 * source.numpy())


def test_the_pages_example_is_right(bench, benchmarks):
    pytest.importorskip("jax")
    (example,) = re.findall(r"```python\n(.*?)```", page("frameworks"), re.DOTALL)
    done = bench(benchmarks(example))
    assert done.returncode == 0, done.stdout + done.stderr
