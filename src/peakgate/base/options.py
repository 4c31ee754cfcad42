"""Options of the verbs: a mistake in them is one line that ends in its code, as every mistake of a user's."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
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
