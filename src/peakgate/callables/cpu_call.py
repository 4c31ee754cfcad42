"""A callable without a GPU: it runs once on the CPU."""

from __future__ import annotations

import time

from peakgate.callables.arrays import wait_for
from peakgate.callables.call import Call
from peakgate.device.interface import CallableLaunchable, SampleChecker
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.spec.case import Case
from peakgate.spec.recorded import Energy

ON_CPU = "wall time of one call on the CPU"


class CpuCall(CallableLaunchable):
    """A callable on the CPU as a session's launchable: one run, whose wall time is the one sample."""

    def __init__(self, case: Case, call: Call) -> None:
        self.case = case
        self.wall_us = 0.0
        self._call = call

    def run(self) -> None:
        """Call it once, and note which arrays that changed."""
        self._call.ranks.all("a call")
        self._call.prepare()
        wait_for(self._call.arrays)  # copies and the reference may run on streams that the callable does not wait for
        start = time.perf_counter()
        self._call.launch()
        wait_for(self._call.arrays)
        self.wall_us = (time.perf_counter() - start) * 1e6
        self._call.learn()

    def sample(self, plan: SamplingPlan, checker: SampleChecker | None = None) -> Samples:  # noqa: ARG002  (it runs once)
        """The time of the run."""
        return Samples((self.wall_us,), (None,), 0, ", ".join(filter(None, [ON_CPU, self._call.note])))

    def energy(self, launch_us: float, loops: int) -> Energy | None:  # noqa: ARG002  (a processor has no such counter)
        """Return None: energy is measured on a GPU only."""
        return None
