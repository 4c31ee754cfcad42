"""One case on the GPU: loads its machine code, binds it to arrays, launches it, and times it in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import cupy

from peakgate.compile.cubin import Cubin
from peakgate.device import driver, operations, tensor_maps
from peakgate.device.arrays import ArraySet, CaseArrays, LaunchFunction, refuse_damage, room_for
from peakgate.device.elements import first_difference
from peakgate.device.interface import DeviceLost, SampleChecker, TimedLaunch, refuse_changed_inputs
from peakgate.device.state import DeclaredState, measured_energy
from peakgate.device.stream import SampleStream
from peakgate.judge.occupancy import Resources
from peakgate.measure.refill import Contents, replayed
from peakgate.measure.sampling import Samples, Sampling, SamplingPlan, let_clock_recover
from peakgate.spec.arguments import TensorMapArgument, value_of
from peakgate.spec.case import Array, Buffer
from peakgate.spec.recorded import Energy

if TYPE_CHECKING:
    from peakgate.device.gpu import GpuDevice  # it imports this module
    from peakgate.device.nvml import PowerMeter


# Inputs are drawn completely for each launch if the kernel takes at least this many times as long as writing them. A
# kernel that looks up cached results reads its input, the cached input and the result, and writes the result: a faster
# kernel gains nothing by that.
WHOLE_SHARE = 4

# For a GPU whose peak is unknown.
_LEAST_PEAK_GBS = 100.0


def _not_loaded() -> None:
    """The launch of a kernel whose machine code is not loaded."""
    raise AssertionError("the machine code of this case is not loaded")


class GpuLaunchable:
    """One case on the GPU: its function loaded, its arguments in device memory.

    ``other`` is a build to use instead of the case's own; it is not loaded yet. ``launch`` queues a launch on the
    prepared arrays. ``movable``: a launch can be bound to arrays at other offsets. ``loaded``: the code is on the GPU
    before its first launch.
    """

    def __init__(self, device: GpuDevice, arrays: CaseArrays, other: Cubin | None = None) -> None:
        self.case = arrays.case
        self.device, self.arrays = device, arrays
        self.resources: tuple[Resources, ...] = ()
        self.fingerprint: str | None = None
        self.waits_for_host = False
        self.movable = self.loaded = True
        self.launch: LaunchFunction = _not_loaded
        self._collect: LaunchFunction | None = None
        self._functions: list[Any] = []
        if self.case.stage.operation is not None:
            operation = operations.bind(self.case.stage.operation, list(arrays.prepared.values()))
            self.launch, self._collect = operation.launch, operation.collect
            self.waits_for_host, self.movable = operation.waits_for_host, operation.movable
        else:
            self._built = other or device.code.build(self.case)
            of_kernel = dict(zip(self.case.stage.kernels, self._built.of_kernels, strict=True))
            self.resources = tuple(of_kernel[each.kernel] for each in self.case.launches)
            self.fingerprint = self._built.fingerprint
            if other is None:
                self.load()

    def load(self, *, kept: bool = True) -> None:
        """Load the machine code and bind it to the prepared arrays; ``kept`` in the cache for other cases."""
        self._functions = self.device.code.functions(self._built, self.case, kept=kept)
        self.loaded = all(driver.load_function(function.ptr) for function in self._functions)
        self.launch = self.bind(self.arrays.prepared)

    def unload(self) -> None:
        """Release the machine code, which is unloaded unless another case uses it; ``load`` loads it again."""
        self._functions, self.launch = [], _not_loaded

    def bind(self, arrays: Mapping[int, Array]) -> LaunchFunction:
        """A launch on these arrays, by argument position, with tensor maps of them and structs that point to them."""
        if self.case.stage.operation is not None:
            return operations.bind(self.case.stage.operation, list(arrays.values())).launch
        given = {**arrays, **{at: each.handle for at, each in self.arrays.texels.items()}}
        addresses = {at: array.data.ptr for at, array in arrays.items()}
        values = [
            given[at]
            if isinstance(argument, Buffer)
            else tensor_maps.encoded(argument, self.arrays.buffers[argument.of], addresses[argument.of])
            if isinstance(argument, TensorMapArgument)
            else value_of(argument, addresses)
            for at, argument in enumerate(self.case.arguments)
        ]
        launches = [
            (function, each.launch.grid, each.launch.block, tuple(values[at] for at in each.takes), each.launch)
            for function, each in zip(self._functions, self.case.launches, strict=True)
        ]
        (function, grid, block, arguments, first), *later = launches
        shared, together = first.shared_bytes, self.case.stage.cooperative

        def launch() -> None:
            function(grid, block, arguments, shared, None, together)

        def launch_all() -> None:
            launch()
            for further, its_grid, its_block, its_arguments, shape in later:
                further(its_grid, its_block, its_arguments, shape.shared_bytes, None, together)

        return launch_all if later else launch

    @property
    def inputs(self) -> Sequence[Array]:
        return self.arrays.inputs

    @property
    def outputs(self) -> Sequence[Array]:
        return self.arrays.outputs(self.arrays.prepared)

    def give(self, inputs: Sequence[Array]) -> None:
        self.arrays.pristine = dict(zip(self.arrays.pristine, inputs, strict=False))

    def run(self, schedule: int = 0) -> None:  # noqa: ARG002  (a GPU has an order of its own)
        if self.device.lost:
            raise DeviceLost(self.device.lost)
        with self.device.faults_of(self.case):
            self.arrays.restore_inputs()
            self.arrays.fill_outputs()
            self.arrays.fill_texels()
            self.launch()
            self.arrays.read_texels()
            cupy.cuda.get_current_stream().synchronize()
            if self._collect:
                self._collect()
            refuse_damage(self.arrays.guards)
            refuse_changed_inputs(self.case, self.arrays.pristine, self.arrays.prepared, first_difference)

    def sample(self, plan: SamplingPlan, checker: SampleChecker | None = None) -> Samples:
        """Time launches, each with new buffer contents; the checker gets the launches that it requests."""
        stream = self.device.sample_stream(plan.batch)
        with self.device.faults_of(self.case):
            checks = checker or SampleChecker(self.device.draw, second_clock=False)
            return sampled(self, stream, plan, checks)

    def energy(self, launch_us: float, loops: int) -> Energy | None:
        """The energy of a launch, by loops of launches on the arrays as they are."""
        with self.device.faults_of(self.case):
            return measured_energy(
                self.device.energy_meter, self.launch, launch_us, loops, by_torch=False, waits=self.waits_for_host
            )

    @cached_property
    def power_meter(self) -> PowerMeter | None:
        """The power meter of all samples of this case."""
        return self.device.power_meter(self.case)


def sampled(launchable: GpuLaunchable, stream: SampleStream, plan: SamplingPlan, checker: SampleChecker) -> Samples:
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
        chosen = checker.chosen(count, launch_us, partial(room_for, launchable.outputs)) if launchable.movable else {}
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
