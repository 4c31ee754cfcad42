"""Loads an emulated kernel, runs it on NumPy arrays and raises its defects as exceptions."""

from __future__ import annotations

import ctypes
import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from peakgate_emulator.arguments import MAX_ARGUMENTS, Arguments, GivenArgument, Place
from peakgate_emulator.binary import (
    LaunchStructure,
    Parameter,
    ReportStructure,
    VariableStructure,
    callers_of,
    guards_of,
    lines_of,
    shared_arrays_of,
    symbols_of,
    variables_of,
)
from peakgate_emulator.build import BuildOptions, build_kernel
from peakgate_emulator.compiler import NEEDS_TWIN
from peakgate_emulator.defects import (
    DefectKind,
    EmulatorDefect,
    KernelDefect,
    MissingFence,
    Trace,
    Triple,
    in_reading_order,
)
from peakgate_emulator.errors import ArgumentsError, CannotEmulate, KernelBuildError, LaunchError, LaunchNotEnded
from peakgate_emulator.signatures import parameter_names
from peakgate_emulator.sources import entry_of, read_sources

MAX_SHARED_BYTES = 227 * 1024
BLOCK_MAX, GRID_MAX, THREADS_PER_BLOCK_MAX = (1024, 1024, 64), (2**31 - 1, 65535, 65535), 1024
MAX_COOPERATIVE_THREADS = 16384
NOT_EMULATED = 17
"""Kind of a report that is not a defect: the kernel reached something that is not emulated."""
NOT_ENDED_KIND = 19
"""Kind of a report that is not a defect: the launch exceeded its time limit."""
_NO_BUDGET = 1 << 62
LAUNCH_LIMIT_S = 60.0
"""Default limit of a launch's processor time."""


_one_launch = threading.Lock()  # the runtime has the state of one launch, and ctypes releases the GIL


def load(
    source: Path,
    kernel: str,
    defines: tuple[tuple[str, str], ...] = (),
    **build: Unpack[BuildOptions],
) -> EmulatedKernel:
    """Build the ``__global__`` function ``kernel`` of a ``.cu`` file, or load it from the cache.

    ``kernel`` has the form of a stage's ``entry`` (``softmax<float, 256>``). ``include`` are further folders for its
    includes. From ``options``, which are NVRTC's, macros, include folders and the language standard are used.
    ``capability`` defines ``__CUDA_ARCH__``; ``specific`` also defines the macros of architecture-specific features.


    Raises KernelBuildError if it does not compile, another EmulatorError if a compiler is missing.
    """
    built = build_kernel(source, kernel, defines, **build)
    return EmulatedKernel(kernel, built, partial(_parameter_names, source, kernel, build.get("include", ())))


def _parameter_names(source: Path, kernel: str, include: Sequence[Path]) -> list[str]:
    files = read_sources(source, include)
    return parameter_names(files, entry_of(kernel, files).name)


