"""Launches as their case asks for them: in the state that it declares, or in loops whose energy is counted.

Repeated in a warm L2, or captured as a CUDA graph; the loops of energy are in graphs too, where they can be.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import cupy

from peakgate.device import driver, nvml
from peakgate.device.interface import Unmeasurable
from peakgate.device.stream import SampleStream, StreamHandle
from peakgate.judge.state import StateReading, doubt_of
from peakgate.measure import energy
from peakgate.measure.limits import GRAPH_LAUNCHES
from peakgate.measure.sampling import Batch, Samples
from peakgate.spec.case import Case
from peakgate.spec.recorded import Energy

_METHODS = {
    "warm": "each sample right behind a launch like it",
    "graph": f"a CUDA graph of {GRAPH_LAUNCHES} launches behind one like it, per launch",
}


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """A CUDA graph that can be launched on the current stream, and how many nodes it has; None if that is unknown."""

    replay: Callable[[], None]
    nodes: int | None


def captured(launch: Callable[[], None], count: int, *, by_torch: bool = False) -> CapturedGraph:
    """So many launches as one CUDA graph; Unmeasurable for what cannot be captured, or launches elsewhere.

    ``by_torch``: PyTorch captures, since its memory has to come from a pool of the graph.
    """
    cupy.cuda.runtime.deviceSynchronize()
    try:
        return _by_torch(launch, count) if by_torch else _by_cupy(launch, count)
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise Unmeasurable(f"state graph not shown: it cannot be captured as a CUDA graph: {said}") from error


def _by_cupy(launch: Callable[[], None], count: int) -> CapturedGraph:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        launch()  # memory that it takes from the pool of this stream is there then
        stream.synchronize()
        stream.begin_capture()
        try:
            for _ in range(count):
                launch()
        finally:
            graph = stream.end_capture()

    def replay(kept: object = stream) -> None:  # noqa: ARG001  (the stream's memory is the graph's)
        graph.launch(cupy.cuda.get_current_stream())

    return CapturedGraph(replay, driver.graph_nodes(int(graph.graph)))


def _by_torch(launch: Callable[[], None], count: int) -> CapturedGraph:
    torch: Any = sys.modules["torch"]
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph), cupy.cuda.Stream.from_external(StreamHandle(torch.cuda.current_stream().cuda_stream)):
        for _ in range(count):
            launch()
    return CapturedGraph(graph.replay, driver.graph_nodes(int(graph.raw_cuda_graph())))


class DeclaredState:
    """A case's state: what a sample on a stream queues and times, and the reading that shows the state.

    Of a cold case a sample is one launch behind a flush. The stream is ``blocked`` while a batch is queued, unless a
    launch waits for the host.
    """

    def __init__(
        self, case: Case, stream: SampleStream, *, blocked: bool, footprint_bytes: int, by_torch: bool = False
    ) -> None:
        self._case, self._stream, self._blocked = case, stream, blocked
        self._by_torch, self._footprint_bytes = by_torch, footprint_bytes
        self._launches = GRAPH_LAUNCHES if case.state == "graph" else 1
        self._nodes: int | None = None
        self._first_us: float | None = None

    @property
    def captures(self) -> bool:
        """Whether a sample is a graph."""
        return self._case.state == "graph"

    def ready(self, launch: Callable[[], None]) -> Callable[[], None]:
        """What a sample queues of a launch: itself, or a graph of it."""
        if not self.captures:
            return launch
        graph = captured(launch, self._launches, by_torch=self._by_torch)
        self._nodes = graph.nodes
        return graph.replay

    def begin(self, launch: Callable[[], None], count: int, change: Callable[[], None] | None = None) -> None:
        """Time samples right behind a flush, to compare those of a repeated launch with."""
        if self._case.repeated:
            taken = self._stream.batch([self.ready(launch)] * count, blocked=self._blocked, before=change)
            self._first_us = statistics.median(time_us for time_us, _ in taken) / self._launches

    def batch(
        self,
        launches: Sequence[Callable[[], None]],
        *,
        change: Callable[[], None] | None,
        after: Mapping[int, Callable[[], None]] | None = None,
    ) -> Batch:
        """One batch of samples, each on changed contents; of a repeated launch behind an untimed one."""
        if not self._case.repeated:
            return self._stream.batch(launches, blocked=self._blocked, before=change, after=after)

        def prime() -> None:
            launches[0]()
            if change is not None:
                change()

        taken = self._stream.batch(launches, blocked=self._blocked, after=after, prime=prime)
        return [(time_us / self._launches, clock_mhz) for time_us, clock_mhz in taken]

    def method(self, cold: str) -> str:
        """How samples were taken, for the run file; ``cold`` is that of cold ones."""
        return ", ".join([cold, *([_METHODS[self._case.state]] if self._case.repeated else [])])

    def shown(self, samples: Samples, l2_bytes: int, memory_gbs: float | None) -> Samples:
        """The samples with what was read of their state, and the doubt where it does not show."""
        samples = replace(samples, first_us=self._first_us, footprint_bytes=self._footprint_bytes)
        if self._first_us is None or not samples.times_us:
            return samples
        seen = StateReading(
            self._first_us,
            samples.median_us,
            self._footprint_bytes,
            l2_bytes,
            memory_gbs,
            self._launches,
            self._nodes,
        )
        return replace(samples, doubt=samples.doubt or doubt_of(self._case.state, seen))


def footprint_bytes(spans: Sequence[tuple[int, int]]) -> int:
    """The bytes between the addresses at which arrays begin and end; what several share counts once."""
    covered = last = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, last))
        last = max(last, end)
    return covered


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


def measured_energy(
    meter: GpuMeter, launch: Callable[[], None], launch_us: float, loops: int, *, by_torch: bool, waits: bool
) -> Energy | None:
    """The energy of a launch; None where the driver counts none. ``waits``: the launch waits for the host."""
    idle = meter.idle_w
    repeated, launches = launch, 1
    if not waits:
        with suppress(Unmeasurable):  # then the host launches, and may be what the GPU waits for
            repeated, launches = captured(launch, GRAPH_LAUNCHES, by_torch=by_torch).replay, GRAPH_LAUNCHES
    found: Sequence[energy.Loop | None] = [
        energy.loop(repeated, launch_us, meter, launches=launches) for _ in range(loops)
    ]
    taken = [each for each in found if each is not None]
    return energy.of_loops(taken, idle) if len(taken) == loops else None
