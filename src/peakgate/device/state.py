"""Launches in the state that a case declares (cold, warm, graph), and loops of launches for the energy.

Energy loops use captured CUDA graphs if possible.
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
    """A CUDA graph that ``replay`` launches on the current stream, and its number of nodes, None if unknown."""

    replay: Callable[[], None]
    nodes: int | None


def captured(launch: Callable[[], None], count: int, *, by_torch: bool = False) -> CapturedGraph:
    """Capture ``count`` launches as one CUDA graph; raises Unmeasurable if they cannot be captured.

    ``by_torch``: PyTorch captures, since its memory must come from a pool of the graph.
    """
    cupy.cuda.runtime.deviceSynchronize()
    try:
        return _by_torch(launch, count) if by_torch else _by_cupy(launch, count)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise Unmeasurable(f"state graph not shown: it cannot be captured as a CUDA graph: {reason}") from error


def _by_cupy(launch: Callable[[], None], count: int) -> CapturedGraph:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        launch()  # so that the memory pool of this stream has the memory it needs
        stream.synchronize()
        stream.begin_capture()
        try:
            for _ in range(count):
                launch()
        finally:
            graph = stream.end_capture()

    def replay(kept: object = stream) -> None:  # noqa: ARG001  (the graph uses the stream's memory)
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
    """Samples a case in its declared state, and measures whether that state was reached.

    A sample of a cold case is one launch after a flush. The stream is ``blocked`` while a batch is queued, unless
    launches wait for the host.
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
        """The function that a sample calls: the launch itself, or the replay of a graph of it."""
        if not self.captures:
            return launch
        graph = captured(launch, self._launches, by_torch=self._by_torch)
        self._nodes = graph.nodes
        return graph.replay

    def begin(self, launch: Callable[[], None], count: int, change: Callable[[], None] | None = None) -> None:
        """For a repeated launch, take samples right after a flush for comparison."""
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
        """One batch of samples, each with changed contents; an untimed launch precedes a repeated one."""
        if not self._case.repeated:
            return self._stream.batch(launches, blocked=self._blocked, before=change, after=after)

        def prime() -> None:
            launches[0]()
            if change is not None:
                change()

        taken = self._stream.batch(launches, blocked=self._blocked, after=after, prime=prime)
        return [(time_us / self._launches, clock_mhz) for time_us, clock_mhz in taken]

    def method(self, cold: str) -> str:
        """The sampling method for the run file; ``cold`` is that of cold samples."""
        return ", ".join([cold, *([_METHODS[self._case.state]] if self._case.repeated else [])])

    def shown(self, samples: Samples, l2_bytes: int, memory_gbs: float | None) -> Samples:
        """The samples with the reading of their state, and a doubt if they were not in the declared state."""
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
    """The bytes within (start, end) address spans; overlapping parts count once."""
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
        """The counter's value: the energy since the driver was loaded."""
        return nvml.joules(self._handle)

    def mark(self) -> Callable[[], None]:
        """Record an event in the current stream; the returned function waits for it."""
        event = cupy.cuda.Event(block=True, disable_timing=True)
        event.record()
        wait: Callable[[], None] = event.synchronize
        return wait

    @cached_property
    def idle_w(self) -> float | None:
        """The power of the idle GPU in W, measured once."""
        cupy.cuda.runtime.deviceSynchronize()
        return energy.idle_w(self)


def measured_energy(
    meter: GpuMeter, launch: Callable[[], None], launch_us: float, loops: int, *, by_torch: bool, waits: bool
) -> Energy | None:
    """The energy of a launch; None without an energy counter. ``waits``: the launch waits for the host."""
    idle = meter.idle_w
    repeated, launches = launch, 1
    if not waits:
        with suppress(Unmeasurable):  # otherwise the host launches, and the GPU may wait for it
            repeated, launches = captured(launch, GRAPH_LAUNCHES, by_torch=by_torch).replay, GRAPH_LAUNCHES
    found: Sequence[energy.Loop | None] = [
        energy.loop(repeated, launch_us, meter, launches=launches) for _ in range(loops)
    ]
    taken = [each for each in found if each is not None]
    return energy.of_loops(taken, idle) if len(taken) == loops else None
