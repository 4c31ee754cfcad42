"""Which machine code the modules of a process have, as CUPTI's callbacks report it; CUPTI is played."""

import ctypes
import sys
from types import SimpleNamespace

import pytest

from peakgate.device import modules
from peakgate.device.modules import Modules, _Callback, _Module, _Resource

LOADED, UNLOADING = 6, 7


class Cupti:
    """As CUPTI's library: one subscriber, and callbacks in another language's calling convention."""

    def __init__(self, refuses=0):
        self.refuses, self.enabled, self.ended = refuses, [], []

    def cuptiSubscribe(self, subscriber, callback, _data):  # noqa: N802
        self.callback = ctypes.cast(callback, _Callback)  # by its address, as a C library calls it
        return self.refuses

    def cuptiEnableCallback(self, enable, _subscriber, domain, event):  # noqa: N802
        self.enabled.append((enable, domain, event))
        return 0

    def cuptiUnsubscribe(self, subscriber):  # noqa: N802
        self.ended.append(subscriber)

    def report(self, event, number, image=b""):
        held = ctypes.create_string_buffer(image, len(image)) if image else None
        module = _Module(number, len(image), ctypes.cast(held, ctypes.c_void_p) if held else None)
        self.callback(None, 3, event, ctypes.pointer(_Resource(None, None, ctypes.pointer(module))))


def image(*kernels, code=b"1"):
    """A cubin as far as these tests need it; with zeros, and bytes that are no text."""
    return b"\x7fELF\0\xff" + b"".join(b".text." + name.encode() + b"\0" for name in kernels) + code


@pytest.fixture
def cupti(monkeypatch):
    """A CUPTI; a kernel's digest is the last byte of its image."""
    monkeypatch.setattr(modules, "kernel_code", lambda image, names: dict.fromkeys(names, image[-1:].decode()))
    monkeypatch.setattr(modules.atexit, "register", lambda *_: None)
    return Cupti()


def test_a_kernel_has_the_code_of_its_module(cupti):
    found = Modules(cupti)
    assert found.follow()
    assert cupti.enabled == [(1, 3, LOADED), (1, 3, UNLOADING)]
    cupti.report(LOADED, 24, image("add", "scale", code=b"a"))
    cupti.report(LOADED, 25, image("scale_all", code=b"b"))
    assert (found.code("add"), found.code("scale"), found.code("scale_all")) == ("a", "a", "b")
    assert found.code("sca") is None
    assert found.code("other") is None


def test_kernels_of_one_name_with_other_code_are_unknown(cupti):
    found = Modules(cupti)
    found.follow()
    cupti.report(LOADED, 1, image("add", code=b"a"))
    cupti.report(LOADED, 2, image("add", code=b"a"))
    assert found.code("add") == "a"
    cupti.report(LOADED, 3, image("add", code=b"b"))
    assert found.code("add") is None
    cupti.report(UNLOADING, 3)
    assert found.code("add") == "a"


def test_what_was_unloaded_is_unknown(cupti):
    found = Modules(cupti)
    found.follow()
    cupti.report(LOADED, 1, image("add"))
    cupti.report(UNLOADING, 1)
    cupti.report(UNLOADING, 9)
    assert found.code("add") is None


def test_a_module_without_an_image_is_left_out(cupti):
    found = Modules(cupti)
    found.follow()
    cupti.report(LOADED, 1)
    assert found.code("add") is None


def test_beside_another_subscriber_nothing_is_known(cupti):
    cupti.refuses = 39  # CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
    assert not Modules(cupti).follow()
    assert cupti.enabled == []


@pytest.mark.parametrize(
    ("installed", "context", "known"), [(True, False, "a"), (False, False, None), (True, True, None)]
)
def test_modules_are_followed_before_the_first_is_loaded(monkeypatch, cupti, installed, context, known):
    monkeypatch.setattr(modules, "_followed", [])
    monkeypatch.setattr(modules.importlib.util, "find_spec", lambda _name: object() if installed else None)
    monkeypatch.setattr(modules.driver, "has_context", lambda _index: context)
    monkeypatch.setattr(modules.ctypes, "CDLL", lambda _path: cupti)
    pathfinder = SimpleNamespace(load_nvidia_dynamic_lib=lambda _name: SimpleNamespace(abs_path="libcupti.so"))
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    modules.follow(0)
    if cupti.enabled:
        cupti.report(LOADED, 1, image("add", code=b"a"))
    assert modules.loaded_code("add") == known
    modules.stop()
    assert len(cupti.ended) == (known is not None)
    assert modules.loaded_code("add") is None
