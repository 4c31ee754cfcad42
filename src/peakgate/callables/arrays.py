"""Operations on the arrays of any framework; no framework is imported here.

A framework whose arrays are used is imported already. Arrays of NumPy, CuPy and PyTorch are used directly. Arrays with
``__cuda_array_interface__``, or in host memory ``__array_interface__``, are used through a view (Numba-CUDA, Warp).
Those of the array API standard with DLPack (JAX) are exchanged (``call.py``). Subclasses and other objects are not
read: one that computes its values lazily would be timed without its work.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from peakgate.judge.magnitudes import shares
from peakgate.measure.data import random_bits
from peakgate.spec.case import Array, Data
from peakgate.spec.dtypes import BITS

P = ParamSpec("P")
R = TypeVar("R")

_PLAIN = {"numpy": ("ndarray",), "cupy": ("ndarray",), "torch": ("Tensor", "Parameter")}
_STANDARD = ("__dlpack__", "__dlpack_device__", "__array_namespace__")
_DLPACK_CPU = 1
_UINT32_BITS = 32
_REAL = ("float16", "float32", "float64", "complex64", "complex128", *BITS)


def framework(value: object) -> str | None:
    """``numpy``, ``cupy`` or ``torch`` for a plain array of that framework; None for other objects and subclasses.

    ``viewed`` for an array that is used through a view, ``exchanged`` for one of the array API standard.
    """
    kind = type(value)
    if issubclass(kind, type):  # a class has its instances' attributes and is not an array
        return None
    root, name = kind.__module__.partition(".")[0], kind.__name__
    if name in _PLAIN.get(root, ()):
        tensor: Any = value
        return root if root != "torch" or tensor.layout is sys.modules["torch"].strided else None
    if root in _PLAIN or any(base.__module__.partition(".")[0] in _PLAIN for base in kind.__mro__):
        return None
    if all(hasattr(kind, name) for name in _STANDARD):
        return "exchanged"
    on_host = hasattr(kind, "__dlpack__") and hasattr(value, "__array_interface__")
    return "viewed" if on_host or hasattr(value, "__cuda_array_interface__") else None


def subclass_of_arrays(value: object) -> bool:
    """Whether its class is a subclass of a framework's array, which may compute its values lazily."""
    bases = type(value).__mro__[1:]
    masked = any(base.__module__.startswith("numpy.ma") for base in type(value).__mro__)
    return not masked and any(base.__name__ in _PLAIN.get(base.__module__.partition(".")[0], ()) for base in bases)


def numeric(value: Any) -> bool:
    """Whether the elements of an array or NumPy scalar can be compared as numbers."""
    dtype = getattr(plain(value) if framework(value) == "viewed" else value, "dtype", None)
    return not isinstance(dtype, np.dtype) or dtype.kind in "biufc" or dtype.isbuiltin == 2  # 2: of another package


def on_gpu(value: Any) -> bool:
    """Whether an array is in a GPU's memory."""
    match framework(value):
        case "exchanged":
            return int(value.__dlpack_device__()[0]) != _DLPACK_CPU
        case "viewed":
            return hasattr(value, "__cuda_array_interface__")
        case kind:
            return kind == "cupy" or (kind == "torch" and bool(value.is_cuda))


def gpu_of(value: Any) -> int | None:
    """The CUDA index of the GPU that holds an array; None for an array in host memory."""
    if not on_gpu(value):
        return None
    if framework(value) == "exchanged":
        return int(value.__dlpack_device__()[1])
    return int(value.device.index) if framework(value) == "torch" else int(plain(value).device.id)


def wait_for(values: Iterable[Any]) -> None:
    """Wait until each GPU that holds one of these arrays is idle, on all of its streams."""
    for gpu, kind in {gpu_of(value): framework(value) for value in values if on_gpu(value)}.items():
        if kind == "torch":
            sys.modules["torch"].cuda.synchronize(gpu)
        else:
            importlib.import_module("cupy").cuda.Device(gpu).synchronize()


