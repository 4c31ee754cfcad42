"""Cases as JSON and back: cases listed by the change's own process are read as data, checked member by member."""

from __future__ import annotations

import operator
import types
import typing
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from peakgate.spec.arguments import BufferAddress, StridedMapArgument, Surface, TensorMapArgument, TexelBuffer, Texture
from peakgate.spec.case import Array, Buffer, Case, KernelLaunch, Launch, Role, Scalar, Stage, Struct, Tier, Work

FUNCTION_KEY = "function"  # stands for a function of the family: a reference, or one that generates input data

RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Case, Stage, Launch, KernelLaunch, Work, Buffer, TexelBuffer, Texture, Surface),
        *(Scalar, Struct, BufferAddress, TensorMapArgument, StridedMapArgument),
    )
}
# Families may give an int for a float and the reverse, and a number as the value of a macro.
_TAKEN: dict[type, tuple[type, ...]] = {int: (int, float), float: (int, float), str: (str, int, float)}
NAMED: dict[str, Callable[[str], object]] = {"Role": Role, "Tier": Tier}


def as_data(value: object) -> Any:
    """A record as JSON: an object whose only key is the name of its type; tuples become lists.

    A function becomes FUNCTION_KEY with a number; equal functions have the same number.
    """
    if isinstance(value, tuple | list):
        return [as_data(member) for member in value]
    if isinstance(value, Path):
        return {"Path": str(value.absolute())}
    if isinstance(value, Enum):
        return {type(value).__name__: value.value}
    if isinstance(value, np.generic):
        return value.item()
    kind: Any = type(value)
    if kind.__name__ in RECORDS:
        return {kind.__name__: {member: as_data(getattr(value, member)) for member in _kinds(kind.__name__)}}
    return {FUNCTION_KEY: _number(value)} if callable(value) else value


_numbers: dict[object, int] = {}


def _number(function: object) -> int:
    try:
        return _numbers.setdefault(function, len(_numbers))
    except TypeError:  # it cannot be hashed
        return _numbers.setdefault(object(), len(_numbers))


def as_record(data: Any, inside: Path) -> Any:
    """The inverse of ``as_data``, with OfFunction for functions.

    Raises TypeError, ValueError or KeyError for anything else, and ValueError for a path that resolves to a file
    outside the folder ``inside``.
    """
    if isinstance(data, list):
        return tuple(as_record(each, inside) for each in data)
    if not isinstance(data, dict):
        return data
    ((name, given),) = data.items()
    if name == FUNCTION_KEY:
        return OfFunction(operator.index(given))
    if name == "Path":
        return _path_inside(Path(given), inside)
    if name in NAMED:
        return NAMED[name](given)
    kinds = _kinds(name)
    members = {member: as_record(value, inside) for member, value in given.items()}
    for member, value in members.items():
        if not kinds[member](value):
            raise TypeError(f"{name}.{member} is {value!r}")
    return RECORDS[name](**members)


@cache
def _path_inside(path: Path, folder: Path) -> Path:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is outside {folder}")
    return path


Fits = Callable[[object], bool]
"""A test of a value: whether it is of an annotated type."""


@cache
def _kinds(name: str) -> dict[str, Fits]:
    return {member: _of_kind(kind) for member, kind in get_type_hints(RECORDS[name]).items()}


def _of_kind(kind: Any) -> Fits:
    """The test of a value for a type; made once per member of a record, for speed with thousands of cases."""
    origin, members = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        several = [_of_kind(each) for each in members]
        return lambda value: any(fits(value) for fits in several)
    if origin is tuple and members[-1] is Ellipsis:
        fits = _of_kind(members[0])
        return lambda value: isinstance(value, tuple) and all(map(fits, value))
    if origin is tuple:
        each = [_of_kind(member) for member in members]
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(each)
            and all(fits(member) for fits, member in zip(each, value, strict=True))
        )
    if origin is typing.Literal:
        return lambda value: value in members
    if origin is abc.Callable:
        return lambda value: isinstance(value, OfFunction)
    taken = _TAKEN.get(kind, kind)
    return lambda value: isinstance(value, taken)


@dataclass(frozen=True, slots=True)
class OfFunction:
    """Placeholder for a function in a record that was read; equal functions have the same number."""

    number: int

    def __call__(self, _: Any, __: object) -> Array:
        """Never called: ``listing`` replaces it by the family's function."""
        raise AssertionError
