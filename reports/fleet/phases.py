"""Where the wall time of a command went, phase by phase, from the start of its process."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from peakgate.common.processes import seconds_since_start_of

MEASURED = "gates"
"""The phase that a command which only reports does not have."""


class Phases:
    """The phases of this process, one after the other; what came before the first mark is the first."""

    def __init__(self) -> None:
        self._began = time.monotonic() - seconds_since_start_of(os.getpid())
        self._last = self._began
        self.seconds: dict[str, float] = {}

    def ends(self, name: str) -> None:
        """The phase at hand ends now, under this name; phases of one name add up."""
        now = time.monotonic()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + now - self._last, 3)
        self._last = now


def in_words(seconds: Mapping[str, float]) -> str:
    """``wall time 14.1 s: start 1.2, gates 12.0, ...``."""
    parts = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    return f"wall time {sum(seconds.values()):.1f} s: {parts}"
