"""Prints safe text to the standard streams; a closed pipe does not change the exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from peakgate.base.formatting import harmless

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


def say(text: str) -> None:
    """Print ``text`` as safe lines to standard output; ignored once its reader has closed the pipe."""
    say_as_is(harmless(text))


def say_as_is(text: str) -> None:
    """Print ``text``, such as a command of a CI system, to standard output; ignored as by ``say``."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        print_to_nobody(sys.stdout)


def warn(text: str) -> None:
    """Print ``text`` as safe lines to standard error; ignored if that cannot be written."""
    try:
        sys.stderr.write(harmless(text))
        sys.stderr.flush()
    except OSError:
        print_to_nobody(sys.stderr)


def print_to_nobody(stream: TextIO) -> None:
    """Redirect a stream of this process, including its buffer, to /dev/null."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class PrintedIfPossible(io.FileIO):
    """An output descriptor that ignores write errors; ``problem`` is the last one, if any."""

    problem: OSError | None = None

    def write(self, content: Buffer, /) -> int:
        try:
            return super().write(content)
        except OSError as error:
            self.problem = error
            return memoryview(content).nbytes


@contextmanager
def printed_if_possible() -> Iterator[PrintedIfPossible | None]:
    """Ignore write errors of standard output within the block; yields None if a caller has replaced it."""
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
    """Open /dev/null for standard streams that the parent has closed.

    Otherwise the next opened file would get a stream's descriptor, and printed text would be written to it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (for the whole process)
