"""Times the launches of one case on the GPU in batches until its sampling plan is satisfied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import cupy

from peakgate.device.arrays import APART_BYTES, ArraySet, refuse_damage
from peakgate.device.interface import SampleChecker, TimedLaunch
from peakgate.device.state import DeclaredState
from peakgate.device.stream import SampleStream
from peakgate.measure.refill import Contents, replayed
from peakgate.measure.sampling import Samples, Sampling, SamplingPlan, let_clock_recover
from peakgate.spec.case import Array

if TYPE_CHECKING:  # it imports this module
    from peakgate.device.launcher import GpuLaunchable

# Inputs are drawn completely for each launch if the kernel takes at least this many times as long as writing them. A
# kernel that looks up cached results reads its input, the cached input and the result, and writes the result: a faster
# kernel gains nothing by that.
WHOLE_SHARE = 4

# Share of the free memory for copies of large outputs that are compared.
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
            moved = arrays.moved(1 if case.repeated else count + 1, checker.draw, launchable.bind)
            sets = moved or [replace(sets[0], contents=arrays.contents(checker.draw))]
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
        chosen = checker.chosen(count, launch_us, room_for(launchable.outputs)) if launchable.movable else {}
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

        # Keep the copies until sampling ends, with what draws the inputs again.
        for each in sets:
            refuse_damage(each.guards)
        for at, place in chosen.items():
            changes = warmups + at if change else -1
            where = f"timed launch {at + 1} of batch {index + 1}"
            checker.kept[place] = partial(_timed_launch, launchable, timed[at].contents, changes, copies.pop(at), where)
        checker.make_room(launch_us)

        # Keep undisturbed samples.
        if not sampling.add(taken, power() if power else None):
            let_clock_recover()

    checker.check_kept(launch_us or 0.0)
    controls = [stream.control() for _ in range(sampling.control_batches if blocked and not state.captures else 0)]
    method = stream.method(blocked=blocked, moved=sets[0].arrays is not arrays.prepared)
    method += ", textures and surfaces where they are" if arrays.texels else ""
    method += f", {replayed(sets[0].contents)}" if launchable.movable else ""
    samples = sampling.samples(state.method(method), controls)
    if blocked and checker.second_clock and not case.repeated:
        samples = stream.with_second_clock(samples, sets[0].launch, plan.batch)
    return state.shown(samples, device.facts.l2_bytes, memory_gbs)


def _timed_launch(
    launchable: GpuLaunchable, contents: Contents, changes: int, outputs: Sequence[Array], where: str
) -> TimedLaunch:
    """A launch that was timed, with the inputs that it had drawn again."""
    case = launchable.case
    return TimedLaunch(case, where, [*contents.given(changes), *launchable.device.data.constants(case)], outputs)


def room_for(outputs: Iterable[Any]) -> int | None:
    """How many copies of a launch's outputs fit in memory, at least one; None if they are small."""
    copied_bytes = sum(output.nbytes for output in outputs if hasattr(output, "nbytes"))
    if copied_bytes <= APART_BYTES:
        return None
    return max(1, int(COPIED_SHARE * cupy.cuda.runtime.memGetInfo()[0] / copied_bytes))
