"""What a GPU device keeps for later cases: input data and noise in its memory, built cubins, loaded modules."""

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
from peakgate.compile.cubin import Cubin, Defines, cubin
from peakgate.device import elements
from peakgate.measure import refill
from peakgate.measure.data import input_array, random_offsets
from peakgate.spec.case import Array, Buffer, Case, Stage

_CACHED_INPUT_SHARE = 0.25
_GUARD_NOISE_BYTES = 1 << 20

# Memory to move a case's arrays about in: so much, or this share of the GPU's where that is less.
_ROOM_BYTES, _ROOM_SHARE = 2 << 30, 0.1

_SHARED_DEFAULT_BYTES = 48 << 10
_MAX_DYNAMIC_SHARED: int = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

Draw = Callable[[int], int]
Build = tuple[Stage, Defines]


class DataCache:
    """Data on a GPU of so much memory that many cases use. ``draw`` gives a whole number below its argument."""

    def __init__(self, memory_bytes: float) -> None:
        self._memory_bytes = memory_bytes
        self._inputs: OrderedDict[tuple[Any, ...], Array] = OrderedDict()
        self._noise: dict[str, Array] = {}
        self._guard_noise: np.ndarray[Any, Any] | None = None
        self._room: Array | None = None

    def input(self, buffer: Buffer, seed: int) -> Array:
        """Random data for an input; kept, because many cases ask for the same."""
        key = (buffer.shape, buffer.dtype, buffer.data, seed)
        if key not in self._inputs:
            self._inputs[key] = cupy.ascontiguousarray(input_array(cupy, buffer, seed, elements.random_array))
            kept_bytes = sum(array.nbytes for array in self._inputs.values())
            while kept_bytes > _CACHED_INPUT_SHARE * self._memory_bytes and len(self._inputs) > 1:
                kept_bytes -= self._inputs.popitem(last=False)[1].nbytes
        self._inputs.move_to_end(key)
        return self._inputs[key]

    def constants(self, case: Case) -> list[Array]:
        """The data of the stage's constants."""
        first = len(case.arguments)
        return [self.input(buffer, first + at) for at, (_, buffer) in enumerate(case.stage.constants)]

    def noise(self, dtype: str, draw: Draw) -> Array:
        """The noise that outputs of a type are filled with; drawn once per process."""
        if dtype not in self._noise:
            self._noise[dtype] = refill.noise(cupy, dtype, draw(refill.SEEDS))
        return self._noise[dtype]

    def guard_noise(self, draw: Draw) -> np.ndarray[Any, Any]:
        """Random bytes that guards are made of, drawn once per process, where no kernel writes by mistake.

        In page-locked memory, from which the GPU copies them in stream order.
        """
        if self._guard_noise is None:
            rng = np.random.default_rng(draw(refill.SEEDS))
            noise = np.frombuffer(cupy.cuda.alloc_pinned_memory(_GUARD_NOISE_BYTES), np.uint8, _GUARD_NOISE_BYTES)
            noise[...] = rng.integers(256, size=noise.size, dtype=np.uint8)
            self._guard_noise = noise
        return self._guard_noise

    def places(self, sizes_bytes: Sequence[int], draw: Draw) -> list[Array] | None:
        """Uninitialized views of these sizes at new random offsets; invalidates those of the previous call.

        None for arrays too large to be moved.
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
    """A cubin; two builds that are sampled in turns are loaded again and again."""
    return path.read_bytes()


def _text_bytes(case: Case) -> int:
    """The size of a case's source file; 0 where it cannot be read, which its build reports."""
    try:
        return case.stage.source.stat().st_size if case.stage.source else 0
    except OSError:
        return 0


class CodeCache:
    """The machine code of cases for a compute capability; ``constants`` gives the data of a case's constants."""

    def __init__(self, capability: tuple[int, int], constants: Callable[[Case], list[Array]]) -> None:
        self._capability, self._constants = capability, constants
        self._building: dict[Build, Future[Cubin]] = {}
        self._built: dict[Build, Cubin] = {}
        self._functions: dict[tuple[str, bool], dict[str, Any]] = {}

    def begin(self, cases: Iterable[Case]) -> Mapping[Build, Future[Cubin]]:
        """Begin the builds of cases with a source, on every processor."""
        distinct = {(case.stage, case.defines): case for case in cases if case.stage.source is not None}
        # The longest first, which the longest text most often is: they alone decide when all are built.
        ordered = sorted(distinct.items(), key=lambda item: -_text_bytes(item[1]))
        pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        self._building = {key: pool.submit(cubin, case.stage, case.defines, self._capability) for key, case in ordered}
        pool.shutdown(wait=False)
        return dict(self._building)

    def build(self, case: Case) -> Cubin:
        """The case's machine code; waits for a build that was begun."""
        key = case.stage, case.defines
        if key not in self._built:
            begun = self._building.pop(key, None)
            try:
                self._built[key] = begun.result() if begun else cubin(case.stage, case.defines, self._capability)
            finally:
                if not self._building:
                    nvrtc.end_all()
        return self._built[key]

    def functions(self, built: Cubin, case: Case, *, kept: bool = True) -> list[Any]:
        """The function of each of the case's launches, with the dynamic shared memory that its launches ask for.

        A cubin is loaded once, so that its kernels share the file's variables; its constants are set then. One that is
        not ``kept`` is loaded anew, and unloaded when nobody has its functions any more.
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
        for kernel, resources in zip(case.stage.kernels, (built.resources, *built.further), strict=True):
            shared = max((each.launch.shared_bytes for each in case.launches if each.kernel == kernel), default=0)
            if shared + resources.static_shared_bytes > _SHARED_DEFAULT_BYTES:
                cupy.cuda.driver.funcSetAttribute(functions[kernel].ptr, _MAX_DYNAMIC_SHARED, shared)
        return [functions[each.kernel] for each in case.launches]

    def forget_modules(self) -> None:
        """Let go of all loaded modules: each is unloaded when no case has its functions any more."""
        self._functions.clear()
