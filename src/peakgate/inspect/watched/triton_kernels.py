"""Checks the launches of ``triton.jit`` functions in the running test, without a GPU.

Each goes through triton-viz: first its sanitizer, which finds accesses out of bounds without accessing memory; if there
are none, the interpreter runs the launch, and the loads and stores of its programs are recorded. ``torch.empty`` fills
floats with a special NaN, which reveals uninitialised elements when they are read or left in a wrong result.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import triton
import triton_viz
from triton_viz.clients import Sanitizer
from triton_viz.core.callbacks import ForLoopCallbacks, OpCallbacks
from triton_viz.core.client import Client
from triton_viz.core.data import AtomicCas, AtomicRMW, Load, Op, Store

from peakgate.inspect.watched.running import running
from peakgate.inspect.watched.triton_races import ProgramAccess, races
from peakgate_emulator.defects import RaceStep

MOST_ACCESSES = 1 << 22  # launches with more are checked for bounds only


class OutOfBounds(Exception):
    """A launch was not run, because it would access memory out of bounds."""


def found(kernel: str, kind: str, place: str, what: str, order: Sequence[tuple[str, tuple[int, ...]]] = ()) -> None:
    """Add a finding to the running test; ``order`` are the programs' accesses that show it, each with its place."""
    steps = []
    for location, program in order:
        x, y, z = (*program, 0, 0, 0)[:3]
        steps.append(RaceStep(location, None, (x, y, z)))
    running.found(kernel, kind, place, f"{place}: {kind}: {what}", steps)


class Recorder(Client):  # type: ignore[misc]  # triton-viz has no types
    """Records the loads and stores of every program, and whether there are atomics, which may order them."""

    NAME = "peakgate"

    def __init__(self, kernel: str, function: Callable[..., Any]) -> None:
        super().__init__()
        self.kernel, self.file = kernel, function.__code__.co_filename
        self.accesses: list[ProgramAccess] = []
        self.atomics = False
        self.elements = 0
        self._program: tuple[int, ...] = ()

    def pre_run_callback(self, _fn: Callable[..., Any]) -> bool:
        return True

    def post_run_callback(self, _fn: Callable[..., Any]) -> bool:
        return True

    def pre_warmup_callback(self, *_: Any, **__: Any) -> bool:
        return False

    def post_warmup_callback(self, *_: Any) -> None:
        """Nothing is compiled."""

    def arg_callback(self, name: str, arg: Any, arg_cvt: Any) -> None:
        """Not needed: addresses are absolute."""

    def grid_callback(self, grid: tuple[int, ...]) -> None:
        """Not needed: nothing depends on the grid."""

    def grid_idx_callback(self, grid_idx: tuple[int, ...]) -> None:
        self._program = tuple(map(int, grid_idx))

    def register_for_loop_callback(self) -> ForLoopCallbacks:
        return ForLoopCallbacks()

    def finalize(self) -> list[Any]:
        return []

    def register_op_callback(self, op_type: type[Op], *_: Any, **__: Any) -> OpCallbacks:
        if op_type is Load:
            return OpCallbacks(after_callback=self._loaded)
        if op_type is Store:
            return OpCallbacks(before_callback=self._stored)
        if op_type in (AtomicCas, AtomicRMW):
            return OpCallbacks(before_callback=self._atomic)
        return OpCallbacks()

    def _atomic(self, *_: Any, **__: Any) -> None:
        self.atomics = True

    def _stored(self, ptr: Any, mask: Any, *_: Any) -> None:
        running.last_store = self._note(ptr, mask, stores=True)

    def _loaded(self, ret: Any, ptr: Any, mask: Any, *_: Any) -> None:
        place = self._note(ptr, mask, stores=False)
        unwritten = _unwritten(np.asarray(ret.data)) & np.broadcast_to(_mask(mask, ptr), np.shape(ret.data))
        if unwritten.any():
            text = f"{int(unwritten.sum())} uninitialised elements are read, by program {self._program}"
            found(self.kernel, "uninitialised read", place, text, [(place, self._program)])

    def _note(self, ptr: Any, mask: Any, *, stores: bool) -> str:
        frames = [frame for frame in traceback.extract_stack() if frame.filename == self.file]
        place = running.place(self.file, frames[-1].lineno or 0) if frames else self.kernel
        addresses = np.asarray(ptr.data).astype(np.int64)[_mask(mask, ptr)].ravel()
        self.elements += addresses.size
        if self.elements <= MOST_ACCESSES:
            self.accesses.append(ProgramAccess(self._program, place, stores, addresses))
        return place


