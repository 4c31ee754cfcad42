"""A callable without a GPU: it runs once on the CPU, or cannot, because its framework needs a GPU."""

from __future__ import annotations

import re
import time
from types import TracebackType

from peakgate.callables.arrays import wait_for
from peakgate.callables.call import Call
from peakgate.callables.unchanged import described
from peakgate.device.interface import CallableLaunchable, SampleChecker
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.spec.case import Case
from peakgate.spec.recorded import Energy

ON_CPU = "wall time of one call on the CPU"

FRAMEWORKS = frozenset(
    {
        "cupy",
        "cupyx",
        "cupy_backends",
        "torch",
        "triton",
        "numba",
        "numba_cuda",
        "cuda",
        "jax",
        "jaxlib",
        "warp",
        "tilelang",
    }
)
"""Packages whose errors that speak of a GPU mean, on a machine without one, that it is missing."""

_OF_GPU = re.compile("cuda|gpu|driver|nvidia", re.IGNORECASE)


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
        method = ", ".join(filter(None, [ON_CPU, described(self._call.left), self._call.note]))
        return Samples((self.wall_us,), (None,), 0, method)

    def energy(self, launch_us: float, loops: int) -> Energy | None:  # noqa: ARG002  (a processor has no such counter)
        """Return None: energy is measured on a GPU only."""
        return None


def lacks_gpu(error: Exception) -> bool:
    """Whether a GPU framework could not be imported, or raised the error and its first line is about a GPU.

    For machines without one: there a framework also raises for shapes that do not fit, and its ``assert_close`` for a
    wrong result, which no GPU would change.
    """
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in FRAMEWORKS:
        return True
    if not _OF_GPU.search(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"):
        return False
    if type(error).__module__.partition(".")[0] in FRAMEWORKS:
        return True
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in FRAMEWORKS
