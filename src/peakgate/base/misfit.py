"""Finds the value of a document that msgspec refused, and why.

msgspec's message has the path of that value, but with ``[...]`` for the keys of a dict, and names types instead of
their descriptions. So this follows the types from the top and converts members one by one, down to a value whose
members are all valid. msgspec's message is used only for a type without a description.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum, EnumType
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import Meta, inspect, structs

from peakgate.base.formatting import nearest, short

Keys = list[str | int]

SCHEMAS = ("schema", "peakgate_schema", "peakgate_digests")
"""Keys of a file's schema version: another version is reported first."""

IDENTIFYING_KEYS = ("case", "kernel", "run", "name")
"""Keys that identify an entry of a list; errors name it."""


def misfit(document: Any, kind: Any) -> tuple[Keys, str]:
    """The keys of the first invalid value, and what is wrong with it."""
    if other := _other_version(document, kind):
        return other
    keys, label = Keys(), ""
    while True:
        if isinstance(document, dict):
            label = next((f" ({short(document[key])})" for key in IDENTIFYING_KEYS if keys and key in document), label)
        fields = _fields(kind)
        for key, value, key_kind, value_kind in _members(document, kind):
            if fields and key not in fields:
                listed = f"{nearest(str(key), fields)}; expected one of {', '.join(fields)}"
                return [*keys, key], f"{label} is an unknown key{listed}"
            if why := _refusal(key, key_kind):
                return keys, f"{label} has an invalid key: {why}"
            if _refusal(value, value_kind):
                keys.append(key)
                document, kind = value, value_kind
                break
        else:
            break
    for name, field in fields.items() if isinstance(document, dict) else ():
        if field.required and name not in document:
            expected = _expected(field.kind)
            return [*keys, name], f"{label} is missing{expected and ', expected '}{expected}"
    of_msgspec = _refusal(document, kind).removeprefix("Expected ").partition(", got ")[0].replace("`", "")
    return keys, f"{label} is {short(document)}, expected {_expected(kind) or of_msgspec}"


def _other_version(document: Any, kind: Any) -> tuple[Keys, str] | None:
    """The key of an unsupported schema version, and what is wrong with it; None if the version is supported."""
    for name, field in _fields(kind).items() if isinstance(document, dict) else ():
        given = document.get(name)
        versions = get_args(field.kind) if name in SCHEMAS and get_origin(field.kind) is Literal else ()
        if versions and (type(given) is not int or given not in versions):
            is_given = f"is {short(given)}, this version reads" if name in document else "is missing, expected"
            return [name], f" {is_given} {versions[0]}"
    return None


def _refusal(value: Any, kind: Any) -> str:
    """Why msgspec refuses a value; empty if it accepts it."""
    try:
        msgspec.convert(value, kind)
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def _members(value: Any, kind: Any) -> Iterator[tuple[str | int, Any, Any, Any]]:
    """Each member of a value that its type describes: key, value, type of the key, type of the value."""
    plain = _plain(kind)
    origin, of = get_origin(plain) or plain, get_args(plain)
    if isinstance(value, dict) and (fields := _fields(plain)):
        closed = getattr(inspect.type_info(plain), "forbid_unknown_fields", False)
        for key, member in value.items():
            if key in fields or closed:
                yield key, member, str, fields[key].kind if key in fields else Any
    elif isinstance(value, dict) and _is(origin, Mapping):
        key_kind, member_kind = of or (Any, Any)
        for key, member in value.items():
            yield key, member, key_kind, member_kind
    elif isinstance(value, list) and _is(origin, Collection) and not _is(origin, Mapping):
        kinds = of if origin is tuple and Ellipsis not in of else [of[0] if of else Any] * len(value)
        if len(kinds) == len(value):
            for at, (member, member_kind) in enumerate(zip(value, kinds, strict=True)):
                yield at, member, int, member_kind


def _is(kind: Any, parent: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, parent)


def _plain(kind: Any) -> Any:
    """A type without its annotations; of a union the first type with members."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        kinds = [_plain(each) for each in get_args(kind)]
        return next((each for each in kinds if _fields(each) or get_origin(each) not in (None, Literal)), kinds[0])
    return kind


class _Field(NamedTuple):
    kind: Any
    required: bool


def _fields(kind: Any) -> dict[str, _Field]:
    """The fields of a Struct, dataclass or TypedDict by their names in files; empty for another type."""
    plain = _plain(kind)
    origin = get_origin(plain) or plain
    if _is(origin, msgspec.Struct):
        kinds = {field.name: field.type for field in structs.fields(plain)}  # type parameters filled in
    elif is_dataclass(origin) or is_typeddict(origin):
        kinds = get_type_hints(origin, include_extras=True)
    else:
        return {}
    described: Any = inspect.type_info(plain)
    return {field.encode_name: _Field(kinds[field.name], field.required) for field in described.fields}


def _expected(kind: Any) -> str:
    """The expected values as a phrase: the type's description, or its members; empty if it has neither."""
    origin, of = get_origin(kind), get_args(kind)
    if origin is Annotated:
        described = (each.description for each in kind.__metadata__ if isinstance(each, Meta))
        return next(filter(None, described), None) or _expected(of[0])
    if origin in (Union, UnionType):
        return next(filter(None, map(_expected, of)), "")
    if isinstance(kind, EnumType):
        return f"one of {', '.join(str(member.value) for member in cast('type[Enum]', kind))}"
    return f"one of {', '.join(sorted(map(str, of)))}" if origin is Literal else ""
