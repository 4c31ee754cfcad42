"""Sizes and axes: the problems and builds of a kernel's sweep, and parameters that are functions of both."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, product
from math import prod
from types import MappingProxyType
from typing import Any

from peakgate.base.formatting import shown
from peakgate.spec import fields
from peakgate.spec.case import MOST_FAMILY_CASES
from peakgate.spec.fields import WORD, check, several

Size = int | tuple[int, ...]
"""A problem's size: ``arguments``, ``grid`` and ``bytes`` are called with its numbers."""
Sizes = Sequence[Size] | Mapping[str, Size]
"""Sizes, labelled in the case id by their numbers (``8192x1024``), or sizes by label."""
AxisValues = Sequence[Any] | Mapping[str, Any]
"""The values of an axis, or values by label in the case id; an empty label is left out."""
Labelled = tuple[tuple[int, ...], str]
"""The numbers of a size and its label."""

EDGES: Mapping[int, tuple[Size, ...]] = MappingProxyType(
    {
        1: (1, 31, 33, 127, 1026, 1028, 4099),
        2: ((1, 1), (31, 33), (16, 1026), (1028, 17), (129, 131), (132, 126)),
        3: ((1, 1, 1), (3, 31, 33), (5, 44, 257), (40, 44, 52)),
    }
)
"""Default edge sizes by number of dimensions: off every power of two; odd, 4 n, 4 n + 2. ``spec.edges`` adds some."""

_NUMBER = fields.whole(0, fields.LARGEST_COUNT)
_NUMBERS = several(_NUMBER)


def numbers_of(size: Size) -> tuple[int, ...]:
    """A size as a tuple; raises ValueError for anything but whole numbers."""
    numbers = size if isinstance(size, tuple) else (size,)
    check({"a size": numbers}, {"a size": _NUMBERS})
    return numbers


def label_of(numbers: Sequence[int]) -> str:
    """The label of a size or block in a case id: ``8192x1024``."""
    return "x".join(map(str, numbers))


def labelled(sizes: Sizes) -> Iterator[Labelled]:
    """The numbers and label of each size, up to one more than a family may have cases."""
    if isinstance(sizes, Mapping):
        for label, size in islice(sizes.items(), MOST_FAMILY_CASES + 1):
            check({"a label": label}, {"a label": WORD}, "sizes")
            yield numbers_of(size), label
    else:
        yield from ((numbers_of(size), label_of(numbers_of(size))) for size in islice(sizes, MOST_FAMILY_CASES + 1))


def by_side(sizes: Iterable[tuple[int, ...]]) -> dict[str, Size]:
    """Sizes of matrices by label: one side if all numbers are equal, else ``8192x1024``."""
    return {str(size[0]) if len({*size}) == 1 else label_of(size): size for size in sizes}


def given_twice(sizes: Sizes) -> list[str]:
    """The labels of sizes that are given more than once."""
    return [label for label, count in Counter(label for _, label in labelled(sizes)).items() if count > 1]


@dataclass(frozen=True, slots=True)
class Point:
    """A point on the axes: their values and labels, and the kernel's ``names`` of a size's numbers.

    A value without a label is not of an axis, such as the block: a function gets it if it has that parameter without a
    default.
    """

    names: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str | None] = field(default_factory=dict)
    """None for a value that is neither text nor number."""

    @property
    def variant(self) -> str:
        """Its part of the case id: the labels of all axes except the block, which has its own part."""
        labels = {name: label for name, label in self.labels.items() if name != "block"}
        if nameless := [name for name, label in labels.items() if label is None]:
            advice = "write {'label': value, ...}, or give variant"
            raise ValueError(
                f"axes: no label for a value of {nameless[0]}, {shown(self.values[nameless[0]])}; {advice}"
            )
        return "-".join(label for label in labels.values() if label)

    def at(self, parameter: str, value: Any, numbers: Sequence[int] = ()) -> Any:
        """The value of a parameter; a function is called with axes and the numbers of a size.

        A function gets the axes that it names. Its other parameters are the numbers of the size, in order; if it has
        fewer parameters than numbers, it gets those that it names. Raises ValueError for other parameters.
        """
        if not callable(value):
            return value
        takes = _takes(value)
        if takes is None:
            return value(*numbers)
        known = dict(zip(self.names, numbers, strict=False))
        given = {
            name: axis
            for name, axis in self.values.items()
            if name in takes.required or (name in self.labels and (takes.others or name in takes.names))
        }
        positional = [name for name in takes.positional if name not in given]
        required = [name for name in positional if name in takes.required]
        given |= {name: known[name] for name in takes.keywords if name in known}
        if takes.every:
            return value(*numbers, **given)
        if len(positional) < len(numbers) == len(known) and known.keys() >= set(positional):
            return value(**{name: known[name] for name in positional}, **given)
        if len(required) > len(numbers) or len(positional) < len(numbers):
            expected = [f"the numbers of a size, {label_of(numbers)}"] if numbers else []
            expected += [f"the axes, {', '.join(self.labels)}"] if self.labels else []
            of = ", ".join(takes.names)
            raise ValueError(
                f"{parameter} is a function of ({of}); expected one of {' and '.join(expected) or 'nothing'}"
            )
        return value(**dict(zip(positional, numbers, strict=False)), **given)


