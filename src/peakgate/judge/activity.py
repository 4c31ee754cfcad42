"""Do a second clock's records agree with the events that timed the same launches? Pure.

CUPTI records when each kernel, copy and fill began and ended on the device, on whatever stream, and whatever
Python patched. A sample is between two of our ``stamp`` kernels, and the flush comes first in it: what follows is its
work. Events include what it costs to record them and to start a kernel: some 3 µs on an H200, 7 µs where streams wait
for each other.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

STAMP = "stamp"
"""The kernel that begins a sample, and ends it; another ends the batch."""

LEAST_EXTRA_US, LEAST_EXTRA_SHARE = -1.0, -2e-5
MOST_EXTRA_US, MOST_EXTRA_SHARE = 10.0, 0.02
"""How much longer events may take than the work that was recorded: microseconds, and a share of the time. Two clocks
run apart by some parts in a million: 6 µs in 1.6 s on an H200."""


@dataclass(frozen=True, slots=True)
class Activity:
    """A kernel, a copy or a fill on the device: its name (empty where it is no kernel), times and stream."""

    name: str
    start_ns: int
    end_ns: int
    stream: int


@dataclass(frozen=True, slots=True)
class SecondClock:
    """A batch by the second clock: the median time of its work, and how it contradicts the events, if it does."""

    median_us: float | None
    doubt: str | None


def second_clock(times_us: Sequence[float], activities: Sequence[Activity]) -> SecondClock:
    """Compare the event times of a batch, in order, with everything that ran on the device meanwhile."""
    ordered = sorted(activities, key=lambda each: each.start_ns)
    stamps = [each for each in ordered if each.name == STAMP]
    if len(stamps) != 2 * len(times_us) + 1:
        return SecondClock(
            None, f"CUPTI recorded {len(stamps)} of {2 * len(times_us) + 1} stamps; run again without it"
        )
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
        spans_us.append((last_ns - work[0].start_ns) / 1e3)
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
