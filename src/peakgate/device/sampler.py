"""Times the launches of one case on the GPU in batches until its sampling plan is satisfied."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import cupy

from peakgate.device.arrays import APART_BYTES, ArraySet, refuse_damage
from peakgate.device.interface import SampleChecker, TimedLaunch
from peakgate.device.state import DeclaredState
from peakgate.device.stream import SampleStream
from peakgate.measure.refill import replayed
from peakgate.measure.sampling import Samples, Sampling, SamplingPlan, let_clock_recover

if TYPE_CHECKING:  # it imports this module
    from peakgate.device.launcher import GpuLaunchable

# Inputs are drawn completely for each launch if the kernel takes at least this many times as long as writing them. A
# kernel that looks up cached results reads its input, the cached input and the result, and writes the result: a faster
# kernel gains nothing by that.
WHOLE_SHARE = 4

# Share of the free memory for copies of large outputs that are compared after a batch.
COPIED_SHARE = 0.25

# For a GPU whose peak is unknown.
_LEAST_PEAK_GBS = 100.0


def sample(launchable: GpuLaunchable, stream: SampleStream, plan: SamplingPlan, checker: SampleChecker) -> Samples:
    """Time launches, each with new buffer contents; the checker gets the launches that it requests.

    If the checker asks for it, a batch with the second clock follows.
    """
    case, device, arrays = launchable.case, launchable.device, launchable.arrays
    memory_gbs = device.peaks.memory_gbs if device.peaks else None
    blocked = not launchable.waits_for_host
    state = DeclaredState(case, stream, blocked=blocked, footprint_bytes=case.buffer_bytes)
    sets = [ArraySet(arrays.prepared, arrays.guards, arrays.contents(checker.draw), launchable.launch)]
    state.begin(launchable.launch, plan.batch)
    power = launchable.power_meter
    sampling = Sampling(plan, device.facts.sm_clock_max_mhz, checker.owed)
    launch_us: float | None = None
    for index, count in sampling.batches():
        # Place the arrays and draw their contents: for small ones a set per launch, and one for the warm-up.
        if launchable.movable:
            sets = arrays.moved(1 if case.repeated else count + 1, checker.draw, launchable.bind) or sets
            for each in sets:
                each.contents.begin(each.arrays)
        # With one set for all launches its contents change before each.
        change = partial(arrays.change, sets[0].contents) if launchable.movable and len(sets) == 1 else None
        *timed, warm = sets if len(sets) > 1 else sets * (count + 1)

        # Warm up: load the code; at new offsets fill the TLBs.
        warmups = max(plan.warmup, not launchable.loaded) if index == 0 else int(warm.arrays is not arrays.prepared)
        for _ in range(warmups):
            if change:
                change()
            warm.launch()

        # Choose the launches to compare, and allocate memory for their outputs, which the launches cannot see.
        chosen = _chosen(launchable, checker, count, launch_us) if launchable.movable else []
        copies = {at: list(map(cupy.empty_like, arrays.outputs(timed[at].arrays))) for at in chosen}

        # Queue and time. The outputs of a chosen launch are copied right after it.
        taken = state.batch(
            [state.ready(sets[0].launch)] * count if case.repeated else [each.launch for each in timed],
            change=change,
            after={at: partial(arrays.copy_outputs, timed[at].arrays, copies[at]) for at in chosen},
        )
        launch_us = min(time_us for time_us, _ in taken)
        peak_bytes = launch_us * 1e3 * (memory_gbs or _LEAST_PEAK_GBS)
        arrays.whole[0] &= sets[0].contents.input_bytes * WHOLE_SHARE <= peak_bytes

        # Compare. No variable keeps a compared launch: the next comparison or batch needs the memory.
        for each in sets:
            refuse_damage(each.guards)
        for at in chosen:
            changes = warmups + at if change else -1
            checker.check(
                TimedLaunch(
                    case,
                    f"timed launch {at + 1} of batch {index + 1}",
                    [*timed[at].contents.given(changes), *device.data.constants(case)],
                    copies.pop(at),
                )
            )

        # Keep undisturbed samples.
        if not sampling.add(taken, power() if power else None):
            let_clock_recover()

    controls = [stream.control() for _ in range(sampling.control_batches if blocked and not state.captures else 0)]
    method = stream.method(blocked=blocked, moved=sets[0].arrays is not arrays.prepared)
    method += ", textures and surfaces where they are" if arrays.texels else ""
    method += f", {replayed(sets[0].contents)}" if launchable.movable else ""
    samples = sampling.samples(state.method(method), controls)
    if blocked and checker.second_clock and not case.repeated:
        samples = stream.with_second_clock(samples, sets[0].launch, plan.batch)
    return state.shown(samples, device.facts.l2_bytes, memory_gbs)


def _chosen(launchable: GpuLaunchable, checker: SampleChecker, count: int, launch_us: float | None) -> list[int]:
    """The launches of a batch to compare: as many as the checker requests, if their copies fit in memory."""
    wanted = checker.wanted(count, launch_us)
    copied_bytes = sum(output.nbytes for output in launchable.outputs)
    room = cupy.cuda.runtime.memGetInfo()[0] if wanted > 1 and copied_bytes > APART_BYTES else math.inf
    places = list(range(count))
    fitting = min(wanted, max(1, int(min(COPIED_SHARE * room / max(copied_bytes, 1), count))))
    return [places.pop(checker.draw(len(places))) for _ in range(fitting if wanted else 0)]
