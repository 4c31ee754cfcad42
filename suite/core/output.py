"""Output of commands: escapes untrusted text; a closed pipe changes no exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO

from peakgate.core.text import one_line


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


def open_standard_streams() -> None:
    """Give this process those of its three standard streams that its parent closed, as /dev/null.

    Otherwise the next file that is opened would take a stream's number, and what is printed would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (for the whole process)
