"""Where arrays of two GPUs are copied, changed and compared: NumPy plays CuPy and knows where each array is."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from peakgate.callables import arrays
from peakgate.callables.call import Call
from peakgate.callables.output_check import OutputCheck
from peakgate.callables.settings import Given
from peakgate.session.outcome import WrongResult

MACHINE = SimpleNamespace(current=0, waited=[])


class ndarray(np.ndarray):  # noqa: N801  (the name by which CuPy's is known)
    """An array of one GPU, which no other computes with."""

    __module__ = "cupy"

    def __array_finalize__(self, other):
        self.gpu = getattr(other, "gpu", MACHINE.current)

    @property
    def device(self):
        return Device(self.gpu)

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    def copy(self, _order="C"):
        """On the current GPU, as CuPy's."""
        return placed(np.asarray(self).copy(), MACHINE.current)

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **kwargs):
        used = [each for each in (*inputs, *out) if isinstance(each, ndarray)]
        assert {each.gpu for each in used} == {MACHINE.current}
        plain = [np.asarray(each) if isinstance(each, ndarray) else each for each in inputs]
        given = {"out": tuple(np.asarray(each) for each in out)} if out else {}
        result = getattr(ufunc, method)(*plain, **given, **kwargs)
        return out[0] if out else placed(result, MACHINE.current) if isinstance(result, np.ndarray) else result


class Device:
    """One GPU, which is the current one in a ``with`` block."""

    def __init__(self, gpu=None):
        self.id = MACHINE.current if gpu is None else gpu

    def __enter__(self):
        self._before, MACHINE.current = MACHINE.current, self.id
        return self

    def __exit__(self, *_):
        MACHINE.current = self._before

    def synchronize(self):
        MACHINE.waited.append(self.id)


def placed(values, gpu):
    array = np.asarray(values).view(ndarray)
    array.gpu = gpu
    return array


def copyto(target, source):
    assert {target.gpu, getattr(source, "gpu", target.gpu)} == {MACHINE.current}
    np.copyto(np.asarray(target), np.asarray(source))


def ascontiguousarray(array):
    assert getattr(array, "gpu", MACHINE.current) == MACHINE.current
    return np.ascontiguousarray(array)


class Cupy(ModuleType):
    """NumPy's functions, by default."""

    cuda = SimpleNamespace(Device=Device)
    copyto, ascontiguousarray = staticmethod(copyto), staticmethod(ascontiguousarray)

    def __getattr__(self, name):
        return getattr(np, name)


@pytest.fixture(autouse=True)
def _two_gpus(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", Cupy("cupy"))
    MACHINE.current, MACHINE.waited = 0, []


def pair(*seeds):
    """An array on each GPU."""
    return [placed(np.random.default_rng(seed).random(64), gpu) for gpu, seed in enumerate(seeds)]


def exchange(out, x):
    """Each GPU gets the numbers of the other."""
    for target, source in zip(out, reversed(x), strict=True):
        np.asarray(target)[:] = np.asarray(source)


def proven(function, **given):
    call = Call(function, (pair(1, 2), pair(3, 4)), {})
    found = OutputCheck(call, Given(reference=lambda _, x: x[::-1], **given))
    call.run()
    call.learn()
    return call, found, found.first()


def test_copies_stay_on_the_gpu_of_their_array_and_what_is_compared_comes_to_the_first():
    x = pair(1, 2)
    assert [arrays.gpu_of(arrays.copy_of(each)) for each in x] == [0, 1]
    assert [arrays.gpu_of(arrays.here(each)) for each in x] == [0, 0]
    assert MACHINE.waited == [1, 0]  # for what writes it, and for the copy
    assert arrays.here(x[0]) is x[0]
    arrays.wait_for(x)
    assert {*MACHINE.waited[2:]} == {0, 1}


def test_elements_are_moved_and_put_back_where_they_are():
    for array in pair(1, 2):
        saved = arrays.copy_of(array)
        assert arrays.move(array, 0.1, 7)
        assert arrays.differs(array, saved)
        arrays.restore(array, saved)
        assert not arrays.differs(array, saved)


def test_a_call_on_two_gpus_is_proven_with_what_each_has():
    call, found, proof = proven(exchange)
    assert proof.error == 0.0
    assert [output.gpu for output in found.outputs()] == [0, 1]
    assert found.on_fresh_inputs(call.run).startswith("checked")
    call.run()
    assert found.check("again: ").error == 0.0
    assert MACHINE.current == 0


def test_a_wrong_element_on_either_gpu_is_wrong():
    for gpu in (0, 1):

        def spoils(out, x, gpu=gpu):
            exchange(out, x)
            np.asarray(out[gpu])[5] += 1.0

        with pytest.raises(WrongResult, match=rf"output {gpu} \[5\] is"):
            proven(spoils)


def test_a_result_that_is_kept_is_wrong_on_fresh_inputs():
    kept = []

    def once(out, x):
        if not kept:
            kept.extend(np.asarray(each).copy() for each in reversed(x))
        for target, source in zip(out, kept, strict=True):
            np.asarray(target)[:] = source

    call, found, _ = proven(once)
    with pytest.raises(WrongResult, match="on fresh inputs: "):
        found.on_fresh_inputs(call.run)


def test_arrays_on_a_gpu_that_the_case_does_not_have_are_found():
    call = Call(exchange, (pair(1, 2), pair(3, 4)), {})
    assert call.elsewhere((0, 1)) is None
    assert call.elsewhere((0,)) == 1
    assert call.elsewhere((1, 2)) == 0
