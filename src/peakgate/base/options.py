"""Options of the verbs: a mistake in them is one line that ends in its code, as every mistake of a user's.

``-k`` selects cases by expressions, in every command as pytest's ``-k`` does in ``peakgate bench``.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from peakgate.base.errors import Code, PeakgateError

COMPLETING = "_ARGCOMPLETE"
"""argcomplete's variable: a shell asks what may follow. Its value is the word of the line where the command begins."""


class VerbParser(argparse.ArgumentParser):
    """A parser of one verb's options; its errors are PeakgateErrors."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, or where a shell asks for completions and no argument is given, print them and end the process."""
        if COMPLETING in os.environ and not args and type(self) is VerbParser:  # argcomplete parses by a subclass
            import argcomplete  # noqa: PLC0415  (optional)

            argcomplete.autocomplete(self)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        raise PeakgateError(f"{message}; `{self.prog} --help` lists the options", Code.OPTION)


def at_least(least: int) -> Callable[[str], int]:
    """A whole number, this or more, for argparse."""

    def count(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text}: expected a whole number, {least} or more")
        return number

    return count


OLDEST_CAPABILITY = (7, 5)
"""The lowest compute capability of a GPU that is supported."""


def compute_capability(text: str) -> tuple[int, int]:
    """A compute capability, ``9.0``, as two numbers; PeakgateError for one that no GPU has which is supported."""
    found = re.fullmatch(r"([0-9]{1,3})\.([0-9])", text)
    numbers = (int(found[1]), int(found[2])) if found else (0, 0)
    if numbers < OLDEST_CAPABILITY:
        oldest = ".".join(map(str, OLDEST_CAPABILITY))
        raise PeakgateError(
            f"--capability {text!r}: expected two numbers and a dot, such as 9.0, from {oldest} on", Code.OPTION
        )
    return numbers


def seconds_above_0(text: str) -> float:
    """A number of seconds above 0, for argparse."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: expected a number of seconds above 0")
    return seconds


MEANING = "only cases whose id contains this text; texts may be joined by and, or, not and parentheses, as in pytest"

Selector = Callable[[str], bool]

_WORD = re.compile(r"[()]|[^\s()]+")


class _Misplaced(Exception):
    """The next word, or the end, is a syntax error."""


def add_selection(parser: argparse.ArgumentParser, dest: str = "text", more: str = "", **how: Any) -> None:
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
