"""Printing to a terminal or a pipe; when the reader closes the pipe, files and exit code stay the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console


class VerdictConsole(Console):
    """A console without number colours that goes silent when the pipe is closed, where rich would exit with 1.

    After ``peakgate history | head``, 1 would mean a regression, and the reports would not be written.
    """

    def __init__(self, *, markup: bool = True) -> None:
        super().__init__(highlight=False, markup=markup)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _print_to_nobody()


def say(text: str) -> None:
    """Print the text unchanged, until the pipe is closed."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _print_to_nobody()


def _print_to_nobody() -> None:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
