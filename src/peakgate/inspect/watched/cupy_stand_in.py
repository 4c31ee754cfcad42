"""A stand-in of CuPy without a GPU, for tests that launch CUDA C++ in strings: its arrays are NumPy's.

It has NumPy's functions, arrays with ``get``, streams and events in which nothing is pending, and ``RawKernel`` and
``RawModule``, whose kernels run in the emulator. There are no times: who asks for one skips the test. Anything else of
CuPy raises ``NeedsCuPy``.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NoReturn

import numpy as np
import pytest

from peakgate.base import config
from peakgate.callables.loaded import EmulatedRawKernel
from peakgate.spec.case import Array, Stage


class NeedsCuPy(AttributeError):
    """The test uses something of CuPy that the stand-in does not have."""

    __module__ = "cupy"  # an error of the framework


class ndarray(np.ndarray[Any, Any]):  # noqa: N801  (CuPy's name)
    """A NumPy array with CuPy's methods; elements and sums are arrays without axes."""

    __module__ = "numpy"  # as a plain array: another subclass may be one that computes its values lazily

    def __new__(cls, shape: Any, dtype: Any = float, memptr: Any = None, **more: Any) -> ndarray:
        """A new array; with the address of a variable, by ``RawModule.get_global``, that variable's value."""
        made = super().__new__(cls, shape, dtype, **more)
        if isinstance(memptr, Variable):
            made[...] = 0
            memptr.constants[memptr.name] = made
        return made

    def __getitem__(self, key: Any) -> Any:
        return there(super().__getitem__(key))

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Any:
        return there(array)

    def get(self, *_: Any, out: Array | None = None, **__: Any) -> Array:
        """A copy as an array of NumPy."""
        if out is None:
            return np.array(self)
        np.copyto(out, self)
        return out

    def set(self, array: Array, *_: Any) -> None:
        """Copy an array of NumPy into this one."""
        np.copyto(self, array)


