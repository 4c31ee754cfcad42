"""A callable whose time is that of the host: what a call takes before it returns, without waiting for the GPU."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from peakgate.callables.gpu_call import GpuCall, copy_all
from peakgate.callables.unchanged import described
from peakgate.device.arrays import room_for
from peakgate.device.interface import SampleChecker, TimedLaunch, Unmeasurable
from peakgate.measure.sampling import Samples, Sampling, SamplingPlan
from peakgate.spec.recorded import Energy

# Time on the GPU of a batch and of all samples of a case: with more a batch has two calls, a case the fewest samples.
BATCH_GPU_US, MOST_GPU_US = 50_000.0, 400_000.0

# A processor may be slower by half for a while, by what else its core runs: calls are timed on this many
# (tests/data/launches/h200.json), and on no further one after so many seconds.
PROCESSORS, LONGEST_S = 5, 2.0


class HostCall(GpuCall):
    """One callable as a case whose time is that of the host: a sample is the time in which one call returns."""

    def __init__(self, *of_call: Any, collects: bool = True, **settings: Any) -> None:
        """As ``GpuCall``; ``collects``: whether garbage is collected during a batch, see ``collects_garbage``."""
        super().__init__(*of_call, **settings)
        self._collects = collects

    def sample(self, plan: SamplingPlan, checker: SampleChecker | None = None) -> Samples:
        """Time calls by the host's clock on several processors in turn; the samples of the fastest one count.

        Calls are timed in batches that begin with an idle GPU. A batch has no more calls than were queued at once in a
        trial, without waiting for a blocked GPU. Its first call is not counted if it has several: the wait for the GPU
        leaves the processor's caches cold. Before each call, untimed, arrays that a call changes are restored. The
        checker gets calls of the fastest processor; before each that it may get, untimed, the contents of arrays
        change as in ``GpuCall``.

        Raises Unmeasurable for a callable that waits for the GPU.
        """
        if self._behaviour.waits_for_host:
            raise Unmeasurable(
                "no launch: a call returns only when the GPU is done (.item(), a copy to the host, a synchronize); "
                "leave that out, or measure it with metric='gpu'"
            )
        call, gpu_us = self._call, max(self._behaviour.event_us, 1.0)
        calls = min(self._behaviour.batch, max(2, int(BATCH_GPU_US / gpu_us)))
        checks = checker or SampleChecker(self._device.draw)
        most = max(plan.min_samples, int(MOST_GPU_US / gpu_us))
        bounded = replace(plan, max_samples=min(plan.max_samples, most))
        rounds: list[tuple[Sampling, dict[int, Callable[[], TimedLaunch]]]] = []
        with _processors() as processors:
            for _ in processors:
                sampling = Sampling(bounded, None, lambda _host_us: checks.owed(gpu_us) if self._outputs else 0)
                self._round(sampling, calls, checks, gpu_us)
                rounds.append((sampling, checks.kept))
                checks.begin()
        changing = self._outputs and (self._words or self._integers)
        notes = [
            f"the host's clock around each call, GPU idle before each batch of {calls}",
            "its first not counted" if calls > 1 else "",
            f"the fastest of {len(rounds)} processors" if len(rounds) > 1 else "",
            f"garbage collection {'enabled' if self._collects and gc.isenabled() else 'disabled'}",
            "changed arrays put back before each call" if call.changed else "",
            "contents of arrays change before each compared call" if changing else "a replayed answer is not excluded",
            described(call.left),
        ]
        method = ", ".join(filter(None, notes))
        every = [(each.samples(method), kept) for each, kept in rounds]
        fastest, checks.kept = min(every, key=lambda each: each[0].median_us)
        with self._result_kept():
            checks.check_kept(gpu_us)
        call.rewind_all()
        return fastest

    def _round(self, sampling: Sampling, calls: int, checks: SampleChecker, gpu_us: float) -> None:
        """Take samples until there are enough, in batches of up to ``calls``."""
        call, stream, outputs = self._call, self._stream, self._outputs or tuple
        for index, wanted in sampling.batches():
            count = min(wanted, max(1, calls - 1))
            chosen = checks.chosen(count, gpu_us, lambda: room_for(outputs())) if self._outputs else {}
            copies = self._copies(chosen)
            stream.synchronize()
            with _collecting(self._collects):
                if calls > 1:
                    call.rewind()
                    call.launch()
                taken = [self._timed(checks, copies.get(at)) for at in range(count)]
            stream.synchronize()
            sampling.add(taken)
            for number, at in enumerate(sorted(chosen), 1):
                where = f"timed call {at + 1} of batch {index + 1}"
                checks.kept[chosen[at]] = partial(self._timed_call, where, self._seeds[:number], copies.pop(at))
            with self._result_kept():
                checks.make_room(gpu_us)

    def energy(self, launch_us: float, loops: int) -> Energy | None:  # noqa: ARG002  (the host's energy is unknown)
        """Return None: only the GPU has an energy counter."""
        return None

    def _timed(self, checks: SampleChecker, copies: list[Any] | None) -> tuple[float, None]:
        """The time of one call; with ``copies`` contents change before it, and its outputs are copied behind it."""
        if copies is None:
            self._call.rewind()
        else:
            self._renew(checks.draw)
        self._call.launch()
        host_us = self._call.host_us
        if copies is not None:
            assert self._outputs is not None, "only a call with outputs is compared"
            copy_all(self._outputs, copies)
        return host_us, None


@contextmanager
def _processors() -> Iterator[Iterator[int]]:
    """Move this thread to each of up to PROCESSORS processors in turn, for LONGEST_S; then back to all of its own."""
    own = sorted(os.sched_getaffinity(0))
    end = time.monotonic() + LONGEST_S

    def each() -> Iterator[int]:
        for processor in own[:: max(1, len(own) // PROCESSORS)][:PROCESSORS]:
            os.sched_setaffinity(0, {processor})
            yield processor
            if time.monotonic() > end:
                return

    try:
        yield each()
    finally:
        os.sched_setaffinity(0, own)


@contextmanager
def _collecting(collects: bool) -> Iterator[None]:
    """Collect garbage in the block as it is, or not at all."""
    enabled = gc.isenabled()
    if not collects:
        gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
