"""Cases as JSON and back: the cases of a change's own process are data, checked member by member."""

from __future__ import annotations

import types
import typing
from collections import abc
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args, get_origin, get_type_hints

import numpy as np
from peakgate.core.arguments import StridedMapArgument, Surface, TensorMapArgument, TexelBuffer, Texture
from peakgate.core.case import Array, Buffer, Case, KernelLaunch, Launch, Role, Scalar, Stage, Struct, Tier, Work

FUNCTION = "function"
"""Placeholder of a function of the family: a reference, or one that makes input data."""

RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Case, Stage, Launch, KernelLaunch, Work, Buffer, TexelBuffer, Texture, Surface),
        *(Scalar, Struct, TensorMapArgument, StridedMapArgument),
    )
}
_TAKEN: dict[type, tuple[type, ...]] = {int: (int, float), float: (int, float), str: (str, int, float)}
"""A number does for another, and as the text of a macro's value: families may give these."""
NAMED: dict[str, Callable[[str], object]] = {"Role": Role, "Tier": Tier}


def as_data(value: object) -> Any:
    """A record as JSON: an object with its type's name as the one key, tuples as lists, FUNCTION for a function."""
    if isinstance(value, tuple | list):
        return [as_data(member) for member in value]
    if isinstance(value, Path):
        return {"Path": str(value.absolute())}
    if isinstance(value, Enum):
        return {type(value).__name__: value.value}
    if isinstance(value, np.generic):
        return value.item()
    if type(value).__name__ in RECORDS:
        members = {field.name: as_data(getattr(value, field.name)) for field in fields(cast("Any", value))}
        return {type(value).__name__: members}
    return {FUNCTION: None} if callable(value) else value


def as_record(data: Any, inside: Path) -> Any:
    """The inverse of ``as_data``, with ``of_function`` for functions; otherwise TypeError, ValueError or KeyError.

    Of files only those in the folder ``inside`` are taken, links out of it are not.
    """
    if isinstance(data, list):
        return tuple(as_record(each, inside) for each in data)
    if not isinstance(data, dict):
        return data
    ((name, given),) = data.items()
    if name == FUNCTION:
        return of_function
    if name == "Path":
        return _path_inside(Path(given), inside)
    if name in NAMED:
        return NAMED[name](given)
    kinds = _kinds(name)
    members = {member: as_record(value, inside) for member, value in given.items()}
    for member, value in members.items():
        if not _fits(value, kinds[member]):
            raise TypeError(f"{name}.{member} is {value!r}")
    return RECORDS[name](**members)


def _path_inside(path: Path, folder: Path) -> Path:
    """The path, if it names something in the folder; ValueError otherwise."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is outside {folder}")
    return path


@cache
def _kinds(name: str) -> dict[str, Any]:
    return get_type_hints(RECORDS[name])


def _fits(value: object, kind: Any) -> bool:
    """Whether a value is of an annotated type."""
    origin, members = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, each) for each in members)
    if origin is tuple:
        given = value if isinstance(value, tuple) else (None,)
        each = members[:1] * len(given) if members[-1] is Ellipsis else members
        return given is value and len(each) == len(given) and all(map(_fits, given, each))
    if origin is typing.Literal:
        return value in members
    if origin is abc.Callable:
        return value is of_function
    return isinstance(value, _TAKEN.get(kind, kind))


def of_function(_: Any, __: object) -> Array:
    """Placeholder of a function in a record, until the supplier's replaces it."""
    raise AssertionError("a record that was read has its own functions")
