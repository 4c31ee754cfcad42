"""The arrays of whichever framework a callable uses: NumPy, CuPy, PyTorch, Numba-CUDA; none is imported here.

A framework whose arrays a caller holds is imported already. Array types of other origin are not read: an object that
computes its values when they are asked for would be timed without its work.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from peakgate.core.case import Array
from peakgate.core.dtypes import BITS
from peakgate.judge.magnitudes import shares
from peakgate.measure.data import random_array

_NUMBA = ("numba", "numba_cuda")
_UINT32_BITS = 32
_REAL = ("float16", "float32", "float64", "complex64", "complex128", *BITS)


def framework(value: object) -> str | None:
    """``numpy``, ``cupy``, ``torch`` or ``numba`` for a plain array of it; None for all else, subclasses included."""
    kind = type(value)
    root, name = kind.__module__.partition(".")[0], kind.__name__
    if root in ("numpy", "cupy") and name == "ndarray":
        return root
    if root == "torch" and name in ("Tensor", "Parameter"):
        tensor: Any = value
        return "torch" if tensor.layout is sys.modules["torch"].strided else None
    if root in _NUMBA and hasattr(kind, "__cuda_array_interface__"):
        return "numba"
    return None


def on_gpu(value: Any) -> bool:
    """Whether an array is in a GPU's memory."""
    kind = framework(value)
    return kind in ("cupy", "numba") or (kind == "torch" and bool(value.is_cuda))


def gpu_of(value: Any) -> int | None:
    """The CUDA index of the GPU that holds an array; None for one in the host's memory."""
    if not on_gpu(value):
        return None
    return int(value.device.index) if framework(value) == "torch" else int(_plain(value).device.id)


def wait_for(values: Iterable[Any]) -> None:
    """Wait until the GPU that holds one of these arrays is idle, on all of its streams."""
    kinds = {framework(value) for value in values if on_gpu(value)}
    if "torch" in kinds:
        sys.modules["torch"].cuda.synchronize()
    elif kinds:
        importlib.import_module("cupy").cuda.runtime.deviceSynchronize()


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