class EmulatedKernel:
    """A kernel that runs on the CPU."""

    def __init__(self, name: str, library: Path, parameter_names: Callable[[], list[str]] = list) -> None:
        self.name = name
        self._library, self._parameter_names = library, parameter_names
        # Kernels linked by lld do not depend on a C library; they use the ones loaded globally. The runtime is called
        # through the kernel's image, since there may be one runtime per compiler.
        ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
        try:
            self._image = ctypes.CDLL(str(library))
        except OSError as error:
            raise KernelBuildError(
                f"kernel {name} cannot be loaded: {error}; is every function it calls defined?"
            ) from error
        count = self._image.peakgate_parameters(None)
        described = (Parameter * (count + 1))()
        self._image.peakgate_parameters(described)
        self._parameters = tuple(described[:count])
        guards = guards_of(library)
        self._guards = (ctypes.c_uint64 * len(guards))(*guards)
        self._shared_arrays = shared_arrays_of(library)
        has_variables = self._image.peakgate_has_variables()
        self._variables = variables_of(library) if has_variables else (VariableStructure * 0)()

    def launch(
        self,
        grid: Triple,
        block: Triple,
        arguments: Sequence[GivenArgument],
        *,
        shared_bytes: int = 0,
        schedule: int = 0,
        access_budget: int | None = None,
        limit_s: float = LAUNCH_LIMIT_S,
        constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
        outputs: Iterable[Place] = (),
        cooperative: bool = False,
        nonfinite: Mapping[Place, str] | None = None,
        trace: Trace | None = None,
    ) -> None:
        """Run the kernel; arrays are modified in place.

        Arguments for pointers are C-contiguous arrays of the element type (of any type for pointers to void or to a
        struct such as float4), those for values NumPy scalars of the type or Python integers. ``grid`` is in blocks,
        ``block`` in threads, ``shared_bytes`` is the dynamic shared memory. ``schedule`` is the order in which the
        threads of a block run: 0 ascending, 1 descending, larger ones seeds of a shuffle. ``access_budget`` limits
        memory accesses and waits; more are reported as an endless loop. ``limit_s`` limits processor time.
        ``constants`` are set first: ``__constant__`` and ``__device__`` variables by name, which keep their values.
        ``outputs`` are positions of arguments that the launch must write in full and must not read before it has
        written them; ``(1, 8)`` is what the pointer at byte 8 of argument 1 points to. ``cooperative`` lets all blocks
        wait for the grid. ``nonfinite`` has the types of arrays, by position, in which NaNs and infinities that the
        kernel writes are reported. ``trace`` records its block's accesses to shared memory.

        Raises KernelDefect for defects of the kernel, ArgumentsError or LaunchError for invalid input, LaunchNotEnded
        at the time limit.
        """
        self._check_shape(grid, block, shared_bytes)
        blocks = grid[0] * grid[1] * grid[2]
        if cooperative and blocks * block[0] * block[1] * block[2] > MAX_COOPERATIVE_THREADS:
            raise LaunchError(
                f"{self.name}: a cooperative launch of {blocks} blocks of {block[0] * block[1] * block[2]} threads, "
                f"expected at most {MAX_COOPERATIVE_THREADS} threads in all; give a smaller grid"
            )
        try:
            bound = Arguments(self.name, self._parameters, arguments)
        except ArgumentsError as error:
            names = self._parameter_names() if len(arguments) != len(self._parameters) else []
            message = self._with_names(str(error)) + (f": {', '.join(names)}" if names else "")
            raise ArgumentsError(message, error.value_type) from None
        bound.expect_written(outputs)
        bound.report_nonfinite(nonfinite or {})
        for name, values in (constants or {}).items():
            self._set(name, values)
        request = LaunchStructure(
            grid=grid,
            block=block,
            call=_address(self._image.peakgate_call),
            arguments=ctypes.addressof(bound.pointers),
            buffers=ctypes.addressof(bound.buffers),
            buffer_count=bound.buffer_count,
            schedule=schedule,
            shared_bytes=shared_bytes,
            limit_ms=math.ceil(1000 * limit_s),
            cooperative=cooperative,
            access_budget=_NO_BUDGET if access_budget is None else access_budget,
            dynamic_shared=_address(self._image.peakgate_dynamic_shared),
            textures=ctypes.addressof(bound.textures),
            texture_count=bound.texture_count,
            guards=ctypes.addressof(self._guards),
            guard_count=len(self._guards),
            shared_arrays=ctypes.addressof(self._shared_arrays),
            shared_array_count=len(self._shared_arrays),
            slots=ctypes.addressof(bound.slots),
            slot_count=bound.slot_count,
            variables=ctypes.addressof(self._variables),
            variable_count=len(self._variables),
            tensor_maps=ctypes.addressof(bound.tensor_maps),
            tensor_map_count=bound.tensor_map_count,
        )
        if trace:
            trace.begin(request, self._library)
        with _one_launch:
            status = self._image.peakgate_launch(ctypes.byref(request))
            reports = self._reports(bound.named)
        if status:
            raise CannotEmulate(
                f"{self.name}: no memory or timer for an emulated launch on {bound.nbytes} bytes; try less"
            )
        if reports:
            raise KernelDefect(reports)
        if unwritten := bound.unwritten():
            defects = [_unwritten(*found) for found in unwritten]
            raise KernelDefect(
                tuple(replace(each, message=self._with_names(each.message, bound.named)) for each in defects)
            )
        if unset := bound.unset():
            for argument, byte in unset:
                self._image.peakgate_report_unset(argument, ctypes.c_uint64(byte))
            raise KernelDefect(self._reports(bound.named))

    def _set(self, variable: str, values: np.ndarray[Any, Any]) -> None:
        """Copy ``values`` to a ``__constant__`` or ``__device__`` variable; ArgumentsError if missing or too small."""
        known = {
            symbol.name: symbol
            for symbol in symbols_of(self._library)
            if symbol.kind in ("STT_OBJECT", "STT_FUNC") and symbol.section and not symbol.section.startswith(".rodata")
        }
        found = next((known[name] for name in _mangled(variable) if name in known), None)
        if found is None:
            raise ArgumentsError(
                f"{self.name}: no variable {variable!r}; expected a __constant__ or __device__ one that is not const"
            )
        if values.nbytes > found.size:
            raise ArgumentsError(
                f"{self.name}: {values.nbytes} bytes given for variable {variable}, which has {found.size}"
            )
        contiguous = np.ascontiguousarray(values)
        loaded_at = (_address(self._image.peakgate_call) or 0) - known["peakgate_call"].address
        ctypes.memmove(loaded_at + found.address, contiguous.ctypes.data, contiguous.nbytes)

    def _check_shape(self, grid: Triple, block: Triple, shared_bytes: int) -> None:
        for what, given, limits in (("grid", grid, GRID_MAX), ("block", block, BLOCK_MAX)):
            if len(given) != 3 or any(not 1 <= size <= limit for size, limit in zip(given, limits, strict=True)):
                raise LaunchError(f"{self.name}: {what} {given} given, expected three sizes of 1 to {limits}")
        threads = block[0] * block[1] * block[2]
        if threads > THREADS_PER_BLOCK_MAX:
            raise LaunchError(
                f"{self.name}: block {block} has {threads} threads, at most {THREADS_PER_BLOCK_MAX} are possible"
            )
        if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
            raise LaunchError(
                f"{self.name}: {shared_bytes} bytes of dynamic shared memory given, expected 0 to {MAX_SHARED_BYTES}"
            )

    def _with_names(self, message: str, pointers: Sequence[tuple[int, str]] = ()) -> str:
        """A message with ``argument 2 (in)`` in place of ``argument 1``, which the runtime counts from 0.

        Without the parameter's name where the source does not have it in so many words. ``pointers`` are those that
        have names: ``argument 2 (params.in)``.
        """

        def named(found: re.Match[str]) -> str:
            place, names, pointer = int(found[1]), self._parameter_names(), ""
            if place >= MAX_ARGUMENTS:
                place, pointer = pointers[place - MAX_ARGUMENTS]
            known = names[place] if len(names) == len(self._parameters) else ""
            said = ".".join(filter(None, (known, pointer)))
            return f"argument {place + 1} ({said})" if said else f"argument {place + 1}"

        return re.sub(r"\bargument (\d+)", named, message)

    def _reports(self, named: Sequence[tuple[int, str]]) -> tuple[EmulatorDefect, ...]:
        first = ctypes.POINTER(ReportStructure)()
        count = self._image.peakgate_reports(ctypes.byref(first))
        reports = first[:count]
        lines = lines_of(
            self._library,
            {at for report in reports for at in (report.address, report.other_address, report.published_at)},
        )
        for report in reports:
            if report.kind == NOT_EMULATED:
                raise KernelBuildError(f"{lines.get(report.address)}: {report.message.decode()}{NEEDS_TWIN}")
        unended = next((report for report in reports if report.kind == NOT_ENDED_KIND), None)
        if unended is not None and count == 1:
            raise LaunchNotEnded(
                f"{lines.get(unended.address) or self.name}: {unended.message.decode()}; thread "
                f"{unended.thread.triple()} of block {unended.block.triple()} was here; give a smaller problem, or "
                "allow more: emulation_timeout_s of [tool.peakgate]"
            )
        callers = callers_of(self._library, {at for each in reports for at in (each.address, each.other_address)})
        defects = [
            EmulatorDefect(
                kind=DefectKind(report.kind),
                message=self._with_names(report.message.decode(errors="replace"), named),
                location=lines.get(report.address),
                other_location=lines.get(report.other_address),
                thread=report.thread.triple(),
                block=report.block.triple(),
                other_thread=report.other_thread.triple() if report.has_other_thread else None,
                other_block=report.other_block.triple() if report.has_other_thread else None,
                fence=MissingFence(report.missing_fence),
                published_at=lines.get(report.published_at),
                called_from=callers.get(report.address),
                other_called_from=callers.get(report.other_address),
                count=report.count,
            )
            for report in reports
            if report.kind != NOT_ENDED_KIND
        ]
        return in_reading_order(defects)


def _unwritten(place: int, size: int, count: int, first: int) -> EmulatorDefect:
    message = f"no thread wrote to argument {place}, which is an output"
    if count < size:
        message += f": {count} of its {size} bytes, byte {first} first"
    nobody = (0, 0, 0)
    return EmulatorDefect(DefectKind.UNWRITTEN_OUTPUT, message, None, None, nobody, nobody, None, None, 1)


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def _mangled(variable: str) -> list[str]:
    """Possible symbol names of a variable: plain, static, in namespaces, or both."""
    parts = variable.split("::")
    spelled = [f"{len(part)}{part}" for part in parts]
    if len(parts) == 1:
        return [variable, f"_ZL{spelled[0]}"]
    outer, last = "".join(spelled[:-1]), spelled[-1]
    return [f"_ZN{outer}{last}E", f"_ZN{outer}L{last}E"]
