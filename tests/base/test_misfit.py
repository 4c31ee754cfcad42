"""The value that does not fit is named by its path, in whatever kind of object, list or dict it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest
from msgspec import Meta, Struct

from peakgate.base.misfit import misfit


class Model(TypedDict, total=False):
    slug: str


@dataclass
class Energy:
    joules: Annotated[float, Meta(ge=0, description="joules from 0 up")]


class Entry(Struct, forbid_unknown_fields=True):
    case: str
    energy: Energy | None = None
    models: dict[str, Model] = {}
    pair: tuple[int, str] | None = None
    unit: Literal["s", "ms"] = "s"


class File(Struct):
    schema: Literal[3]
    entries: list[Entry]


def the_entry(**members: Any) -> dict[str, Any]:
    return {"schema": 3, "entries": [{"case": "a"}, {"case": "b", **members}]}


@pytest.mark.parametrize(
    ("document", "keys", "expected"),
    [
        ({"schema": 2, "entries": 5}, ["schema"], "3"),
        ({"entries": []}, ["schema"], "is missing"),
        ({"schema": 3}, ["entries"], ""),
        ({"schema": 3, "entries": {}}, ["entries"], "array"),
        ([], [], "object"),
        (the_entry(unit="h"), ["entries", 1, "unit"], "ms, s"),
        (the_entry(unti="s"), ["entries", 1, "unti"], "'unit'"),
        (the_entry(energy={}), ["entries", 1, "energy", "joules"], "joules from 0 up"),
        (the_entry(energy={"joules": -1}), ["entries", 1, "energy", "joules"], "joules from 0 up"),
        (the_entry(models={"x": {}, "a.b": {"slug": 1}}), ["entries", 1, "models", "a.b", "slug"], "str"),
        (the_entry(pair=[1, 2]), ["entries", 1, "pair", 1], "str"),
        (the_entry(pair=[1]), ["entries", 1, "pair"], "array of length 2"),
    ],
)
def test_the_first_value_that_does_not_fit_is_named(document: Any, keys: list[str | int], expected: str) -> None:
    found, problem = misfit(document, File)
    assert found == keys
    assert expected in problem


def test_a_key_that_does_not_fit_is_named_at_its_dict() -> None:
    kind = dict[str, dict[Annotated[str, Meta(max_length=2)], int]]
    assert misfit({"a": {"long": 1}}, kind)[0] == ["a"]
