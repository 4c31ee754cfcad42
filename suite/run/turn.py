"""The turns of an A/B's processes on the GPU: each starts ahead, waits before it touches the GPU, says when it left it.

So one process alone has a context on the GPU, as if each began when the one before had ended, while imports, pytest's
start and the writing of run files take place beside the measuring of another process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

VARIABLE = "PEAKGATE_AB_TURN"
"""Two file descriptors: to read the word from, and to say on that the GPU is left. Unset where nobody gives turns."""


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
        """Wait for the word; whoever would give it is gone at the end of the pipe, and this process ends too."""
        if self.word is not None and not os.read(self.word, 1):
            os._exit(os.EX_UNAVAILABLE)

    def over(self) -> None:
        """Say that this process has left the GPU."""
        if self.left is not None:
            os.write(self.left, b".")
