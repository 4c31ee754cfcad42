"""The choice of a tuner, as run files keep it."""

from __future__ import annotations

from msgspec import Struct


class TunedChoice(Struct, frozen=True):
    """What a tuner chose for one kernel of a call: a configuration, and a digest of the code that it gave.

    ``code`` is None where the code is not seen.
    """

    kernel: str
    configuration: str
    code: str | None = None
