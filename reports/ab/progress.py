"""How far the experiment is, on stderr: one line that is rewritten on a terminal, a line a process elsewhere."""

from __future__ import annotations

import shutil
from typing import TextIO


class Progress:
    """Where lines of progress go; nothing of it is part of the report."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rewrites = stream.isatty()
        self._shown = 0

    def show(self, text: str, seconds_left: float | None = None) -> None:
        """Say where we are, and how long it will still take."""
        line = text if seconds_left is None else f"{text}, about {duration(seconds_left)} left"
        if not self._rewrites:
            self._stream.write(f"{line}\n")
        else:
            line = line[: shutil.get_terminal_size().columns - 1]
            self._stream.write(f"\r{line:<{self._shown}}")
            self._shown = len(line)
        self._stream.flush()

    def clear(self) -> None:
        """Leave the terminal's line empty for what comes next."""
        if self._shown:
            self._stream.write(f"\r{'':<{self._shown}}\r")
            self._stream.flush()
            self._shown = 0


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
