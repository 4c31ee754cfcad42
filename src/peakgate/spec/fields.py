"""Validation of the records of a case: kinds of values, and tables that assign a kind to each field.

Every record is checked when it is made, so that later code meets no value of another type or size, and no text with a
line break. A check takes no longer for a large value than for a small one: a range of 10^9 numbers is refused by its
length.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from peakgate.base.formatting import shown

LONGEST_LINE = 10_000
MOST_VALUES = 1_000
"""The most values of a list: options, arguments, launches."""
LARGEST_COUNT = 2**63 - 1
"""The largest number in a run file."""
LARGEST_EXTENT = 2**32 - 1
"""The largest extent of a grid or block in CUDA's ``dim3``."""
MOST_SHARED_BYTES = 2**31 - 1
LATEST_CAPABILITY = 99

_NOT_OF_A_LINE = re.compile("[\n\r\0\v\f\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MACRO = re.compile(r"[A-Za-z_]\w*(\([\w, .]*\))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: a phrase for messages, and ``holds``, a fast test that never raises."""

    expected: str
    holds: Callable[[Any], bool]

    def __or__(self, other: Kind) -> Kind:
        return Kind(f"{self.expected}, or {other.expected}", lambda value: self.holds(value) or other.holds(value))


Kinds = Mapping[str, Kind]
"""The kinds of a record's fields, or of a function's parameters, by name."""


def check(values: Mapping[str, Any] | object, table: Kinds, what: str = "") -> None:
    """Raise ValueError for the first field that is not of its kind; ``what`` begins the message."""
    value_of = values.__getitem__ if isinstance(values, Mapping) else partial(getattr, values)
    for name, kind in table.items():
        value = value_of(name)
        if not kind.holds(value):
            raise ValueError(f"{what and f'{what}: '}{name} is {shown(value)}; expected {kind.expected}")


def is_whole(value: object, least: int, most: int | None = None) -> bool:
    """Whether a value is a whole number of a Python or NumPy type, at least ``least`` and at most ``most``."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(value >= least) and (most is None or bool(value <= most))  # type: ignore[operator]


def is_number(value: object, least: float, most: float) -> bool:
    """Whether a value is a number of a Python or NumPy type within these bounds; False for NaN."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    number = value.item() if isinstance(value, np.generic) else value  # narrow NumPy types overflow in a comparison
    return bool(least <= number <= most)


def is_text(value: object) -> bool:
    """Whether a value is a text of one line whose characters can all be printed and encoded."""
    if not isinstance(value, str) or len(value) > LONGEST_LINE:
        return False
    return value.isprintable() or not _NOT_OF_A_LINE.search(value)


def whole(least: int, most: int) -> Kind:
    """A whole number within bounds."""
    return Kind(f"a whole number from {least} to {most}", lambda value: is_whole(value, least, most))


def several(of: Kind, kinds: type | tuple[type, ...] = tuple) -> Kind:
    """A tuple of values of one kind; ``kinds`` are the sequence types allowed instead of tuple."""

    def holds(value: Any) -> bool:
        listed = isinstance(value, kinds)
        return listed and len(value) <= MOST_VALUES and all(map(of.holds, value))

    return Kind(f"a list or tuple of at most {MOST_VALUES}, each {of.expected}", holds)


def tuple_of(*kinds: Kind) -> Kind:
    """A tuple with one value of each kind, in order."""
    return Kind(
        f"a tuple ({', '.join(kind.expected for kind in kinds)})",
        lambda value: (
            isinstance(value, tuple)
            and len(value) == len(kinds)
            and all(kind.holds(each) for kind, each in zip(kinds, value, strict=True))
        ),
    )


def mapping(keys: Kind, values: Kind) -> Kind:
    """A mapping of at most MOST_VALUES entries."""

    def holds(value: Any) -> bool:
        if not isinstance(value, Mapping) or len(value) > MOST_VALUES:
            return False
        return all(keys.holds(key) and values.holds(each) for key, each in value.items())

    return Kind(f"a dict from {keys.expected} to {values.expected}", holds)


def instance(of: type | tuple[type, ...], expected: str) -> Kind:
    """An instance of a class."""
    return Kind(expected, lambda value: isinstance(value, of))


def one_of(values: Collection[Any]) -> Kind:
    """One of some texts or numbers."""
    listed = ", ".join(map(str, values))
    return Kind(f"one of {listed}", lambda value: isinstance(value, str | int) and value in values)


NOTHING = Kind("None", lambda value: value is None)
FLAG = Kind("True or False", lambda value: isinstance(value, bool | np.bool_))
TEXT = Kind(f"a text of one line and at most {LONGEST_LINE} letters", is_text)
WORD = Kind("a text of one line that is not empty", lambda value: is_text(value) and bool(value.strip()))
PATH = Kind("a path", lambda value: isinstance(value, Path) and is_text(str(value)))
FUNCTION = Kind("a function", callable)
IDENTIFIER = Kind("a name of C++", lambda value: is_text(value) and _IDENTIFIER.fullmatch(value) is not None)
MACRO = Kind("the name of a macro", lambda value: is_text(value) and _MACRO.fullmatch(value) is not None)
COUNT = Kind("a number from 0 to 2^63 - 1", lambda value: is_number(value, 0, LARGEST_COUNT))
WHOLE_COUNT = Kind(
    "a whole number from 0 to 2^63 - 1", lambda value: is_number(value, 0, LARGEST_COUNT) and value == int(value)
)
POSITIVE = Kind("a finite number above 0", lambda value: is_number(value, 0, math.inf) and 0 < value < math.inf)
FINITE = Kind("a finite number", lambda value: is_number(value, -sys.float_info.max, sys.float_info.max))
EXTENT = whole(1, LARGEST_EXTENT)
SHARED_BYTES = whole(0, MOST_SHARED_BYTES)
CAPABILITY = tuple_of(whole(0, LATEST_CAPABILITY), whole(0, 9))
