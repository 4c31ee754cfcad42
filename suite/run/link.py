"""What the process that measures reports to its supervisor: one line of JSON per event, through a pipe."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

AB_VARIABLE = "PEAKGATE_AB"
"""Set for the runs of an A/B, which want times and no roofs: ``proof`` for one that proves its kernels first, ``pair``
for one that repeats it and only times them. Such a run has no supervisor: the A/B watches its processes itself."""

FRESH = 75  # EX_TEMPFAIL
"""Exit code of a measuring process whose GPU context is lost: the finished cases are handed over, go on without it."""

AGAIN = 76
"""Exit code of a measuring process after which cases below their floor are measured again, or were."""


class Link:
    """The measuring side. Without a descriptor nobody supervises this process, and nothing is sent."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor
        if descriptor is not None:
            os.set_inheritable(descriptor, False)  # what a case starts must not keep the pipe open

    @property
    def supervised(self) -> bool:
        return self._descriptor is not None

    def expect(self, step: str, limit_s: float, case: str | None = None) -> None:
        """A step begins; once it has taken longer than its limit the supervisor ends this process."""
        self.send(step=step, limit_s=limit_s, case=case)

    def send(self, **event: Any) -> None:
        """Send one event; it is written at once."""
        if self._descriptor is None:
            return
        left = json.dumps(event).encode() + b"\n"
        while left:
            left = left[os.write(self._descriptor, left) :]


class Lines:
    """The supervisor's side: bytes in, whole events out. A line that is no JSON table is no event."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The events that end in this data."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        events = []
        for line in whole:
            with suppress(ValueError):
                events.append(json.loads(line))
        return [event for event in events if isinstance(event, dict)]
