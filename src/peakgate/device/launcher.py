"""One case on the GPU: loads its machine code, binds it to arrays, launches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import cupy

from peakgate.compile.cubin import Cubin, Resources
from peakgate.device import driver, operations, sampler, tensor_maps
from peakgate.device.arrays import CaseArrays, LaunchFunction, refuse_damage
from peakgate.device.interface import DeviceLost, SampleChecker
from peakgate.device.state import measured_energy
from peakgate.measure.sampling import Samples, SamplingPlan
from peakgate.spec.arguments import TensorMapArgument, value_of
from peakgate.spec.case import Array, Buffer
from peakgate.spec.recorded import Energy

if TYPE_CHECKING:
    from peakgate.device.gpu import GpuDevice  # it imports this module
    from peakgate.device.nvml import PowerMeter


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
        self.resources: Resources | None = None
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
            self.resources, self.fingerprint = self._built.resources, self._built.fingerprint
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

    def sample(self, plan: SamplingPlan, checker: SampleChecker | None = None) -> Samples:
        """Time launches, each with new buffer contents; the checker gets the launches that it requests."""
        stream = self.device.sample_stream(plan.batch)
        with self.device.faults_of(self.case):
            checks = checker or SampleChecker(self.device.draw, second_clock=False)
            return sampler.sample(self, stream, plan, checks)

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