def _mask(mask: Any, ptr: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    shape = np.shape(ptr.data)
    return np.ones(shape, bool) if mask is None else np.broadcast_to(np.asarray(mask.data, bool), shape)


def _unwritten(values: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mask of floats with the pattern of ``torch.empty``: all bits are ones."""
    if values.dtype.kind != "f":
        return np.zeros(values.shape, bool)
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    return np.asarray(bits == np.iinfo(bits.dtype).max)


class WatchedKernel:
    """A ``triton.jit`` function whose launches are checked."""

    def __init__(self, jitted: Any) -> None:
        self._jitted, self.fn = jitted, jitted.fn
        functools.update_wrapper(self, jitted.fn)
        self.arg_names = jitted.arg_names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jitted, name)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *arguments, **named: self.run(*arguments, grid=grid, warmup=False, **named)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """A call from another kernel."""
        return self._traced(Recorder(self.fn.__name__, self.fn))(*arguments, **named)

    def run(self, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> Any:  # noqa: ARG002  (Triton's)
        """Check for accesses out of bounds; if there are none, run the launch and check for races."""
        kernel = self.fn.__name__
        running.launched(kernel)
        sanitizer = Sanitizer(abort_on_error=False)
        try:
            self._traced(sanitizer)[grid](*arguments, **named)
        except Exception as error:  # an operation that the sanitizer does not support; earlier ones were checked
            running.limit(f"{kernel}: the sanitizer ends with {type(error).__name__}: {str(error)[:100]}")
        for record in sanitizer.records:
            frame = record.user_code_tracebacks[-1]
            place, tensor = running.place(frame.filename, frame.lineno), record.tensor
            what = "store" if issubclass(record.op_type, Store) else "load"
            offset = record.violation_address - tensor.data_ptr()
            size = tensor.numel() * tensor.element_size()
            found(kernel, "out of bounds", place, f"{what} at byte {offset} of a tensor of {size}")
        if sanitizer.records:
            raise OutOfBounds(f"{kernel} was not run: it accesses memory out of bounds")
        recorder = Recorder(kernel, self.fn)
        answer = self._traced(recorder)[grid](*arguments, **named)
        if recorder.elements > MOST_ACCESSES:
            running.limit(
                f"{kernel}: {recorder.elements} accesses in a launch, more than {MOST_ACCESSES}: not checked for races"
            )
        elif recorder.atomics:
            running.limit(f"{kernel}: atomics may order its programs: not checked for races")
        else:
            for race in races(recorder.accesses):
                kind = "write after write" if race.other.stores else "read and write"
                text = (
                    f"{kind} of the same element by programs {race.stored.program} and {race.other.program}, which are "
                    f"not ordered ({race.addresses} elements; the other access at {race.other.place})"
                )
                steps = [(race.other.place, race.other.program), (race.stored.place, race.stored.program)]
                found(kernel, "race between programs", race.stored.place, text, steps)
        return answer

    def _traced(self, client: Client) -> Any:
        return triton_viz.trace(client=client)(self._jitted)


def watch() -> None:
    """Patch Triton so that kernels defined later are checked, tuned ones only with their first configuration."""
    jit, autotune = triton.jit, triton.autotune

    def watched_jit(fn: Any = None, **options: Any) -> Any:
        return WatchedKernel(jit(fn)) if fn is not None else lambda function: WatchedKernel(jit(**options)(function))

    def first_configuration(configs: Sequence[Any], *_: Any, **__: Any) -> Callable[[WatchedKernel], Any]:
        def chosen(kernel: WatchedKernel) -> WatchedKernel:
            run, fixed = kernel.run, configs[0].kwargs

            def tuned(*arguments: Any, **named: Any) -> Any:
                if len(configs) > 1:
                    running.limit(f"{kernel.fn.__name__}: {len(configs) - 1} further configurations")
                return run(*arguments, **{**fixed, **named})

            kernel.run = tuned  # type: ignore[method-assign]
            return kernel

        return chosen

    assert autotune is not None
    triton.jit, triton.autotune = watched_jit, first_configuration
    for name in ("empty", "empty_like", "empty_strided"):
        setattr(torch, name, _noisy(getattr(torch, name)))


def _noisy(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(*arguments: Any, **named: Any) -> Any:
        tensor = make(*arguments, **named)
        if tensor.is_floating_point() and tensor.device.type == "cpu" and tensor.numel():
            tensor.untyped_storage().fill_(255)
        return tensor

    return made