def at_home(function: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Decorator: make the GPU that holds the function's first array current during the call."""

    @functools.wraps(function)
    def run(value: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        cupy, gpu = sys.modules.get("cupy"), gpu_of(value)
        with nullcontext() if cupy is None or gpu is None else cupy.cuda.Device(gpu):
            return function(value, *args, **kwargs)

    return run


def here(value: Any) -> Any:
    """The array itself if it is in host memory or on the current GPU; else a copy on the current GPU."""
    cupy, gpu = sys.modules.get("cupy"), gpu_of(value)
    if cupy is None or gpu is None or (at := cupy.cuda.Device().id) == gpu:
        return value
    wait_for([value])  # for pending writes on that GPU's streams
    copied = value.detach().to(f"cuda:{at}") if framework(value) == "torch" else plain(value).copy()
    wait_for([copied])
    return copied


def arrays_in(value: object) -> Iterator[Any]:
    """The arrays in nested tuples, lists and mappings, in order."""
    if framework(value) is not None:
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from arrays_in(member)
    elif isinstance(value, tuple | list):
        for member in value:
            yield from arrays_in(member)


def _fields_in(value: object, within: tuple[object, ...] = ()) -> Iterator[object]:
    """The values of the fields of dataclasses in nested tuples, lists, mappings and dataclasses."""
    if isinstance(value, type) or framework(value) is not None or any(value is outer for outer in within):
        return
    members: Iterable[object] = ()
    if dataclasses.is_dataclass(value):
        members = [getattr(value, each.name, None) for each in dataclasses.fields(value)]
        yield from members
    elif isinstance(value, Mapping):
        members = value.values()
    elif isinstance(value, tuple | list):
        members = value
    for member in members:
        yield from _fields_in(member, (*within, value))


def visible_arrays(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arrays in a call's arguments, the function's closure and the globals it names, each once.

    Arrays inside other objects are not found, but for dataclasses among the arguments. Exchanged arrays, which are
    immutable, and arrays of Python objects are left out.
    """
    held: list[object] = [args, kwargs, [*_fields_in([args, kwargs])]]
    while isinstance(function, functools.partial):
        held += [function.args, function.keywords]
        function = function.func
    held.append(getattr(function, "__self__", None))
    if inspect.isfunction(function):
        named = inspect.getclosurevars(function)
        held += [named.nonlocals, named.globals]
    found = {id(array): array for array in arrays_in(held) if _kept(array)}
    return list(found.values())


def _kept(array: Any) -> bool:
    """Whether an array has elements and they can be saved and restored."""
    if framework(array) == "exchanged" or not nbytes(array):
        return False
    return framework(array) == "torch" or not plain(array).dtype.hasobject


def nbytes(value: Any) -> int:
    """The size of an array's elements in bytes."""
    if framework(value) == "torch":
        return int(value.numel() * value.element_size())
    return int(plain(value).nbytes)


def dtype_name(value: Any) -> str:
    """The name of an array's type, such as ``float32`` or ``bfloat16``, for every framework."""
    dtype = plain(value).dtype if framework(value) == "viewed" else value.dtype
    if isinstance(dtype, np.dtype) and not dtype.isnative:  # the other byte order
        dtype = dtype.newbyteorder("=")
    return str(dtype).removeprefix("torch.")


def overlap(one: Any, other: Any) -> bool:
    """Whether two arrays may share memory: their address ranges meet."""
    if on_gpu(one) != on_gpu(other):
        return False
    (first, first_end), (second, second_end) = span(one), span(other)
    return first < second_end and second < first_end


def span(value: Any) -> tuple[int, int]:
    """The addresses at which an array's memory begins and ends, as if the array were contiguous."""
    match framework(value):
        case "torch":
            start = int(value.data_ptr())
        case "numpy":
            start = int(value.ctypes.data)
        case "cupy":
            start = int(value.data.ptr)
        case _:
            seen = plain(value)
            start = int(seen.ctypes.data if isinstance(seen, np.ndarray) else seen.data.ptr)
    return start, start + nbytes(value)


@at_home
def copy_of(value: Any) -> Any:
    """A copy of an array in its framework; of a viewed array in that of its view."""
    match framework(value):
        case "torch":
            return value.detach().clone()
        case "exchanged":
            copied = value.__array_namespace__().asarray(value, copy=True)
            settled(copied)
            return copied
        case _:
            return plain(value).copy()


def settled(value: object) -> None:
    """Make the current stream wait for the exchanged arrays in a result, by DLPack's stream protocol."""
    for array in arrays_in(value):
        if framework(array) == "exchanged":
            plain(array)


@at_home
def restore(value: Any, saved: Any) -> None:
    """Copy the elements of ``saved`` into an array, in stream order on a GPU.

    A read-only array is left unchanged. Autograd is not notified: a graph that saved the elements sees them again.
    """
    if _read_only(value):
        return
    if framework(value) == "torch":
        value.data.copy_(saved)
    else:
        _module(value).copyto(plain(value), plain(saved))


@at_home
def differs(value: Any, saved: Any) -> bool:
    """Whether an array's bytes differ from those of ``saved``, a copy by ``copy_of``."""
    if framework(value) == "torch":
        torch = sys.modules["torch"]
        mine, kept = (part.detach().contiguous().reshape(-1).view(torch.uint8) for part in (value, saved))
        return not torch.equal(mine, kept)
    module = _module(value)
    mine, kept = (module.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in (plain(value), saved))
    return bool((mine != kept).any())


@at_home
def renew(value: Any, seed: int, *, redraw: bool = False, added: float = 0.0) -> bool:
    """Replace an array's elements in place by elements resampled from it; False if the array is left unchanged.

    Real and complex elements are drawn with replacement, increased by ``added`` and scaled by a factor in [0.5, 1): if
    nothing is added, signs and the largest magnitude are kept. Integers and booleans are permuted, so that indices stay
    valid and unique elements unique; with ``redraw`` they are drawn with replacement. Other types and read-only arrays
    are left unchanged.
    """
    value = plain(value) if framework(value) == "viewed" else value
    name = dtype_name(value)
    scaled = name in _REAL
    if not _writable_numbers(value):
        return False
    bits_module = importlib.import_module("cupy") if on_gpu(value) else np
    count = int(np.prod(value.shape, dtype=np.int64))
    bits = random_bits(bits_module, count, seed)
    order = bits.astype(np.int64) % count if scaled or redraw else bits_module.argsort(bits)
    factor = (bits >> np.uint32(_UINT32_BITS - 23)).astype(np.float32) * np.float32(2.0**-24) + np.float32(0.5)
    if framework(value) == "torch":
        tensor = value.detach()
        flat = tensor.reshape(-1)
        if name in BITS:  # PyTorch cannot multiply 8-bit floats
            flat = flat.float()
        drawn = flat[_as_torch(order)] + added if scaled and added else flat[_as_torch(order)]
        tensor.copy_((drawn * _as_torch(factor).to(flat.dtype) if scaled else drawn).reshape(tensor.shape))
        return True
    flat = value.reshape(-1)
    if name in BITS:
        flat = flat.astype(np.float32)
    drawn = flat[order] + flat.real.dtype.type(added) if scaled and added else flat[order]
    value[...] = (drawn * factor.astype(flat.real.dtype) if scaled else drawn).reshape(value.shape)
    return True


@at_home
def displace(value: Any) -> None:
    """Give each place of an array the element of another one, half of the array and one element away, in place.

    Indices stay valid and unique elements unique. A read-only array, or one of other types than numbers, is left.
    """
    value = plain(value) if framework(value) == "viewed" else value
    if not _writable_numbers(value):
        return
    if framework(value) == "torch":
        tensor, bits = value.detach(), sys.modules["torch"].uint8
        tensor = tensor.view(bits) if tensor.element_size() == 1 else tensor  # PyTorch cannot roll 8-bit floats
        tensor.copy_(tensor.roll(tensor.numel() // 2 + 1))
    else:
        value[...] = _module(value).roll(value, value.size // 2 + 1)


@at_home
def fill(value: Any, data: Data) -> bool:
    """Give an array the values that a data function of a family makes; False if the array is left unchanged.

    It is left if there is no function, for types other than numbers and for read-only arrays.
    """
    value = plain(value) if framework(value) == "viewed" else value
    if not callable(data) or not _writable_numbers(value):
        return False
    values = data(np, tuple(value.shape))
    if framework(value) == "torch":
        value.detach().copy_(sys.modules["torch"].from_numpy(values))
    else:
        value[...] = _module(value).asarray(values).astype(value.dtype)
    return True


def _writable_numbers(value: Any) -> bool:
    """Whether an array holds real or complex numbers, integers or booleans, and can be written."""
    name = dtype_name(value)
    return not _read_only(value) and (name in _REAL or name.startswith(("int", "uint", "bool")))


def real(value: Any) -> bool:
    """Whether an array's elements are real or complex numbers of a known type."""
    return dtype_name(value) in _REAL


@at_home
def largest(value: Any) -> float:
    """The largest magnitude of an array's elements, of complex ones of their parts; NaN if one is NaN."""
    return float(abs(comparable(value)).max())


@at_home
def as_words(value: Any) -> Array | None:
    """A CuPy view of a contiguous GPU array of numbers as words of its element size; None for any other array."""
    value = plain(value) if framework(value) == "viewed" else value
    if not on_gpu(value) or not (real(value) or dtype_name(value).startswith(("int", "uint", "bool"))):
        return None
    if not (value.is_contiguous() if framework(value) == "torch" else plain(value).flags.c_contiguous):
        return None
    cupy, (start, end) = importlib.import_module("cupy"), span(value)
    if start == end:
        return None
    itemsize = int(value.element_size() if framework(value) == "torch" else plain(value).itemsize)
    memory = cupy.cuda.UnownedMemory(start, end - start, value, gpu_of(value))
    words: Array = cupy.ndarray(
        ((end - start) // itemsize,),
        "complex128" if itemsize == np.dtype("complex128").itemsize else f"u{itemsize}",
        cupy.cuda.MemoryPointer(memory, 0),
    )
    return words


def announce_change(value: Any) -> None:
    """Notify autograd that a tensor's elements change through ``as_words``: a graph that saved them then fails."""
    if framework(value) == "torch":
        value.detach().reshape(-1)[:0].zero_()


@at_home
def move(value: Any, share: float, seed: int) -> bool:
    """Perturb each element of a real array in place by up to ``share`` of itself; False if it is left unchanged."""
    value = plain(value) if framework(value) == "viewed" else value
    if _read_only(value) or dtype_name(value) not in ("float16", "bfloat16", "float32", "float64"):
        return False
    bits_module = importlib.import_module("cupy") if on_gpu(value) else np
    factor = 1.0 + share * shares(bits_module, (int(np.prod(value.shape, dtype=np.int64)),), seed)
    if framework(value) == "torch":
        tensor = value.data  # without notifying autograd: the elements are restored
        tensor.mul_(_as_torch(factor).reshape(tensor.shape))
    else:
        value *= factor.reshape(value.shape).astype(value.dtype)
    return True


def comparable(value: Any) -> Array:
    """An array or number as a CuPy or NumPy array of at least one axis, for a comparison.

    Types that these lack (bfloat16, 8-bit floats, those of ml_dtypes) become float32, which is exact; complex numbers
    become pairs of reals, booleans their stored bytes. A CUDA tensor is copied to the host if CuPy is not imported.
    """
    if framework(value) == "torch":
        array = _from_torch(value.detach())
    elif framework(value) is not None:
        array = plain(value.astype("float32") if dtype_name(value) in BITS else value)
    else:
        array = np.asarray(value)
    if array.ndim == 0:
        array = array.reshape(1)
    if array.dtype.isbuiltin == 2:  # a type that another package registered with NumPy
        array = array.astype(np.float32)
    if array.dtype.kind in "cb":
        array = _module(array).ascontiguousarray(array).view(np.uint8 if array.dtype.kind == "b" else array.real.dtype)
    return array


def _from_torch(tensor: Any) -> Array:
    torch = sys.modules["torch"]
    if tensor.dtype is torch.bool:
        tensor = tensor.to(torch.uint8)
    elif tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    tensor = tensor.resolve_conj().resolve_neg()
    if not tensor.is_cuda:
        return tensor.numpy()
    cupy = sys.modules.get("cupy")
    return tensor.cpu().numpy() if cupy is None else cupy.from_dlpack(tensor)


def _as_torch(array: Array) -> Any:
    torch = sys.modules["torch"]
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else torch.from_dlpack(array)


def plain(value: Any) -> Array:
    """A CuPy or NumPy view of an array of another framework; arrays of NumPy, CuPy and PyTorch unchanged.

    The current stream waits for an exchanged array's computation. Types that NumPy lacks are viewed as raw bits.
    """
    kind = framework(value)
    if kind not in ("viewed", "exchanged"):
        return value
    module: Any = importlib.import_module("cupy") if on_gpu(value) else np
    if kind == "viewed":
        return module.asarray(value)
    bits = BITS.get(dtype_name(value))
    return module.from_dlpack(value if bits is None else value.view(bits))


def _read_only(value: Any) -> bool:
    """Whether an array is a read-only NumPy array or view, or a tensor with overlapping elements (stride 0)."""
    if framework(value) == "torch":
        return any(step == 0 and extent > 1 for step, extent in zip(value.stride(), value.shape, strict=True))
    if framework(value) not in ("numpy", "viewed"):
        return False
    array = plain(value)
    return isinstance(array, np.ndarray) and not array.flags.writeable


def _module(value: Any) -> Any:
    return importlib.import_module("cupy") if on_gpu(value) else np
