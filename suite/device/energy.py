"""The energy of a case's launches on a GPU: NVML's counter, loops of launches, in CUDA graphs where they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import cupy
from peakgate.device import nvml
from peakgate.device.interface import Unmeasurable
from peakgate.device.state import captured
from peakgate.measure import energy
from peakgate.measure.energy import Energy
from peakgate.measure.limits import GRAPH_LAUNCHES


class GpuMeter:
    """NVML's energy counter of a GPU, and events on the current stream."""

    def __init__(self, index: int) -> None:
        self._handle = nvml.handle(index)

    def joules(self) -> float | None:
        """The energy since the driver was loaded."""
        return nvml.joules(self._handle)

    def mark(self) -> Callable[[], None]:
        """An event here."""
        event = cupy.cuda.Event(block=True, disable_timing=True)
        event.record()
        wait: Callable[[], None] = event.synchronize
        return wait

    @cached_property
    def idle_w(self) -> float | None:
        """The power of the GPU without work, read once."""
        cupy.cuda.runtime.deviceSynchronize()
        return energy.idle_w(self)


def measured(
    meter: GpuMeter, launch: Callable[[], None], launch_us: float, loops: int, *, by_torch: bool, waits: bool
) -> Energy | None:
    """The energy of a launch; None where the driver counts none. ``waits``: the launch waits for the host."""
    idle = meter.idle_w
    repeated, launches = launch, 1
    if not waits:
        try:
            repeated, launches = captured(launch, GRAPH_LAUNCHES, by_torch=by_torch).replay, GRAPH_LAUNCHES
        except Unmeasurable:  # then the host launches, and may be what the GPU waits for
            repeated, launches = launch, 1
    found: Sequence[energy.Loop | None] = [
        energy.loop(repeated, launch_us, meter, launches=launches) for _ in range(loops)
    ]
    taken = [each for each in found if each is not None]
    return energy.of_loops(taken, idle) if len(taken) == loops else None
