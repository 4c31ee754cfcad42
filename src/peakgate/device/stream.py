"""Batches of event-timed samples on a CUDA stream: block it, queue, release, read.

The second clock is CUPTI's activity records, if the package cupti-python is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt

from peakgate.base.ranks import ALONE, Ranks
from peakgate.device import driver
from peakgate.judge.activity import STAMP, Activity, second_clock
from peakgate.measure.sampling import Batch, Samples, slowest

Stamp = npt.NDArray[np.uint64]

# Longest time for which the blocking kernel waits for the host.
BLOCKED_LIMIT_NS = 5_000_000_000

# The flush writes this many times the size of the L2, so that no data of a launch remains for the next sample.
FLUSH_FACTOR = 4

# Samples that the second clock times too: few, since Python reads each record, and an odd number for their median. Only
# one for longer launches than this.
SECOND_CLOCK_SAMPLES, SECOND_CLOCK_US = 3, 100.0

# Dependent multiply-adds of the control kernel: some 3.5 µs on an H200.
_CONTROL_LINKS = 240

# Threads per block of the blocking kernel when it fills the GPU: a divisor of the threads of every SM.
_FILLING_THREADS = 512


@dataclass(frozen=True, slots=True)
class StreamHandle:
    """A stream handle with the ``__cuda_stream__`` protocol."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of launches queued behind a kernel that fills the GPU; times are per launch.

    ``waited``: a launch returned only after that kernel had reached its limit. ``event_us`` is the time on the stream,
    ``tail_us`` the time for which the device stayed busy after the stream was done, measured by the host.
    """

    waited: bool
    event_us: float
    tail_us: float


class _Place:
    """One GPU's part of a SampleStream: the current stream of the current GPU, its kernels, flush buffer and events."""

    def __init__(self, l2_bytes: int, largest_batch: int) -> None:
        self.gpu = cupy.cuda.Device()
        self.stream = cupy.cuda.get_current_stream()
        module = cupy.RawModule(code=Path(__file__).with_name("timing.cu").read_text(encoding="utf-8"))
        self._block, self._stamp, self.control = (module.get_function(name) for name in ("hold", "stamp", "control"))
        self._flush = cupy.empty(max(FLUSH_FACTOR * l2_bytes, 1 << 26), cupy.uint8)
        self.stamps = cupy.empty((largest_batch + 1, 3), cupy.uint64)
        attributes = self.gpu.attributes
        per_multiprocessor = attributes["MaxThreadsPerMultiProcessor"] // _FILLING_THREADS
        self.filling: int = attributes["MultiProcessorCount"] * per_multiprocessor
        self.reached = cupy.cuda.Event(disable_timing=True)
        self.starts = [cupy.cuda.Event() for _ in range(largest_batch)]
        self.stops = [cupy.cuda.Event() for _ in range(largest_batch)]

    def block(self, flag_address: int, limit_ns: int, *, fill: bool = False) -> None:
        """Queue the blocking kernel, which runs until the flag is set or the limit; with ``fill`` it fills the GPU."""
        grid, threads = (self.filling, _FILLING_THREADS) if fill else (1, 1)
        self._block((grid,), (threads,), (np.uint64(flag_address), np.uint64(limit_ns)))

    def stamp(self, index: int) -> None:
        """Queue a stamp of the clock."""
        self._stamp((1,), (1,), (self.stamps[index],))

    def flush(self) -> None:
        """Queue a flush of the L2."""
        self._flush.data.memset_async(0, self._flush.nbytes, self.stream)

    def taken(self, count: int) -> Batch:
        """The times and clocks of a finished batch."""
        stamps = cupy.asnumpy(self.stamps[: count + 1])
        return [
            (cupy.cuda.get_elapsed_time(start, stop) * 1e3, sm_clock_mhz(stamps[index], stamps[index + 1]))
            for index, (start, stop) in enumerate(zip(self.starts[:count], self.stops[:count], strict=True))
        ]


