"""Initializes the GPU in a thread while Python imports modules: reads its state, creates the CUDA contexts.

The driver takes 0.1 to 0.2 s, a CUDA context 0.1 s, importing pytest and CuPy half a second.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass

from peakgate.compile import nvrtc
from peakgate.device import driver, modules, nvml, references
from peakgate.device.interface import Load, Preflight


@dataclass(frozen=True, slots=True)
class Before:
    """A GPU before this process uses it: its state and load."""

    state: Preflight
    load: Load


_begun: dict[int, Future[Before | None]] = {}


def begin(index: int) -> None:
    """Start a thread that creates this process's context on the GPU with this CUDA index, if there is one.

    If the caches are empty it also starts the processes that compile.
    """
    _begun[index] = Future()
    threading.Thread(target=_work, args=(index, _begun[index]), daemon=True).start()


def before(index: int, *, follows: bool) -> Before:
    """The GPU before this process used it; waits for its context if ``begin`` was called.

    With ``follows`` the modules of this process are followed from before the context on, as after ``begin``.
    """
    begun = _begun.pop(index, None)
    if begun is None and follows:
        modules.follow(index)
    return (begun and begun.result()) or _seen(index)


def _work(index: int, found: Future[Before | None]) -> None:
    try:
        seen = None
        if index < driver.gpu_count():
            references.begin(index)
            nvrtc.begin()
            seen = _seen(index)
            modules.follow(index)
            driver.retain_context(index)  # if that fails, opening the device reports why
            references.make_contexts()  # after this process's context, which may be the only one allowed
        found.set_result(seen)
    except Exception as error:
        found.set_exception(error)
    threading.main_thread().join()  # child processes end with the thread that started them (PR_SET_PDEATHSIG)


def _seen(index: int) -> Before:
    return Before(nvml.state(nvml.handle(index)), nvml.load(index))
