"""What commands print: whoever stops reading still gets their files and exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rich.console import Console


class VerdictConsole(Console):
    """A console without number colours that goes silent when its reader has gone, where rich would exit with 1.

    ``nox -s history | head`` has seen enough; 1 would say that something got slower, and the reports are not written
    yet.
    """

    def __init__(self, *, markup: bool = True) -> None:
        super().__init__(highlight=False, markup=markup)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _print_to_nobody()


def say(text: str) -> None:
    """Print the text as it is, line ends and all, as long as somebody reads."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _print_to_nobody()


def _print_to_nobody() -> None:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
