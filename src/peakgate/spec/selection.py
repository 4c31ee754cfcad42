"""``-k``: selects cases by expressions, in every command as pytest's ``-k`` does in ``peakgate bench``."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from peakgate.base.errors import Code, PeakgateError

MEANING = "only cases whose id contains this text; texts may be joined by and, or, not and parentheses, as in pytest"

Selector = Callable[[str], bool]

_WORD = re.compile(r"[()]|[^\s()]+")


class _Misplaced(Exception):
    """The next word, or the end, is a syntax error."""


def add_selection(parser: ArgumentParser, dest: str = "text", more: str = "", **how: Any) -> None:
    """Add ``-k``; its value is the given text, checked when parsed: PeakgateError for an invalid expression."""
    parser.add_argument("-k", dest=dest, type=_checked, metavar="EXPRESSION", help=f"{MEANING}{more}", **how)


def selector(expression: str) -> Selector:
    """A function that tells whether an expression selects an id; an empty expression selects every id.

    ``smem_pad or (hinted and not 8192)``; case-insensitive. Raises PeakgateError for an invalid expression.
    """
    words = _WORD.findall(expression)
    if not words:
        return lambda _: True
    with suppress(_Misplaced):
        chosen = _any(words)
        if not words:
            return chosen
    place = f"before {' '.join(words)}" if words else "at its end"
    raise PeakgateError(
        f"-k {expression!r}: not an expression {place}; expected parts of case ids, joined by and, or, not and "
        "parentheses",
        Code.OPTION,
    )


def _checked(expression: str) -> str:
    selector(expression)
    return expression


def _any(words: list[str]) -> Selector:
    """Parse ``A or B ...`` from the front of ``words`` and remove it."""
    parts = [_all(words)]
    while words[:1] == ["or"]:
        del words[0]
        parts.append(_all(words))
    return lambda name: any(part(name) for part in parts)


def _all(words: list[str]) -> Selector:
    parts = [_one(words)]
    while words[:1] == ["and"]:
        del words[0]
        parts.append(_one(words))
    return lambda name: all(part(name) for part in parts)


def _one(words: list[str]) -> Selector:
    if not words or words[0] in ("and", "or", ")"):
        raise _Misplaced
    word = words.pop(0)
    if word == "not":
        negated = _one(words)
        return lambda name: not negated(name)
    if word == "(":
        inner = _any(words)
        if words[:1] != [")"]:
            raise _Misplaced
        del words[0]
        return inner
    return lambda name: word.lower() in name.lower()
