"""Caches of a GPU device across cases: input data and noise in its memory, cubins, loaded modules."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from peakgate.compile import nvrtc
from peakgate.compile.cubin import Cubin, Defines, cubin, refuse_other_sizes
from peakgate.device import elements
from peakgate.measure import refill
from peakgate.measure.data import input_array, random_offsets
from peakgate.measure.patterns import Patterned
from peakgate.spec.case import Array, Buffer, Case, Stage

_CACHED_INPUT_SHARE = 0.25
_GUARD_NOISE_BYTES = 1 << 20

# Smaller inputs are drawn on the host, where no kernel need be compiled for their operations.
_MADE_ON_HOST_BYTES = 1 << 20

# Memory for random placement of a case's arrays: this size, or this share of the GPU's memory if that is less.
_ROOM_BYTES, _ROOM_SHARE = 2 << 30, 0.1

_SHARED_DEFAULT_BYTES = 48 << 10
_MAX_DYNAMIC_SHARED: int = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

Draw = Callable[[int], int]
Build = tuple[Stage, Defines]


class DataCache:
    """Data on a GPU that many cases use. ``draw`` arguments return a whole number below theirs."""

    def __init__(self, memory_bytes: float) -> None:
        self._memory_bytes = memory_bytes
        self._inputs: OrderedDict[tuple[Any, ...], Array] = OrderedDict()
        self._kept_bytes = 0
        self._noise: dict[str, Array] = {}
        self._guard_noise: np.ndarray[Any, Any] | None = None
        self._room: Array | None = None

    def input(self, buffer: Buffer, seed: int) -> Array:
        """The data of an input, cached because many cases use the same."""
        key = (buffer.shape, buffer.dtype, buffer.data, seed)
        if key not in self._inputs:
            ours = isinstance(buffer.data, Patterned) or not callable(buffer.data)
            if ours and buffer.nbytes <= _MADE_ON_HOST_BYTES:
                made = cupy.asarray(np.ascontiguousarray(input_array(np, buffer, seed)))
            else:
                made = cupy.ascontiguousarray(input_array(cupy, buffer, seed, elements.random_array))
            self._inputs[key] = made
            self._kept_bytes += made.nbytes
            while self._kept_bytes > _CACHED_INPUT_SHARE * self._memory_bytes and len(self._inputs) > 1:
                self._kept_bytes -= self._inputs.popitem(last=False)[1].nbytes
        self._inputs.move_to_end(key)
        return self._inputs[key]

    def constants(self, case: Case) -> list[Array]:
        """The data of the stage's constants."""
        first = len(case.arguments)
        return [self.input(buffer, first + at) for at, (_, buffer) in enumerate(case.stage.constants)]

    def noise(self, dtype: str, draw: Draw) -> Array:
        """The noise for outputs of a type, drawn once per process."""
        if dtype not in self._noise:
            self._noise[dtype] = refill.noise(cupy, dtype, draw(refill.SEEDS))
        return self._noise[dtype]

    def guard_noise(self, draw: Draw) -> np.ndarray[Any, Any]:
        """Random bytes for guards, drawn once per process.

        In pinned host memory, which kernels cannot overwrite by mistake and the GPU copies in stream order.
        """
        if self._guard_noise is None:
            rng = np.random.default_rng(draw(refill.SEEDS))
            noise = np.frombuffer(cupy.cuda.alloc_pinned_memory(_GUARD_NOISE_BYTES), np.uint8, _GUARD_NOISE_BYTES)
            noise[...] = rng.integers(256, size=noise.size, dtype=np.uint8)
            self._guard_noise = noise
        return self._guard_noise

    def places(self, sizes_bytes: Sequence[int], draw: Draw) -> list[Array] | None:
        """Uninitialized views of these sizes at new random offsets; invalidates those of the previous call.

        None if the arrays are too large.
        """
        room_bytes = int(min(_ROOM_BYTES, _ROOM_SHARE * self._memory_bytes))
        offsets = random_offsets(sizes_bytes, room_bytes, np.random.default_rng(draw(refill.SEEDS)))
        if offsets is None:
            return None
        if self._room is None:
            self._room = cupy.empty(room_bytes, np.uint8)
        return [self._room[offset : offset + size] for offset, size in zip(offsets, sizes_bytes, strict=True)]


