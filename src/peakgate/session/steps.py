"""The steps of a run: each is announced with its time limit before it begins; wall time is summed by step name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from peakgate.base import config
from peakgate.device.interface import Device
from peakgate.judge.floors import Floors
from peakgate.measure.limits import expected_launch_s, launch_limit_s, processor_limit_s
from peakgate.spec.case import Case
from peakgate_emulator.bounded import WALL_PER_PROCESSOR_S

Expect = Callable[[str, float, str | None], None]
"""Called with a step, its limit in seconds and the id of its case, None between cases."""


def unwatched(_step: str, _limit_s: float, _case_id: str | None) -> None:
    """An ``Expect`` that ignores the steps, for a run without a supervisor."""


class Steps:
    """Announces the steps of one run on a device by ``expect``, and sums their wall time.

    ``wall_s`` maps the name of a step to seconds. ``given_limit_s`` replaces the limit of a launch, which otherwise
    follows from the work of its case.
    """

    def __init__(
        self, device: Device, floors: Floors, expect: Expect = unwatched, given_limit_s: float | None = None
    ) -> None:
        self.expect = expect
        self.wall_s: dict[str, float] = {}
        self._device, self._floors, self._given_limit_s = device, floors, given_limit_s

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the block's wall time to a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds to a step."""
        self.wall_s[name] = self.wall_s.get(name, 0.0) + seconds

    def launch_limit_s(self, case: Case) -> float:
        """The time limit of one launch."""
        if self._given_limit_s is not None:
            return self._given_limit_s
        if self._device.kind == "cpu":
            timeout_s = config.current().emulation_timeout_s
            return WALL_PER_PROCESSOR_S * sum(processor_limit_s(each.launch, timeout_s) for each in case.launches)
        least = self._device.peaks.least_time_us(case) if self._device.peaks else None
        return launch_limit_s(expected_launch_s(case.work, least[0] if least else None, self._floors.get(case.id)))
