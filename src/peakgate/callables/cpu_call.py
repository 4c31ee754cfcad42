"""A callable on the CPU, where no GPU answers: it runs once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from peakgate.callables.arrays import wait_for
from peakgate.callables.call import Call
from peakgate.device.interface import CallableLaunchable, SampleChecker
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.spec.case import Case

if TYPE_CHECKING:  # few runs measure it
    from peakgate.spec.recorded import Energy

ON_CPU = "wall time of one call on the CPU"


class CpuCall(CallableLaunchable):
    """A callable on the CPU as a session's launchable: it runs once, and that is its one sample."""

    def __init__(self, case: Case, call: Call) -> None:
        self.case = case
        self.wall_us = 0.0
        self._call = call

    def run(self) -> None:
        """Call it once, and note what that changed."""
        wait_for(self._call.arrays)  # the reference and the copies: the callable's stream may not wait for theirs
        start = time.perf_counter()
        self._call.run()
        wait_for(self._call.arrays)
        self.wall_us = (time.perf_counter() - start) * 1e6
        self._call.learn()

    def sample(self, plan: SamplingPlan, checker: SampleChecker | None = None) -> Samples:  # noqa: ARG002  (it runs once)
        """The time of the run."""
        return Samples((self.wall_us,), (None,), 0, ON_CPU)

    def energy(self, launch_us: float, loops: int) -> Energy | None:  # noqa: ARG002  (a processor has no such counter)
        """None: no GPU runs it."""
        return None
