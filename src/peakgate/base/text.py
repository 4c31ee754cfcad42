"""Text for messages, text from files and from other people's code made safe to print, and printing it.

A closed pipe changes no exit code. Progress is a line that is rewritten on a terminal, a line now and then elsewhere,
without colours and escape sequences, so that a log stays text.
"""

from __future__ import annotations

import difflib
import io
import json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

COMMANDS = (
    "add-mask|add-path|debug|echo|endgroup|error|group|notice|save-state|set-env|set-output|stop-commands|warning"
)
CI_COMMAND = re.compile(rf"(?<!\S)::(?=\S)|::(?=(?:{COMMANDS})\b)|##(?=\w*\[)", re.IGNORECASE)
"""Log commands of GitHub Actions, Azure Pipelines and TeamCity: ``::name ...::`` and ``##[name]``. ``::`` inside a
word, as in a test's node id, is left alone."""

_OBEYED = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Special characters that JSON does not escape: control, line separators, direction, zero width."""

FORMULA = ("=", "+", "-", "@")

BARS = "▁▂▃▄▅▆▇█"
LEAST_SPAN = 0.02
"""Values that differ by less than this share are drawn as the nearly level line that they are."""


def one_line(text: str) -> str:
    """``text`` without line breaks, without control characters a terminal obeys, without commands a CI log obeys."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return CI_COMMAND.sub(lambda found: f"{found[0][0]} {found[0][1]}", text)


def counted(number: int, noun: str) -> str:
    """``1 case``, ``2 cases``, ``3 launches``."""
    plural = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def shown(value: object) -> str:
    """What a user gave, in one line of at most 80 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits, or whatever a class of the user's raises
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def percent(value: float | None, form: str = "", missing: str = "") -> str:
    """``0.58 %``, ``1.3 %``, ``240 %``: two significant digits and no exponent, or by ``form``.

    ``missing`` where there is no figure: None or NaN.
    """
    if value is None or math.isnan(value):
        return missing
    return f"{value:{form or ('.0f' if value >= 10 else '.2g')}} %"


def share(fraction: float) -> str:
    """A fraction in percent, ``72.5 %``."""
    return f"{100 * fraction:.1f} %"


def figure(value: float, digits: int = 4) -> str:
    """A number to so many significant digits, zeros at its end too, without an exponent."""
    short = f"{value:#.{digits}g}"
    return f"{value:.0f}" if "e+" in short else short.rstrip(".")


def sparkline(values: Sequence[float]) -> str:
    """The values as bars from the least to the most of them."""
    least, most = min(values), max(values)
    span = max(most - least, LEAST_SPAN * most) or 1.0
    bottom = (least + most - span) / 2
    return "".join(BARS[round((value - bottom) / span * (len(BARS) - 1))] for value in values)


def nearest(name: str, known: Collection[str]) -> str:
    """``, did you mean 'x'?`` where one of ``known`` is close to ``name``; else empty."""
    close = difflib.get_close_matches(name, known, 1)
    return f", did you mean {close[0]!r}?" if close else ""


def encodable(text: str) -> str:
    """``text`` with a question mark for each half of a surrogate pair, which no encoding and no Arrow array takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def as_json(document: object) -> str:
    """A document as readable JSON, in which characters that a terminal or an editor obeys are escapes."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def cell(value: object) -> object:
    """A value for a CSV cell: text in one line, with an apostrophe in front where a spreadsheet would compute it."""
    if not isinstance(value, str):
        return value
    plain = one_line(value)
    return f"'{plain}" if plain.lstrip().startswith(FORMULA) else plain


def harmless(text: str) -> str:
    """The lines of a text without what a terminal or a CI log obeys, each ended by a line break."""
    return "".join(f"{one_line(line)}\n" for line in text.splitlines())


def say(text: str) -> None:
    """Print ``text`` as harmless lines to standard output; nothing once its reader is gone."""
    try:
        sys.stdout.write(harmless(text))
        sys.stdout.flush()
    except BrokenPipeError:
        print_to_nobody(sys.stdout)


def warn(text: str) -> None:
    """Print ``text`` as harmless lines to standard error; nothing where that cannot be written."""
    try:
        sys.stderr.write(harmless(text))
        sys.stderr.flush()
    except OSError:
        print_to_nobody(sys.stderr)


def print_to_nobody(stream: TextIO) -> None:
    """Throw away what else is written to a stream of this process, its buffer included."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class PrintedIfPossible(io.FileIO):
    """A descriptor for output that need not arrive: ``problem`` is the error by which it was not written, if any."""

    problem: OSError | None = None

    def write(self, content: Buffer, /) -> int:
        try:
            return super().write(content)
        except OSError as error:
            self.problem = error
            return memoryview(content).nbytes


@contextmanager
def printed_if_possible() -> Iterator[PrintedIfPossible | None]:
    """What is printed in the block to standard output, but where a caller replaced it, need not arrive."""
    before = sys.__stdout__
    if before is None or sys.stdout is not before:
        yield None
        return
    before.flush()
    raw = PrintedIfPossible(before.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), before.encoding, errors="replace", line_buffering=before.line_buffering
    )
    try:
        yield raw
    finally:
        sys.stdout.flush()
        sys.stdout = before


def open_standard_streams() -> None:
    """Give this process those of its three standard streams that its parent closed, as /dev/null.

    Otherwise the next file that is opened would take a stream's number, and what is printed would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (for the whole process)


ELLIPSIS = "…"


class Stream(Protocol):
    """Destination of progress: a text file, or pytest's terminal reporter."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


class Progress:
    """Where lines of progress go; nothing of it is part of a report.

    On what is no terminal at most one line is written in ``every_s`` seconds, the first after that time.
    """

    def __init__(self, stream: Stream, *, every_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._every_s, self._clock = stream, every_s, clock
        self._rewrites = stream.isatty()
        self._written_at = clock()
        self._shown = 0

    def show(self, text: str, seconds_left: float | None = None) -> None:
        """Say where we are, and how long it will still take; the text is cut where the terminal is too narrow."""
        left = "" if seconds_left is None else f", about {duration(seconds_left)} left"
        if self._rewrites:
            line = _cut(text, shutil.get_terminal_size().columns - 1 - len(left)) + left
            self._stream.write(f"\r{line:<{self._shown}}")
            self._shown = len(line)
        elif self._clock() - self._written_at < self._every_s:
            return
        else:
            self._stream.write(f"{text}{left}\n")
            self._written_at = self._clock()
        self._stream.flush()

    def clear(self) -> None:
        """Leave the terminal's line empty for what comes next."""
        if self._shown:
            self._stream.write(f"\r{'':<{self._shown}}\r")
            self._stream.flush()
            self._shown = 0


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``: whole seconds, rounded up."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: max(0, columns - 1)] + ELLIPSIS
