"""The values that a call takes and returns: nested tuples, lists and dictionaries of arrays and numbers.

An immutable argument, such as a JAX array, is exchanged: each call gets a new array, made by DLPack on memory owned
here. So its elements can change between calls like those of other arrays, and the framework waits for the stream that
writes them. No framework is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peakgate.base.errors import Code, PeakgateError
from peakgate.callables.arrays import (
    comparable,
    dtype_name,
    framework,
    here,
    numeric,
    on_gpu,
    plain,
    subclass_of_arrays,
)
from peakgate.spec import dtypes
from peakgate.spec.case import Array
from peakgate.spec.dtypes import BITS

ALIGNMENT_BYTES = 64
"""XLA copies host memory that is not aligned to this."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """An argument's elements in memory owned here; ``dtype`` if that has the bits of a type that NumPy lacks."""

    storage: Array
    namespace: Any
    dtype: str | None

    def array(self) -> Any:
        """A new array of the framework on that memory, in the order of the current stream."""
        made = self.namespace.from_dlpack(self.storage)
        return made if self.dtype is None else made.view(self.dtype)


@dataclass
class Exchange:
    """The exchanged arrays of a call's arguments, each once."""

    _known: dict[int, tuple[object, Exchanged]] = field(default_factory=dict)

    def put(self, value: Any) -> Any:
        """Replace each exchanged array in nested tuples, lists and dicts by an ``Exchanged``."""
        if framework(value) != "exchanged":
            return in_members(value, self.put)
        if id(value) not in self._known:
            name = dtype_name(value)
            storage = plain(value).copy() if on_gpu(value) else _aligned(plain(value))
            made = Exchanged(storage, value.__array_namespace__(), name if name in BITS else None)
            self._known[id(value)] = (value, made)
        return self._known[id(value)][1]

    @property
    def storages(self) -> list[Array]:
        """The memory of all exchanged arrays."""
        return [made.storage for _, made in self._known.values()]


def given(value: Any) -> Any:
    """The inverse of ``Exchange.put``: replace each ``Exchanged`` by a new array of its framework."""
    return value.array() if isinstance(value, Exchanged) else in_members(value, given)


def gathered(value: Any) -> Any:
    """Copy the arrays of other GPUs in nested tuples, lists and dicts to the current GPU."""
    return in_members(value, gathered) if framework(value) is None else here(value)


def in_members(value: Any, change: Any) -> Any:
    """A plain tuple, list or dict with ``change`` applied to its members; anything else unchanged."""
    if type(value) in (tuple, list):
        return type(value)(change(member) for member in value)
    if type(value) is dict:
        return {key: change(member) for key, member in value.items()}
    return value


def _aligned(array: Array) -> Array:
    room = np.empty(array.nbytes + ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % ALIGNMENT_BYTES
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


class NotAnArray(Exception):
    """A result contains a subclass of a framework's array; the message names its type."""


class OtherKeys(Exception):
    """A result's dictionary has other keys than the reference's; the message names them."""


@dataclass(frozen=True, slots=True)
class Typed:
    """An array for a comparison, and the name of the type in which its values were computed.

    ``untyped``: it is a real number of Python, which every type becomes.
    """

    array: Array
    dtype: str
    untyped: bool = False


def typed(values: Sequence[Any], expected: Sequence[Typed] = ()) -> list[Typed]:
    """Outputs, or a reference's result, as comparable arrays on the current GPU or in host memory.

    An unknown type counts as the type that holds its values. A number counts as float64, one of NumPy as its own real
    type, an integer compared with ``expected`` integers as int64; an integer of more than 64 bits is an object array.
    """
    found = []
    for at, value in enumerate(values):
        array = comparable(here(value))
        rounds = at < len(expected) and dtypes.limits(expected[at].dtype).unit_roundoff > 0
        whole = array.dtype.kind in "biuO" and not rounds
        has_type = framework(value) or isinstance(value, np.floating | np.complexfloating)
        name = dtype_name(value) if has_type else "int64" if whole else "float64"
        found.append(
            Typed(array, name if name in dtypes.KNOWN else array.dtype.name, untyped=not has_type and not whole)
        )
    return found


def layout_of(value: object) -> Any:
    """The structure of nested tuples, lists and mappings, as lists and dictionaries with None for any other value."""
    if framework(value) is None and isinstance(value, Mapping):
        return {key: layout_of(member) for key, member in value.items()}
    return [layout_of(member) for member in value] if isinstance(value, tuple | list) else None


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """The source of arrays and numbers as a phrase, and the error code if they cannot be compared."""

    returns: str
    code: Code


CALLABLE = ValueOrigin("the callable returns", Code.TYPE)
REFERENCE = ValueOrigin("its reference returns", Code.REFERENCE)
DECLARED = ValueOrigin("outputs returns", Code.BENCHMARK_TEST)


def flat(value: object, source: ValueOrigin, layout: Any = None) -> list[Any]:
    """The arrays and numbers in nested tuples, lists and mappings, in order; mappings in the order of ``layout``.

    Raises PeakgateError for values that cannot be compared, NotAnArray if a callable returns an array subclass.
    """
    if framework(value) is None and isinstance(value, Mapping):
        like = layout if isinstance(layout, dict) else dict.fromkeys(value)
        if like.keys() != value.keys():
            raise OtherKeys(f"gives the keys {_names(value)}, but the reference gives {_names(like)}")
        return [leaf for key, inner in like.items() for leaf in flat(value[key], source, inner)]
    if isinstance(value, tuple | list):
        inner = layout if isinstance(layout, list) and len(layout) == len(value) else [None] * len(value)
        return [leaf for member, its in zip(value, inner, strict=True) for leaf in flat(member, source, its)]
    if (problem := _incomparable(value)) is None:
        return [value]
    if source is CALLABLE and subclass_of_arrays(value):
        raise NotAnArray(problem.removeprefix("a "))
    raise PeakgateError(
        f"{source.returns} {problem}; expected arrays of numbers, or numbers, alone or in tuples, lists and "
        "dictionaries",
        source.code,
    )


def _incomparable(value: Any) -> str | None:
    """A phrase for a value that is neither a number nor an array of numbers; None for one that is."""
    if framework(value):
        return None if numeric(value) else f"an array of type {dtype_name(value)}"
    if isinstance(value, int):
        return None if abs(value) <= sys.float_info.max else "an integer of more than 1024 bits"
    kind = type(value)
    if isinstance(value, float | complex) or (
        kind.__module__ == "numpy" and isinstance(value, np.generic | np.ndarray) and numeric(value)
    ):
        return None
    if value is None:
        return "None"
    return f"a {kind.__qualname__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__qualname__}"


def _names(keys: Iterable[object]) -> str:
    return ", ".join(f"{key!r:.40}" for key in keys) or "none"