_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class _Takes:
    """A function's parameters: positional, keyword-only, those without a default, ``*every``, ``**others``."""

    positional: tuple[str, ...]
    keywords: tuple[str, ...]
    required: frozenset[str]
    every: bool
    others: bool

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.positional, *self.keywords)


def _takes(function: Callable[..., Any]) -> _Takes | None:
    """A function's parameters; None if they are unknown or positional-only."""
    try:
        return _taken(function)
    except TypeError:  # a method of an unhashable object
        return _taken.__wrapped__(function)


@lru_cache(maxsize=10_000)
def _taken(function: Callable[..., Any]) -> _Takes | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a built-in function without a signature
        return None
    kinds = {each.kind for each in parameters}
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        return None
    return _Takes(
        tuple(each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD),
        tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY),
        frozenset(each.name for each in parameters if each.default is each.empty and each.kind not in _REST),
        inspect.Parameter.VAR_POSITIONAL in kinds,
        inspect.Parameter.VAR_KEYWORD in kinds,
    )


def numbers_taken(arguments: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a size's numbers, some of which may be axes: the positional parameters of ``arguments``."""
    takes = _takes(arguments)
    return (
        tuple(inspect.signature(arguments).parameters) if takes and takes.every else takes.positional if takes else ()
    )


def along_axes(axes: Mapping[str, AxisValues], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The sizes whose numbers are axes: each combination, the last axis fastest."""
    if missing := [name for name in names if name not in axes]:
        raise ValueError(f"axes: no {missing[0]}; give each number of a size ({', '.join(names)}) an axis, or sizes")
    sizes = {}
    for each in product(*(_marked(name, axes[name]) for name in names)):
        for name, (_, value) in zip(names, each, strict=True):
            check({name: value}, {name: _NUMBER}, "axes")
        label = "x".join(str(value) if label is None else label for label, value in each)
        sizes[label] = tuple(value for _, value in each)
    return sizes


def points(axes: Mapping[str, AxisValues], names: tuple[str, ...]) -> Iterator[Point]:
    """Every combination of the axes' values, the last axis fastest."""
    if (count := prod(map(len, axes.values()))) > MOST_FAMILY_CASES:
        raise ValueError(f"axes have {count} combinations; expected at most {MOST_FAMILY_CASES}")
    for each in product(*(_marked(name, axis) for name, axis in axes.items())):
        marked = dict(zip(axes, each, strict=True))
        yield Point(
            names,
            {name: value for name, (_, value) in marked.items()},
            {name: _label(name, label, value) for name, (label, value) in marked.items()},
        )


def _marked(name: str, axis: AxisValues) -> list[tuple[str | None, Any]]:
    """The values of an axis, each with its given label or None."""
    if isinstance(axis, Mapping):
        return list(axis.items())
    twice = [value for at, value in enumerate(axis) if value in axis[:at]]
    if twice:
        raise ValueError(f"axes: {name} has {shown(twice[0])} twice; give each value once")
    return [(None, value) for value in axis]


def _label(axis: str, label: str | None, value: Any) -> str | None:
    """The label of a value: as given; a text itself; for a number the axis and the number; None for anything else."""
    if label is not None or isinstance(value, str):
        return value if label is None else label
    if isinstance(value, tuple) and all(map(_NUMBER.holds, value)):
        return f"{axis}{label_of(value)}"
    return f"{axis}{value}" if isinstance(value, int | float) and not isinstance(value, bool) else None