def visible_arrays(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """Every array that a call can be seen to use, once: its arguments, its closure, the globals it names.

    Arrays inside objects of other kinds are not found.
    """
    held: list[object] = [args, kwargs]
    while isinstance(function, functools.partial):
        held += [function.args, function.keywords]
        function = function.func
    held.append(getattr(function, "__self__", None))
    if inspect.isfunction(function):
        named = inspect.getclosurevars(function)
        held += [named.nonlocals, named.globals]
    found = {id(array): array for array in arrays_in(held) if nbytes(array)}
    return list(found.values())


def nbytes(value: Any) -> int:
    """The bytes of an array's elements."""
    if framework(value) == "torch":
        return int(value.numel() * value.element_size())
    return int(value.nbytes)


def dtype_name(value: Any) -> str:
    """``float32``, ``bfloat16``, ...: the same for every framework."""
    return str(value.dtype).removeprefix("torch.")


def overlap(one: Any, other: Any) -> bool:
    """Whether two arrays may share memory: their address ranges meet."""
    if on_gpu(one) != on_gpu(other):
        return False
    (first, first_end), (second, second_end) = _span(one), _span(other)
    return first < second_end and second < first_end


def _span(value: Any) -> tuple[int, int]:
    match framework(value):
        case "torch":
            start = int(value.data_ptr())
        case "numpy":
            start = int(value.ctypes.data)
        case "cupy":
            start = int(value.data.ptr)
        case _:
            start = int(value.__cuda_array_interface__["data"][0])
    return start, start + nbytes(value)


def copy_of(value: Any) -> Any:
    """An array's elements in memory of their own, in its framework (CuPy for Numba)."""
    return value.detach().clone() if framework(value) == "torch" else _plain(value).copy()


def restore(value: Any, saved: Any) -> None:
    """Put back what ``copy_of`` kept, or another array's elements, in stream order where the array is on a GPU."""
    if framework(value) == "torch":
        value.detach().copy_(saved)
    else:
        _module(value).copyto(_plain(value), _plain(saved))


def differs(value: Any, saved: Any) -> bool:
    """Whether an array's bytes are no longer those that ``copy_of`` kept."""
    if framework(value) == "torch":
        torch = sys.modules["torch"]
        mine, kept = (part.detach().contiguous().reshape(-1).view(torch.uint8) for part in (value, saved))
        return not torch.equal(mine, kept)
    module = _module(value)
    mine, kept = (module.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in (_plain(value), saved))
    return bool((mine != kept).any())


def renew(value: Any, seed: int, *, redraw: bool = False) -> bool:
    """Give an array other elements in place, drawn from its own; False for a type that is left as it is.

    Real and complex elements are drawn with replacement and scaled by a factor in [0.5, 1), so their signs and their
    magnitudes' bound stay. Integers and truth values are permuted: what is an index stays one, what is unique stays
    unique; with ``redraw`` they are drawn with replacement.
    """
    name = dtype_name(value)
    scaled = name in _REAL
    if not scaled and not name.startswith(("int", "uint", "bool")):
        return False
    bits_module = importlib.import_module("cupy") if on_gpu(value) else np
    count = int(np.prod(value.shape, dtype=np.int64))
    bits = random_array(bits_module, (count,), "uint32", seed)
    order = bits.astype(np.int64) % count if scaled or redraw else bits_module.argsort(bits)
    factor = (bits >> np.uint32(_UINT32_BITS - 23)).astype(np.float32) * np.float32(2.0**-24) + np.float32(0.5)
    if framework(value) == "torch":
        tensor = value.detach()
        flat = tensor.reshape(-1)
        if name in BITS:  # PyTorch multiplies no 8-bit floats
            flat = flat.float()
        drawn = flat[_as_torch(order)]
        tensor.copy_((drawn * _as_torch(factor).to(flat.dtype) if scaled else drawn).reshape(tensor.shape))
        return True
    plain = _plain(value)
    flat = plain.reshape(-1)
    if name in BITS:
        flat = flat.astype(np.float32)
    drawn = flat[order]
    plain[...] = (drawn * factor.astype(flat.real.dtype) if scaled else drawn).reshape(plain.shape)
    return True


def as_words(value: Any) -> Array | None:
    """The elements of a real array on a GPU as words of their size, a view of CuPy's; None for every other array.

    None too where the elements are not neighbours in memory.
    """
    if not on_gpu(value) or dtype_name(value) not in _REAL:
        return None
    if not (value.is_contiguous() if framework(value) == "torch" else _plain(value).flags.c_contiguous):
        return None
    cupy, (start, end) = importlib.import_module("cupy"), _span(value)
    if start == end:
        return None
    itemsize = int(value.element_size() if framework(value) == "torch" else _plain(value).itemsize)
    memory = cupy.cuda.UnownedMemory(start, end - start, value, gpu_of(value))
    words: Array = cupy.ndarray(
        ((end - start) // itemsize,),
        "complex128" if itemsize == np.dtype("complex128").itemsize else f"u{itemsize}",
        cupy.cuda.MemoryPointer(memory, 0),
    )
    return words


def move(value: Any, share: float, seed: int) -> bool:
    """Move each element of a real array by up to ``share`` of itself, in place; False for every other type."""
    if dtype_name(value) not in ("float16", "bfloat16", "float32", "float64"):
        return False
    bits_module = importlib.import_module("cupy") if on_gpu(value) else np
    factor = 1.0 + share * shares(bits_module, (int(np.prod(value.shape, dtype=np.int64)),), seed)
    if framework(value) == "torch":
        tensor = value.detach()
        tensor.mul_(_as_torch(factor).reshape(tensor.shape))
    else:
        plain = _plain(value)
        plain *= factor.reshape(plain.shape).astype(plain.dtype)
    return True


def comparable(value: Any) -> Array:
    """An array, or a number, as an array of CuPy or NumPy of at least one axis that can be compared with another.

    Types that those lack (bfloat16, 8-bit floats, those of ml_dtypes) become float32, which holds each of their values;
    complex numbers become pairs of reals. The elements of a CUDA tensor come to the host where CuPy is not imported.
    """
    if framework(value) == "torch":
        array = _from_torch(value.detach())
    elif framework(value) is not None:
        array = _plain(value)
    else:
        array = np.asarray(value)
    if array.ndim == 0:
        array = array.reshape(1)
    if array.dtype.isbuiltin == 2:  # a type that another package gave to NumPy
        array = array.astype(np.float32)
    if array.dtype.kind == "c":
        array = _module(array).ascontiguousarray(array).view(array.real.dtype)
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


def _plain(value: Any) -> Array:
    """The array itself, a CuPy view of Numba's."""
    return importlib.import_module("cupy").asarray(value) if framework(value) == "numba" else value


def _module(value: Any) -> Any:
    return np if framework(value) == "numpy" else sys.modules["cupy"]