class SampleStream:
    """Queues batches of samples behind a blocking kernel and reads their times and SM clocks.

    With several GPUs each has its own blocking kernel: a sample begins on all when the last is ready, its time is that
    of the slowest, and none continues before all are done. ``launch`` queues on the current stream of each.

    Of several ``ranks`` each has a GPU: their batches begin at the same moment, without a blocking kernel their samples
    do. The time of a sample is that of the slowest.
    """

    def __init__(self, l2_bytes: int, largest_batch: int, gpus: Sequence[int] = (), ranks: Ranks = ALONE) -> None:
        """``gpus`` are CUDA indices, the current one first; empty for the current GPU only."""
        self.largest_batch, self._ranks = largest_batch, ranks
        self._flag_memory = cupy.cuda.alloc_pinned_memory(64)
        self._flag = np.frombuffer(self._flag_memory, np.int32, 1)
        self._places = []
        for gpu in gpus or (cupy.cuda.Device().id,):
            with cupy.cuda.Device(gpu):
                self._places.append(_Place(l2_bytes, largest_batch))

    def method(self, *, blocked: bool, moved: bool) -> str:
        """The sampling method, for the run file."""
        several = f", {len(self._places)} GPUs started together, timed as the slowest" if len(self._places) > 1 else ""
        if self._ranks.size > 1:
            several = f", {self._ranks.size} processes with a GPU each, started together, timed as the slowest"
        return (
            "CUDA events, L2 flushed before each sample"
            + (", stream blocked until the batch is queued" if blocked else "")
            + (", arrays at new random offsets for each batch" if moved else "")
            + several
        )

    @property
    def _several(self) -> bool:
        """Whether a sample is that of several GPUs."""
        return len(self._places) > 1 or self._ranks.size > 1

    def synchronize(self) -> None:
        """Synchronize the GPUs, on all of their streams."""
        for _ in self._each():
            cupy.cuda.runtime.deviceSynchronize()

    def _each(self) -> Iterator[_Place]:
        """Yield each GPU's part with its GPU and stream made current; a single one is current already."""
        if len(self._places) == 1:
            yield self._places[0]
            return
        for place in self._places:
            with place.gpu, place.stream:
                yield place

    def _meet(self) -> None:
        """Make every stream wait for all others (a barrier)."""
        if len(self._places) == 1:
            return
        for place in self._each():
            place.reached.record(place.stream)
        for place in self._each():
            for other in self._places:
                if other is not place:
                    place.stream.wait_event(other.reached)

    def _flush_all(self, index: int) -> None:
        """Queue a stamp and a flush on each GPU."""
        for place in self._each():
            place.stamp(index)
            place.flush()

    def _start(self, index: int) -> None:
        """Start a sample on all GPUs when the last of them is ready."""
        self._meet()
        for place in self._each():
            place.starts[index].record(place.stream)

    def _stop(self, index: int) -> None:
        """End a sample; no GPU continues before all have finished it."""
        for place in self._each():
            place.stops[index].record(place.stream)
        self._meet()

    def batch(
        self,
        launches: Sequence[Callable[[], None]],
        *,
        blocked: bool,
        before: Callable[[], None] | None = None,
        after: Mapping[int, Callable[[], None]] | None = None,
        prime: Callable[[], None] | None = None,
    ) -> Batch:
        """Time launches, at most ``largest_batch``: (µs, SM clock in MHz or None if not readable) of each.

        ``blocked`` must be False for a launch that waits for the host, which would deadlock. For each launch,
        ``before`` is queued before the flush, ``prime`` between flush and launch, and ``after[number]``, numbered from
        0, right after it; none of them is timed.
        """
        self._ranks.all(f"a batch of {len(launches)} calls")  # before it is queued: no rank has failed
        for place in self._each():
            place.stream.synchronize()
            driver.reset_persisting_l2()
        self._flag[0] = 0
        if blocked:
            for place in self._each():
                place.block(self._flag_memory.ptr, BLOCKED_LIMIT_NS)
        try:
            for index, launch in enumerate(launches):
                if before is not None:
                    before()
                self._flush_all(index)
                if prime is not None:
                    prime()
                if not blocked:
                    self._ranks.start("a sample")
                self._start(index)
                launch()
                self._stop(index)
                if after and index in after:
                    after[index]()
            for place in self._each():
                place.stamp(len(launches))
            if blocked:
                self._ranks.start("a batch")
        finally:
            self._flag[0] = 1
        for place in self._each():
            place.stream.synchronize()
        return slowest(self._ranks.all("its times", slowest([place.taken(len(launches)) for place in self._each()])))

    def control(self) -> Batch:
        """Time a batch of the control kernel, whose time is the same in every process; on the first of several GPUs."""
        place = self._places[0]

        def launch() -> None:
            place.control((1,), (32,), (np.int32(_CONTROL_LINKS), place.stamps))

        launch()  # loads the code: loading may wait for a blocked stream
        return self.batch([launch] * self.largest_batch, blocked=True)

    def with_second_clock(
        self, samples: Samples, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> Samples:
        """The samples with the second clock's reading of one further batch.

        Unchanged without CUPTI or with several GPUs. The batch has at most ``count`` launches, and at most
        SECOND_CLOCK_SAMPLES.
        """
        if self._several:
            return samples
        long = samples.times_us and samples.median_us > SECOND_CLOCK_US
        count = 1 if long else min(count, SECOND_CLOCK_SAMPLES)

        def batch() -> list[float]:
            end_of_sample = partial(self._places[0].stamp, count)
            after = dict.fromkeys(range(count), end_of_sample)
            return [time_us for time_us, _ in self.batch([launch] * count, blocked=True, before=before, after=after)]

        found = recorded(batch)
        if found is None:
            return samples
        first, last = (int(self._places[0].stamps[at, 1]) for at in (0, count))
        other = second_clock(*found, last - first)
        return replace(samples, activity_us=other.median_us, doubt=other.doubt)

    def trial(self, launch: Callable[[], None], count: int, *, limit_ns: int | None) -> Trial:
        """Queue ``count`` launches behind a kernel that fills the GPU until they are queued, at most for ``limit_ns``.

        While that kernel runs no other can start on any stream, so work on other streams shows up after it. With a
        limit of None nothing blocks the launches.
        """
        self._ranks.all(f"a trial of {count} calls")  # as for a batch
        self.synchronize()
        self._flag[0] = 0
        for place in self._each():
            if limit_ns is not None:
                place.block(self._flag_memory.ptr, limit_ns, fill=True)
        for place in self._each():
            place.reached.record(place.stream)
            place.starts[0].record(place.stream)
        try:
            for _ in range(count):
                launch()
            waited = limit_ns is not None and any(place.reached.done for place in self._places)
            for place in self._each():
                place.stops[0].record(place.stream)
            self._ranks.start("a trial")
        finally:
            self._flag[0] = 1
        for place in self._places:
            place.stops[0].synchronize()
        finished = time.perf_counter()
        self.synchronize()
        tail_us = (time.perf_counter() - finished) * 1e6
        event_ms = max(cupy.cuda.get_elapsed_time(place.starts[0], place.stops[0]) for place in self._places)
        of_each = self._ranks.all("its result", (waited, event_ms * 1e3 / count, tail_us / count))
        return Trial(*map(max, zip(*of_each, strict=True)))

    def leaves_work(self, launch: Callable[[], None], count: int) -> bool | None:
        """Whether CUPTI records work that ends after the stream is done.

        None if unknown: without CUPTI, and with several GPUs, whose streams end at different times.
        """
        if self._several:
            return None

        def launches() -> list[float]:
            for _ in range(count):
                launch()
            self._places[0].stamp(0)
            self.synchronize()
            return []

        found = recorded(launches)
        done_ns = [each.start_ns for each in found[1] if each.name == STAMP] if found else []
        if found is None or not done_ns:
            return None
        return any(each.end_ns > done_ns[-1] for each in found[1] if each.name != STAMP)

    def clock_mhz(self) -> float | None:
        """The SM clock during one flush, the lowest of several GPUs; None if it could not be read."""
        self._flush_all(0)
        for place in self._each():
            place.stamp(1)
        stamps = [cupy.asnumpy(place.stamps[:2]) for place in self._each()]
        return min((sm_clock_mhz(*each) for each in stamps), key=lambda clock: clock or 0.0)


def sm_clock_mhz(before: Stamp, after: Stamp) -> float | None:
    """The clock between two stamps (cycles, nanoseconds, SM).

    None if they are from different SMs, whose cycle counters are not comparable, or no time passed.
    """
    nanoseconds = int(after[1]) - int(before[1])
    if before[2] != after[2] or nanoseconds <= 0:
        return None
    return (int(after[0]) - int(before[0])) / nanoseconds * 1e3


_BUFFER_BYTES = 1 << 20


@cache
def _installed() -> Any:
    """The CUPTI bindings; None if not installed."""
    if importlib.util.find_spec("cupti") is None:
        return None
    try:
        return importlib.import_module("cupti.cupti")
    except Exception:  # its library is missing
        return None


def _cupti() -> Any:
    """CUPTI with this module's callbacks, which a framework's profiler may have replaced; None if it refuses them."""
    cupti = _installed()
    try:
        if cupti is not None:
            cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), _completed.extend)
    except Exception:  # another tool uses CUPTI: there is no second clock
        return None
    return cupti


_completed: list[Any] = []

_SIZES = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers_per_thread", "static_shared_memory", "dynamic_shared_memory", "bytes"),
)


def recorded(run: Callable[[], Sequence[float]]) -> tuple[Sequence[float], list[Activity]] | None:
    """The result of a batch and CUPTI's records of the work during it; None without cupti-python."""
    cupti = _cupti()
    if cupti is None:
        return None
    kinds = (cupti.ActivityKind.CONCURRENT_KERNEL, cupti.ActivityKind.MEMCPY, cupti.ActivityKind.MEMSET)
    _completed.clear()
    try:
        for kind in kinds:
            cupti.activity_enable(kind)
        times_us = run()
        cupti.activity_flush_all(1)
    finally:
        for kind in kinds:
            cupti.activity_disable(kind)
    # A framework's profiler may have enabled other kinds, and these a second time, for the rest of the process.
    work = (each for each in _completed if each.kind in kinds)
    found = (
        Activity(
            getattr(each, "name", None) or "",
            each.start,
            each.end,
            each.stream_id,
            tuple(int(getattr(each, name)) for name in _SIZES if hasattr(each, name)),
        )
        for each in work
    )
    return times_us, list(dict.fromkeys(found))
