"""Loads one kernel of a .cu file: a ``cupy.RawKernel`` on a GPU, an object with the same interface in the emulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from peakgate.base import config
from peakgate.base.emulated import translated
from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import shown
from peakgate.compile.cubin import Cubin, Defines, cubin
from peakgate.compile.kernel_code import kernel_code
from peakgate.device import cpu
from peakgate.device.interface import Device
from peakgate.spec.case import Array, Launch, Stage
from peakgate_emulator import DEFAULT_CAPABILITY, KernelDefect


def load_kernel(device: Device, path: str | Path, entry: str, defines: Mapping[str, object]) -> Any:
    """The kernel ``entry`` of a file, whose path is relative to the project's root, built with the project's options.

    ``entry`` may have template arguments, such as ``softmax<float, 256>``; ``defines`` are macros. Raises BuildError if
    it does not compile.
    """
    project = config.current()
    if not isinstance(path, str | Path) or not isinstance(entry, str):
        raise PeakgateError(
            f"load_kernel is given {shown(path)}, {shown(entry)}; expected a path and the name of a kernel",
            Code.ARGUMENTS,
        )
    source = project.root / path
    stage = Stage(
        source.stem, "a kernel by itself", source, entry=entry, options=project.options, include=project.include
    )
    defined = tuple((name, str(int(value) if isinstance(value, bool) else value)) for name, value in defines.items())
    if device.kind == "cpu":
        return EmulatedRawKernel(stage, defined)
    import cupy  # noqa: PLC0415  (a machine without a GPU has none)

    assert device.capability is not None
    built = cubin(stage, defined, device.capability)
    kernel = cupy.RawModule(path=str(built.path)).get_function(built.entry)
    _BUILT.append((kernel, built))
    return kernel


_BUILT: list[tuple[Any, Cubin]] = []
"""The kernels that were loaded, each with its machine code."""


def code_of(function: object) -> dict[str, str]:
    """The digest of the machine code of a kernel of ``load_kernel``, by its name; empty for anything else."""
    built = next((built for kernel, built in _BUILT if kernel is function), None)
    return {} if built is None else kernel_code(built.path.read_bytes(), frozenset([built.entry]))


class LaunchWatch(Protocol):
    """Gets every launch of an ``EmulatedRawKernel``: it chooses the orders of threads, and notes what is wrong."""

    def orders(self, kernel: EmulatedRawKernel) -> Sequence[int]:
        """The orders in which to run a launch; the test gets the results of the first."""

    def found(self, kernel: EmulatedRawKernel, order: int, error: KernelDefect | PeakgateError) -> None:
        """Note why a launch in this order failed."""


class EmulatedRawKernel:
    """A kernel that the emulator runs on NumPy arrays, with the interface of ``cupy.RawKernel``.

    Its resources are those of machine code for compute capability 9.0, which needs NVRTC. ``constants`` are the values
    of ``__constant__`` and ``__device__`` variables, by name, which each launch sets first.
    """

    watch: ClassVar[LaunchWatch | None] = None

    def __init__(self, stage: Stage, defines: Defines, constants: Mapping[str, Array] | None = None) -> None:
        self.name, self.backend, self.options, self.stage = stage.entry, "emulator", stage.options, stage
        self._defines, self._constants = defines, constants or {}
        assert stage.source is not None
        self._kernel = cpu.load(stage.source, stage.entry, defines, include=stage.include, options=stage.options)

    def __call__(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
    ) -> None:
        """Launch it on arrays, which are changed in place, and numbers.

        As on a GPU an integer of Python or of 64 bits fits a parameter of any integer type, and Python's float counts
        as float64. Raises KernelFault for a defect that the emulator finds, PeakgateError for an invalid launch.
        """
        __tracebackhide__ = True  # pytest then shows the line of the test
        given = list(map(_argument, args))
        orders = self.watch.orders(self) if self.watch else (0,)
        before = [(each, each.copy()) for each in given if isinstance(each, np.ndarray)] if len(orders) > 1 else []
        size, problem = _launch(grid, block, shared_mem), None
        try:
            with translated():
                for order in reversed(orders):
                    for array, elements in before:
                        np.copyto(array, elements)
                    self._kernel.launch(
                        size.grid,
                        size.block,
                        given,
                        shared_bytes=shared_mem,
                        schedule=order,
                        limit_s=config.current().emulation_timeout_s,
                        constants=self._constants,
                    )
        except (KernelDefect, PeakgateError) as error:
            if self.watch:
                self.watch.found(self, order, error)
            problem = cpu.fault_of(error) if isinstance(error, KernelDefect) else error
        if problem is not None:
            raise problem from None

    @property
    def attributes(self) -> dict[str, int]:
        """Resources by the names of CUDA's function attributes."""
        names = ("max_threads_per_block", "shared_size_bytes", "local_size_bytes", "num_regs")
        return {name: int(getattr(self, name)) for name in names}

    @property
    def num_regs(self) -> int:
        """Registers per thread."""
        return self._built.resources.registers

    @property
    def shared_size_bytes(self) -> int:
        """Static shared memory per block, in bytes."""
        return self._built.resources.static_shared_bytes

    @property
    def local_size_bytes(self) -> int:
        """Local memory per thread (its stack), in bytes."""
        return self._built.resources.stack_bytes

    @property
    def max_threads_per_block(self) -> int:
        """The limit of ``__launch_bounds__``, else CUDA's 1024."""
        return (self._built.bounds or (None,))[0] or 1024

    @cached_property
    def _built(self) -> Cubin:
        return cubin(self.stage, self._defines, DEFAULT_CAPABILITY)


def is_kernel(function: object) -> bool:
    """Whether it is a kernel of CuPy or of the emulator."""
    return hasattr(type(function), "shared_size_bytes")


def as_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """(function, args, kwargs) of a call; a kernel launch becomes a function of the kernel's arguments alone.

    So ``bytes``, ``reference`` and ``outputs`` are called with the kernel's arguments, without grid and block.
    """
    if not is_kernel(function) or len(args) != 3:
        return function, args, kwargs
    grid, block, arguments = args

    def launch(*arguments: Any) -> None:
        function(grid, block, arguments, **kwargs)

    return launch, tuple(arguments), {}


def _argument(given: Any) -> Any:
    """An argument as the emulator takes it."""
    if isinstance(given, np.ndarray):
        return given
    wide = isinstance(given, int | np.int64 | np.uint64) and not isinstance(given, bool)
    return int(given) if wide else np.asarray(given)[()]


def _launch(grid: object, block: object, shared_bytes: int) -> Launch:
    try:
        return Launch(_triple(grid), _triple(block), shared_bytes)
    except ValueError as error:
        raise PeakgateError(str(error), Code.LAUNCH) from None


def _triple(extents: object) -> tuple[int, int, int]:
    if not isinstance(extents, Sequence) or len(extents) > 3 or not all(isinstance(each, Integral) for each in extents):
        raise PeakgateError(f"the grid or block is {shown(extents)}; expected (x,), (x, y) or (x, y, z)", Code.LAUNCH)
    x, y, z = (*map(int, extents), *(1,) * (3 - len(extents)))
    return x, y, z
