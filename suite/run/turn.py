"""The turns of an A/B's processes on the GPU: each starts ahead, waits before it touches the GPU, says when it left it.

So one process alone has a context on the GPU, as if each began when the one before had ended, while imports, pytest's
start and the writing of run files take place beside the measuring of another process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "PEAKGATE_AB_TURN"
"""Two file descriptors: to read the word from, and to say on that the GPU is left. Unset where nobody gives turns."""


LONGEST_WORD = 1 << 12
"""Bytes of what a process says when it leaves the GPU: written, and read, at once."""


@dataclass(frozen=True, slots=True)
class Turn:
    """This process's end of its turn; without descriptors it is always its turn."""

    word: int | None = None
    left: int | None = None

    @staticmethod
    def of_environment() -> Turn:
        given = os.environ.get(VARIABLE)
        if not given:
            return Turn()
        word, left = (int(number) for number in given.split(","))
        for descriptor in (word, left):
            os.set_inheritable(descriptor, False)  # what a case starts must not keep the turn
        return Turn(word, left)

    @property
    def given(self) -> bool:
        """Whether somebody gives this process its turn."""
        return self.word is not None

    def wait(self) -> None:
        """Wait for the word. The pipe ends with the process that would give it; this process ends then too."""
        if self.word is not None and not os.read(self.word, 1):
            os._exit(os.EX_UNAVAILABLE)

    def over(self, steps_s: Mapping[str, float]) -> None:
        """Say that this process has left the GPU, and how long each of its steps took there."""
        if self.left is not None:
            os.write(self.left, json.dumps(dict(steps_s)).encode())