@lru_cache(maxsize=2)
def _machine_code(path: Path) -> bytes:
    """The bytes of a cubin; cached because two builds that are sampled interleaved are loaded repeatedly."""
    return path.read_bytes()


def _text_bytes(case: Case) -> int:
    """The size of a case's source file; 0 if it cannot be read, which its build reports."""
    try:
        return case.stage.source.stat().st_size if case.stage.source else 0
    except OSError:
        return 0


class CodeCache:
    """The machine code of cases for a compute capability; ``constants`` returns the data of a case's constants."""

    def __init__(self, capability: tuple[int, int], constants: Callable[[Case], list[Array]]) -> None:
        self._capability, self._constants = capability, constants
        self._building: dict[Build, Future[Cubin]] = {}
        self._built: dict[Build, Cubin] = {}
        self._functions: dict[tuple[str, bool], dict[str, Any]] = {}

    def begin(self, cases: Iterable[Case]) -> Mapping[Build, Future[Cubin]]:
        """Start the builds of cases with a source, on every processor."""
        distinct = {(case.stage, case.defines): case for case in cases if case.stage.source is not None}
        # The longest source first, which usually compiles longest and determines when all are built.
        ordered = sorted(distinct.items(), key=lambda item: -_text_bytes(item[1]))
        pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        self._building = {key: pool.submit(cubin, case.stage, case.defines, self._capability) for key, case in ordered}
        pool.shutdown(wait=False)
        return dict(self._building)

    def is_built(self, case: Case) -> bool:
        """Whether no build of the case is going on."""
        begun = self._building.get((case.stage, case.defines))
        return begun is None or begun.done()

    def build(self, case: Case) -> Cubin:
        """The case's machine code; waits for a build that was started.

        Raises PeakgateError for an argument of another size than the kernel takes.
        """
        key = case.stage, case.defines
        if key not in self._built:
            begun = self._building.pop(key, None)
            try:
                self._built[key] = begun.result() if begun else cubin(case.stage, case.defines, self._capability)
            finally:
                if not self._building:
                    nvrtc.end_all()
        refuse_other_sizes(self._built[key], case)
        return self._built[key]

    def functions(self, built: Cubin, case: Case, *, kept: bool = True) -> list[Any]:
        """The function of each of the case's launches, with their dynamic shared memory enabled.

        A cubin is loaded once, so that its kernels share the file's variables; its constants are set then. If it is not
        ``kept`` it is loaded again, and unloaded when its functions are no longer referenced.
        """
        key = (str(built.path), case.stage.cooperative)
        functions = self._functions.get(key) if kept else None
        if functions is None:
            module = cupy.cuda.Module()
            module.load(_machine_code(built.path))
            for lowered, values in zip(built.constants, self._constants(case), strict=True):
                at = module.get_global_var(lowered)
                cupy.cuda.runtime.memcpy(at, values.data.ptr, values.nbytes, cupy.cuda.runtime.memcpyDeviceToDevice)
            functions = {
                kernel: module.get_function(entry)
                for kernel, entry in zip(case.stage.kernels, built.entries, strict=True)
            }
        if kept:
            self._functions[key] = functions
        for kernel, resources in zip(case.stage.kernels, built.of_kernels, strict=True):
            shared = max((each.launch.shared_bytes for each in case.launches if each.kernel == kernel), default=0)
            if shared + resources.static_shared_bytes > _SHARED_DEFAULT_BYTES:
                cupy.cuda.driver.funcSetAttribute(functions[kernel].ptr, _MAX_DYNAMIC_SHARED, shared)
        return [functions[each.kernel] for each in case.launches]

    def forget_modules(self) -> None:
        """Release all loaded modules; each is unloaded when its functions are no longer referenced."""
        self._functions.clear()
