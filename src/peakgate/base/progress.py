"""Progress: a line that is rewritten on a terminal, a line now and then elsewhere.

Elsewhere it has no colours and no escape sequences, so that a log stays text.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Protocol

from peakgate.base.formatting import duration


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
            columns = shutil.get_terminal_size().columns - 1 - len(left)
            line = (text if len(text) <= columns else f"{text[: max(0, columns - 1)]}…") + left
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
