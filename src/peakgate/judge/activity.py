"""Compares the CUDA events of a batch with CUPTI's records of the same launches, the second clock. No device.

CUPTI records the begin and end of each kernel, copy and fill on the device, on every stream, whatever Python code has
patched. A sample lies between two ``stamp`` kernels and begins with the flush; the rest is its work. Events also
include their own cost and that of starting a kernel: some 3 µs on an H200, 7 µs if streams wait for each other.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

STAMP = "stamp"
"""The kernel that begins and ends a sample; another one ends the batch."""

LEAST_EXTRA_US, LEAST_EXTRA_SHARE = -1.0, -2e-5
MOST_EXTRA_US, MOST_EXTRA_SHARE = 10.0, 0.02
"""Allowed difference between event time and recorded work: microseconds plus a share of the time. The clocks drift by
some parts per million: 6 µs in 1.6 s on an H200."""

SAME_UNIT = 0.05
"""The GPU's timer advances in steps of a microsecond, of batches that take some hundred."""


@dataclass(frozen=True, slots=True)
class Activity:
    """A kernel, copy or fill on the device: its name (empty if not a kernel), times and stream.

    ``work`` is its size: grid, block, registers and shared memory, or bytes.
    """

    name: str
    start_ns: int
    end_ns: int
    stream: int
    work: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SecondClock:
    """A batch by the second clock: the median time of its work, and how it contradicts the events, or None."""

    median_us: float | None
    doubt: str | None


def second_clock(times_us: Sequence[float], activities: Sequence[Activity], took_ns: float) -> SecondClock:
    """Compare the event times of a batch, in order, with all activities on the device meanwhile.

    ``took_ns`` is the time from the first stamp to the last by the GPU's own timer. It gives the unit of the records: a
    profiler may have set another one for the rest of the process, as PyTorch's does, whose unit is a processor's cycle.
    """
    ordered = sorted(activities, key=lambda each: each.start_ns)
    stamps = [each for each in ordered if each.name == STAMP]
    if len(stamps) != 2 * len(times_us) + 1:
        return SecondClock(
            None, f"CUPTI recorded {len(stamps)} of {2 * len(times_us) + 1} stamps; run again without it"
        )
    unit = (stamps[-1].start_ns - stamps[0].start_ns) / took_ns
    unit = unit if abs(unit - 1) > SAME_UNIT else 1.0
    stream, spans_us = stamps[0].stream, []
    for begin, end in zip(stamps[::2], stamps[1::2], strict=False):
        here = [each for each in ordered if begin.end_ns <= each.start_ns < end.start_ns]
        flush = next((each for each in here if each.stream == stream), None)
        work = [each for each in here if each is not flush]
        if not work:
            return SecondClock(
                None, "CUPTI recorded no work on the device in a sample: it was done elsewhere, or not at all"
            )
        last_ns = max(each.end_ns for each in work)
        if last_ns > end.start_ns:
            return SecondClock(None, "works on other streams: CUPTI recorded work that went on after its sample")
        spans_us.append((last_ns - work[0].start_ns) / unit / 1e3)
    between = zip(stamps[1::2], stamps[2::2], strict=True)
    if any(
        first.end_ns <= each.start_ns < next_.start_ns and each.stream != stream
        for first, next_ in between
        for each in ordered
    ):
        return SecondClock(None, "works on other streams: CUPTI recorded work that began between samples")
    extra_us = statistics.median(time - span for time, span in zip(times_us, spans_us, strict=True))
    found, events = statistics.median(spans_us), statistics.median(times_us)
    least_us = LEAST_EXTRA_US + LEAST_EXTRA_SHARE * found
    if not least_us <= extra_us <= MOST_EXTRA_US + MOST_EXTRA_SHARE * found:
        return SecondClock(
            found, f"the clocks differ: events {events:.2f} µs, CUPTI {found:.2f} µs for the same launches"
        )
    return SecondClock(found, None)