def there(value: Any) -> Any:
    """NumPy's arrays and scalars, alone or in a tuple or list, as arrays of the stand-in; its generators wrapped."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value).view(ndarray)
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return Functions(value, "cupy.random")
    return type(value)(map(there, value)) if type(value) in (tuple, list) else value


class Functions:
    """The functions of a module of NumPy or of an object, whose results are arrays of the stand-in."""

    def __init__(self, of: Any, name: str) -> None:
        self._of, self._name = of, name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self._of, name) or isinstance(getattr(self._of, name), ModuleType):
            raise NeedsCuPy(f"{self._name}.{name} needs CuPy and a GPU")
        function = getattr(self._of, name)
        if not callable(function) or (isinstance(function, type) and function is not np.random.RandomState):
            return function
        if isinstance(function, np.ufunc):
            return function  # has methods, and its results are what its arguments are

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:  # as CuPy has it: it takes a type, and its result is no scalar
            try:
                return there(function(*args, **named))
            except TypeError:
                if "dtype" not in named:
                    raise
                dtype = named.pop("dtype")
                return there(np.asarray(function(*args, **named)).astype(dtype))

        return call


def array(given: Any, dtype: Any = None, *, order: Any = "K", **_: Any) -> Array:
    """A copy as an array of the stand-in."""
    made: Array = there(np.array(given, dtype, order=order))
    return made


def asarray(given: Any, dtype: Any = None, order: Any = None) -> Array:
    """An array of the stand-in itself, of anything else a copy, as that on a GPU would be."""
    made: Array = (
        there(np.asarray(given, dtype, order=order))
        if isinstance(given, ndarray)
        else array(given, dtype, order=order or "K")
    )
    return made


def _unwritten(make: Callable[..., Array]) -> Callable[..., Array]:
    """``empty`` of floats that are all NaN, so that a result shows an element that no thread wrote."""

    def made(*args: Any, **named: Any) -> Array:
        array: Array = there(make(*args, **named))
        if array.dtype.kind == "f":
            array.fill(np.nan)
        return array

    return made


class RawModule:
    """Kernels of one string, or of a file, with the interface of ``cupy.RawModule``."""

    folder: Path
    """Where sources are written for the emulator."""

    def __init__(
        self, *, code: str | None = None, path: str | None = None, options: Sequence[str] = (), **_: Any
    ) -> None:
        self.code = Path(path or "").read_text(encoding="utf-8") if code is None else code
        self.options = tuple(options)
        self._constants: dict[str, Array] = {}
        self._kernels: dict[str, EmulatedRawKernel] = {}

    def get_function(self, name: str) -> RawKernel:
        """The kernel of this name, or expression such as ``scale<float>``."""
        return RawKernel(self, name)

    def get_global(self, name: str) -> Variable:
        """The address of a variable, for ``cupy.ndarray(shape, dtype, address)``."""
        return Variable(name, self._constants)

    def compile(self, *_: Any, **__: Any) -> None:
        """Do nothing: a kernel is compiled at its first use."""

    def emulated(self, name: str) -> EmulatedRawKernel:
        """The kernel as the emulator has it; raises BuildError if it does not compile."""
        if name not in self._kernels:
            project = config.current()
            options = (*project.options, *self.options)
            source = self._source(name)
            stage = Stage("string", "a string", source, entry=name, options=options, include=project.include)
            self._kernels[name] = EmulatedRawKernel(stage, (), self._constants)
        return self._kernels[name]

    def _source(self, name: str) -> Path:
        """A file with the source, whose name and lines are those of the Python file that has the string."""
        folder = self.folder / hashlib.sha256(self.code.encode()).hexdigest()[:16]
        for module in list(sys.modules.values()):
            path = Path(getattr(module, "__file__", None) or "")
            if path.suffix == ".py" and path.is_relative_to(config.current().root):
                before, found, _ = path.read_text(encoding="utf-8", errors="replace").partition(self.code)
                if found:
                    return _written(folder / path.name, "\n" * before.count("\n") + self.code)
        return _written(folder / f"{name.partition('<')[0]}.cu", self.code)


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


class Variable:
    """The address of a variable of a module."""

    def __init__(self, name: str, constants: dict[str, Array]) -> None:
        self.name, self.constants = name, constants


class RawKernel:
    """One kernel, with the interface of ``cupy.RawKernel``; compiled at its first use."""

    shared_size_bytes = property(lambda self: self._emulated.shared_size_bytes)

    def __init__(self, code: str | RawModule, name: str, options: Sequence[str] = (), *_: Any, **__: Any) -> None:
        self.name, self._module = name, code if isinstance(code, RawModule) else RawModule(code=code, options=options)

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, **_: Any) -> None:
        """Launch it; a stream and the like make no difference."""
        __tracebackhide__ = True
        self._emulated(grid, block, list(map(_argument, args)), shared_mem=shared_mem)

    def compile(self, *_: Any, **__: Any) -> None:
        """Do nothing: it is compiled at its first use."""

    @property
    def _emulated(self) -> EmulatedRawKernel:
        return self._module.emulated(self.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._emulated, name)


def _argument(given: Any) -> Any:
    """An argument as CuPy passes it: the memory of an array, an array of NumPy by value."""
    if isinstance(given, ndarray):
        return given.T if given.flags.f_contiguous else given
    if not isinstance(given, np.ndarray):
        return given
    if given.size != 1:
        raise TypeError(f"Unsupported type {type(given)}")  # CuPy's error
    return given.reshape(1)[0]


class Idle(AbstractContextManager["Idle"]):
    """A stream, an event, a device or a memory pool: nothing is ever pending, and its methods do nothing."""

    null: ClassVar[Idle]
    id = ptr = 0
    done = True

    def __init__(self, *_: Any, **__: Any) -> None:
        """Make it, whatever its flags are."""

    def __exit__(self, *_: object) -> None:
        """Leave the stream or device."""

    def __getattr__(self, name: str) -> Any:
        raise NeedsCuPy(f"{name} of a stream, an event or a device needs CuPy and a GPU")

    def synchronize(self, *_: Any, **__: Any) -> Idle:
        """Return at once."""
        return self

    use = record = wait_event = free_all_blocks = synchronize


Idle.null = Idle()


def no_time(*_: Any, **__: Any) -> NoReturn:
    """Skip the test, which asks for a time."""
    pytest.skip("it asks for a time, which only a GPU has")


class Repeats:
    """The result of ``cupyx.profiler.benchmark``: it has no times."""

    gpu_times = cpu_times = property(no_time)


def _run_once(func: Callable[..., Any], args: Any = (), kwargs: Any = None, **_: Any) -> Repeats:
    func(*args, **(kwargs or {}))
    return Repeats()


def _module(name: str, of: Any = None, **members: Any) -> ModuleType:
    """A module with these members, and the functions of a module of NumPy."""
    made = ModuleType(name)
    vars(made).update(__spec__=ModuleSpec(name, None), __getattr__=Functions(of, name).__getattr__, **members)
    return made


def modules() -> dict[str, ModuleType]:
    """The modules ``cupy`` and ``cupyx``, with those in them, by name."""
    runtime = dict.fromkeys(("deviceSynchronize", "streamSynchronize", "setDevice"), Idle.null.synchronize)
    stream = dict.fromkeys(("Stream", "ExternalStream", "Event", "get_current_stream"), Idle)
    made = {
        "cupy.cuda.stream": _module("cupy.cuda.stream", **stream),
        "cupy.cuda.runtime": _module("cupy.cuda.runtime", getDeviceCount=lambda: 1, **runtime),
        "cupyx.profiler": _module("cupyx.profiler", benchmark=_run_once, time_range=Idle, profile=Idle),
        **{f"cupy.{name}": _module(f"cupy.{name}", getattr(np, name)) for name in ("random", "linalg", "testing")},
    }
    made["cupy.cuda"] = _module(
        "cupy.cuda",
        **stream,
        **dict.fromkeys(("Device", "set_allocator", "set_pinned_memory_allocator"), Idle),
        get_elapsed_time=no_time,
        stream=made["cupy.cuda.stream"],
        is_available=lambda: True,
        runtime=made["cupy.cuda.runtime"],
    )
    made["cupyx"] = _module("cupyx", profiler=made["cupyx.profiler"])
    own = {name: made[f"cupy.{name}"] for name in ("cuda", "random", "linalg", "testing")}
    made["cupy"] = _module(
        "cupy",
        np,
        ndarray=ndarray,
        RawKernel=RawKernel,
        RawModule=RawModule,
        asnumpy=lambda array, **_: np.array(array),
        get_array_module=lambda *_: made["cupy"],
        array=array,
        asarray=asarray,
        ascontiguousarray=functools.partial(asarray, order="C"),
        **{name: _unwritten(getattr(np, name)) for name in ("empty", "empty_like")},
        **dict.fromkeys(("get_default_memory_pool", "get_default_pinned_memory_pool"), Idle),
        **own,
    )
    return made
